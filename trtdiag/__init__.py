"""trtdiag: what breaks on the way from torch.export to TensorRT, why, and what to write instead."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from trtdiag.runtime.after_import import after_import

if TYPE_CHECKING:
    __version__: str
    from trtdiag.artifact.load import load
    from trtdiag.artifact.rebuild import rebuild
    from trtdiag.artifact.save import save
    from trtdiag.benching.facts import Benchmark
    from trtdiag.benching.run import bench
    from trtdiag.capture.load import capture
    from trtdiag.compiling import compile
    from trtdiag.fixdims.fix import Fix
    from trtdiag.fixdims.run import fix_dims
    from trtdiag.options import AnalyzeOptions, CompileOptions
    from trtdiag.pipeline import analyze
    from trtdiag.report.fix_programs import save_programs
    from trtdiag.report.program_table import program_for
    from trtdiag.report.report import Report
    from trtdiag.runtime.compiled import CompiledProgram
    from trtdiag.verifying import verify

__all__ = [
    "AnalyzeOptions",
    "Benchmark",
    "CompileOptions",
    "CompiledProgram",
    "Fix",
    "Report",
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
    "Benchmark": "trtdiag.benching.facts",
    "AnalyzeOptions": "trtdiag.options",
    "CompileOptions": "trtdiag.options",
    "CompiledProgram": "trtdiag.runtime.compiled",
    "Fix": "trtdiag.fixdims.fix",
    "Report": "trtdiag.report.report",
}
_SHOWN_BY = {"fix_dims": "trtdiag.report.fix_notebook", "Fix": "trtdiag.report.fix_notebook"}


def __getattr__(name: str) -> Any:
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


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # takes longer than the rest of this file

    try:
        return version("trtdiag")
    except PackageNotFoundError:  # run from a source folder that was never installed
        return "0+source"


class _CallableModule(ModuleType):
    """A subpackage with the name of a public function, which takes the function's place once it is imported."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return __getattr__(self.__name__.rpartition(".")[2])(*args, **kwargs)


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
