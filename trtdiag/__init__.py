"""trtdiag: what breaks on the way from torch.export to TensorRT, why, and what to write instead."""

from __future__ import annotations

import sys

from trtdiag.runtime.after_import import after_import

TYPE_CHECKING = False  # typing takes longer than all of this file
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    __version__: str
    from trtdiag.artifact.load import load
    from trtdiag.artifact.rebuild import rebuild
    from trtdiag.artifact.save import save
    from trtdiag.benching.facts import Benchmark
    from trtdiag.benching.run import bench
    from trtdiag.capture.input import Input
    from trtdiag.capture.load import capture
    from trtdiag.compiling import compile
    from trtdiag.errors import (
        ArgumentError,
        ArtifactError,
        CaptureError,
        DiagnosisError,
        DimsError,
        EngineBuildError,
        InternalError,
        PlatformError,
        ShapeOutOfRangeError,
        TrtdiagError,
        UnsupportedOpError,
        UserError,
        VerificationError,
    )
    from trtdiag.fixdims.fix import Fix
    from trtdiag.fixdims.run import fix_dims
    from trtdiag.option_warnings import OptionWarning
    from trtdiag.options import AnalyzeOptions, CompileOptions, PartitionOptions, Precision
    from trtdiag.pipeline import analyze
    from trtdiag.report.fix_programs import save_programs
    from trtdiag.report.program_table import program_for
    from trtdiag.report.report import Report
    from trtdiag.runtime.compiled import CompiledProgram
    from trtdiag.verify.facts import Verification
    from trtdiag.verify.run import VerifyLimits
    from trtdiag.verifying import verify

else:
    ModuleType = type(sys)

__all__ = [
    "AnalyzeOptions",
    "ArgumentError",
    "ArtifactError",
    "Benchmark",
    "CaptureError",
    "CompileOptions",
    "CompiledProgram",
    "DiagnosisError",
    "DimsError",
    "EngineBuildError",
    "Fix",
    "Input",
    "InternalError",
    "OptionWarning",
    "PartitionOptions",
    "PlatformError",
    "Precision",
    "Report",
    "ShapeOutOfRangeError",
    "TrtdiagError",
    "UnsupportedOpError",
    "UserError",
    "Verification",
    "VerificationError",
    "VerifyLimits",
    "__version__",
    "analyze",
    "bench",
    "capture",
    "compile",
    "fix_dims",
    "load",
    "program_for",
    "rebuild",
    "save",
    "save_programs",
    "verify",
]

_HOMES = {
    "AnalyzeOptions": "trtdiag.options",
    "ArgumentError": "trtdiag.errors",
    "ArtifactError": "trtdiag.errors",
    "Benchmark": "trtdiag.benching.facts",
    "CaptureError": "trtdiag.errors",
    "CompileOptions": "trtdiag.options",
    "CompiledProgram": "trtdiag.runtime.compiled",
    "DiagnosisError": "trtdiag.errors",
    "DimsError": "trtdiag.errors",
    "EngineBuildError": "trtdiag.errors",
    "Fix": "trtdiag.fixdims.fix",
    "Input": "trtdiag.capture.input",
    "InternalError": "trtdiag.errors",
    "OptionWarning": "trtdiag.option_warnings",
    "PartitionOptions": "trtdiag.options",
    "PlatformError": "trtdiag.errors",
    "Precision": "trtdiag.options",
    "Report": "trtdiag.report.report",
    "ShapeOutOfRangeError": "trtdiag.errors",
    "TrtdiagError": "trtdiag.errors",
    "UnsupportedOpError": "trtdiag.errors",
    "UserError": "trtdiag.errors",
    "Verification": "trtdiag.verify.facts",
    "VerificationError": "trtdiag.errors",
    "VerifyLimits": "trtdiag.verify.run",
    "analyze": "trtdiag.pipeline",
    "bench": "trtdiag.benching.run",
    "capture": "trtdiag.capture.load",
    "compile": "trtdiag.compiling",
    "fix_dims": "trtdiag.fixdims.run",
    "load": "trtdiag.artifact.load",
    "program_for": "trtdiag.report.program_table",
    "rebuild": "trtdiag.artifact.rebuild",
    "save": "trtdiag.artifact.save",
    "save_programs": "trtdiag.report.fix_programs",
    "verify": "trtdiag.verifying",
}
_SHOWN_BY = {"fix_dims": "trtdiag.report.fix_notebook", "Fix": "trtdiag.report.fix_notebook"}


def _public(name: str) -> Any:
    """Import the public names when they are first used: ``trtdiag --help`` should not wait for torch."""
    if name == "__version__":
        globals()[name] = found = _version()
        return found
    if name in _HOMES:
        from importlib import import_module

        if name in _SHOWN_BY:
            import_module(_SHOWN_BY[name])  # what it gives can then be printed, and shown in a notebook
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'trtdiag' has no attribute {name!r}")


if not TYPE_CHECKING:  # a type checker would take every name for one that there is
    __getattr__ = _public


def __dir__() -> list[str]:
    """What there is, the public names that were not used yet among it."""
    return sorted({*globals(), *__all__})


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # takes longer than the rest of this file

    try:
        return version("trtdiag")
    except PackageNotFoundError:  # run from a source folder that was never installed
        return "0+source"


class _CallableModule(ModuleType):
    """A subpackage with the name of a public function, which takes the function's place once it is imported."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _public(self.__name__.rpartition(".")[2])(*args, **kwargs)


class _FrontDoor(ModuleType):
    """This package: what is imported into it under the name of a public function can be called like that."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _HOMES and type(value) is ModuleType:
            value.__class__ = _CallableModule
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _FrontDoor


def _register_op() -> None:
    """Make saved programs loadable by ``torch.export.load``."""
    from importlib import import_module

    import_module("trtdiag.runtime.op")


def _offer_backend() -> None:
    """Let torch.compile find the backend in a source folder that was never installed, too."""
    from trtdiag.graph.dynamo_registry import offer_backend

    offer_backend("trtdiag", "trtdiag.torch_backend:compile_graph")


after_import("torch", _register_op)
after_import("torch._dynamo.backends.registry", _offer_backend)
