"""trtdiag: what breaks on the way from torch.export to TensorRT, why, and what to write instead."""

from __future__ import annotations

from trtdiag.import_hook import after_import

TYPE_CHECKING = False  # typing takes longer than all of this file
if TYPE_CHECKING:
    from typing import Any

    __version__: str
    from trtdiag.artifact.load import load as load
    from trtdiag.artifact.rebuild import rebuild as rebuild
    from trtdiag.artifact.save import save as save
    from trtdiag.benchmark.facts import Benchmark as Benchmark
    from trtdiag.deployment.engines import EngineExport as EngineExport, export_engine as export_engine
    from trtdiag.deployment.triton import TritonExport as TritonExport, export_triton as export_triton
    from trtdiag.errors import (
        ArgumentError as ArgumentError,
        ArtifactError as ArtifactError,
        CaptureError as CaptureError,
        DiagnosisError as DiagnosisError,
        DimsError as DimsError,
        EngineBuildError as EngineBuildError,
        InternalError as InternalError,
        PlatformError as PlatformError,
        ShapeOutOfRangeError as ShapeOutOfRangeError,
        TrtdiagError as TrtdiagError,
        UnsupportedOpError as UnsupportedOpError,
        UserError as UserError,
        VerificationError as VerificationError,
    )
    from trtdiag.fixdims.fix import Fix as Fix
    from trtdiag.fixdims.run import fix_dims as fix_dims
    from trtdiag.fleet.outcome import Sweep as Sweep, sweep as sweep
    from trtdiag.frontend.capture import capture as capture
    from trtdiag.frontend.input import Input as Input
    from trtdiag.option_warnings import OptionWarning as OptionWarning
    from trtdiag.options import (
        AnalyzeOptions as AnalyzeOptions,
        CompileOptions as CompileOptions,
        PartitionOptions as PartitionOptions,
        Precision as Precision,
    )
    from trtdiag.pipeline.analyze import analyze as analyze
    from trtdiag.pipeline.bench import bench as bench
    from trtdiag.pipeline.compile import compile as compile
    from trtdiag.pipeline.refit import refit as refit
    from trtdiag.pipeline.verify import verify as verify
    from trtdiag.report.fix_programs import save_programs as save_programs
    from trtdiag.report.program_table import program_for as program_for
    from trtdiag.report.report import Report as Report
    from trtdiag.runtime.compiled import CompiledProgram as CompiledProgram
    from trtdiag.verification.facts import Verification as Verification
    from trtdiag.verification.limits import VerifyLimits as VerifyLimits

_NAMES = {
    "trtdiag.artifact.load": "load",
    "trtdiag.artifact.rebuild": "rebuild",
    "trtdiag.artifact.save": "save",
    "trtdiag.benchmark.facts": "Benchmark",
    "trtdiag.deployment.engines": "EngineExport export_engine",
    "trtdiag.deployment.triton": "TritonExport export_triton",
    "trtdiag.errors": (
        "ArgumentError ArtifactError CaptureError DiagnosisError DimsError EngineBuildError InternalError PlatformError"
        " ShapeOutOfRangeError TrtdiagError UnsupportedOpError UserError VerificationError"
    ),
    "trtdiag.fixdims.fix": "Fix",
    "trtdiag.fixdims.run": "fix_dims",
    "trtdiag.fleet.outcome": "Sweep sweep",
    "trtdiag.frontend.capture": "capture",
    "trtdiag.frontend.input": "Input",
    "trtdiag.option_warnings": "OptionWarning",
    "trtdiag.options": "AnalyzeOptions CompileOptions PartitionOptions Precision",
    "trtdiag.pipeline.analyze": "analyze",
    "trtdiag.pipeline.bench": "bench",
    "trtdiag.pipeline.compile": "compile",
    "trtdiag.pipeline.refit": "refit",
    "trtdiag.pipeline.verify": "verify",
    "trtdiag.report.fix_programs": "save_programs",
    "trtdiag.report.program_table": "program_for",
    "trtdiag.report.report": "Report",
    "trtdiag.runtime.compiled": "CompiledProgram",
    "trtdiag.verification.facts": "Verification",
    "trtdiag.verification.limits": "VerifyLimits",
}
"""The public names by the module that they come from."""
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}
__all__ = sorted({*_HOMES, "__version__"})
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
    """The public names, those that were not used yet among them, and what every module has."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # takes longer than the rest of this file

    try:
        return version("trtdiag")
    except PackageNotFoundError:  # run from a source folder that was never installed
        return "0+source"


def _register_ops() -> None:
    """Make saved programs loadable by ``torch.export.load``."""
    from importlib import import_module

    import_module("trtdiag.runtime.custom_op")
    import_module("trtdiag.graph.size_check")


def _offer_backend() -> None:
    """Let torch.compile find the backend in a source folder that was never installed, too."""
    from trtdiag.graph.dynamo_registry import offer_backend

    offer_backend("trtdiag", "trtdiag.torch_backend:compile_graph")


after_import("torch", _register_ops)
after_import("torch._dynamo.backends.registry", _offer_backend)
