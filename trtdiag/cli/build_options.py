"""Options about how engines are built, for every command that builds them: fields of ``CompileOptions``."""

from __future__ import annotations

from trtdiag.cli.option_groups import Options, flag, number, one_of, path, several
from trtdiag.cli.value_checks import MOST_COUNT, MOST_MIB
from trtdiag.options import HARDWARE, CompileOptions

BUILD_OPTIONS: Options = {
    "optimization_level": number(0, 5, "0..5", "How long TensorRT searches for fast kernels  [default: its own, 3]"),
    "workspace_mib": number(0, MOST_MIB, "MIB", "Scratch memory that layers may use  [default: all of the GPU's]"),
    "tactic_sources": several(
        "SOURCE", "Where kernels may come from: CUBLAS, JIT_CONVOLUTIONS, ...  [default: TensorRT's own]"
    ),
    "tf32": flag("Compute float32 products with 10 bits of mantissa."),
    "hardware_compatibility": one_of(
        HARDWARE,
        "On which other GPUs engines may run: none, ampere+ (costs speed), same-compute-capability  [default: none]",
        metavar="LEVEL",
    ),
    "version_compatible": flag("Let later TensorRT versions of the same major number run the engines."),
    "engine_cache": path("DIR", "Keep engines there, and build none again that is there already."),
    "engine_cache_mib": number(
        1,
        MOST_MIB,
        "MIB",
        f"Keep so much there; what was not used for longest goes  [default: {CompileOptions().engine_cache_mib:,}]",
    ),
    "timing_cache": path("FILE", "Keep what TensorRT measured there, so that the next build is quicker."),
    "engine_per_gpu": flag("With --gpu: an engine for each, in one file; otherwise one that runs on all."),
    "build_jobs": number(
        1,
        MOST_COUNT,
        "N",
        "Build so many engines at once; they disturb each other's measurements  [default: 1, more at level 0]",
    ),
}
"""In the order of the help."""
