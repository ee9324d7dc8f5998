"""trtdiag: what breaks on the way from torch.export to TensorRT, why, and what to write instead."""

from __future__ import annotations

from trtdiag.runtime.after_import import after_import

TYPE_CHECKING = False  # typing takes longer than all of this file
if TYPE_CHECKING:
    from typing import Any

    __version__: str
    from trtdiag.artifact.load import load
    from trtdiag.artifact.rebuild import rebuild
    from trtdiag.artifact.save import save
    from trtdiag.benchmark.facts import Benchmark
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
    from trtdiag.frontend.capture import capture
    from trtdiag.frontend.input import Input
    from trtdiag.option_warnings import OptionWarning
    from trtdiag.options import AnalyzeOptions, CompileOptions, PartitionOptions, Precision
    from trtdiag.pipeline.analyze import analyze
    from trtdiag.pipeline.bench import bench
    from trtdiag.pipeline.compile import compile
    from trtdiag.pipeline.verify import verify
    from trtdiag.report.fix_programs import save_programs
    from trtdiag.report.program_table import program_for
    from trtdiag.report.report import Report
    from trtdiag.runtime.compiled import CompiledProgram
    from trtdiag.verification.facts import Verification
    from trtdiag.verification.run import VerifyLimits

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
    "Benchmark": "trtdiag.benchmark.facts",
    "CaptureError": "trtdiag.errors",
    "CompileOptions": "trtdiag.options",
    "CompiledProgram": "trtdiag.runtime.compiled",
    "DiagnosisError": "trtdiag.errors",
    "DimsError": "trtdiag.errors",
    "EngineBuildError": "trtdiag.errors",
    "Fix": "trtdiag.fixdims.fix",
    "Input": "trtdiag.frontend.input",
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
    "Verification": "trtdiag.verification.facts",
    "VerificationError": "trtdiag.errors",
    "VerifyLimits": "trtdiag.verification.run",
    "analyze": "trtdiag.pipeline.analyze",
    "bench": "trtdiag.pipeline.bench",
    "capture": "trtdiag.frontend.capture",
    "compile": "trtdiag.pipeline.compile",
    "fix_dims": "trtdiag.fixdims.run",
    "load": "trtdiag.artifact.load",
    "program_for": "trtdiag.report.program_table",
    "rebuild": "trtdiag.artifact.rebuild",
    "save": "trtdiag.artifact.save",
    "save_programs": "trtdiag.report.fix_programs",
    "verify": "trtdiag.pipeline.verify",
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
