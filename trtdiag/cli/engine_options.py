"""Options about what goes into engines and how they are built, for every command that plans or builds them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trtdiag.asked_bounds import read_bounds
from trtdiag.cli.option_groups import Options, chosen, flag, number, one_of, path, several
from trtdiag.cli.value_checks import MOST_COUNT, MOST_MIB, sizes_of
from trtdiag.options import HARDWARE, RANDOM, CompileOptions, PartitionOptions, Precision

GPU_OPTION: Options = {
    "gpu": several(
        "GENERATION",
        "With TensorRT-RTX: for these GPUs, sm75 to sm121, or all  [default: the one here, else sm80 and later]",
    )
}
_PARTITION: Options = {
    "keep_in_torch": several("OP|MODULE", "Leave these to PyTorch: ops (aten.softmax) and module paths (layers.0)."),
    "min_segment_ops": number(0, MOST_COUNT, "N", "Make no engine with fewer ops that compute  [default: 5]"),
    "require_full": flag("Everything in one engine, or an error."),
    "random": one_of(
        RANDOM, "Random ops stand between engines, or PyTorch draws for an engine first  [default: torch]"
    ),
}
_OTHERS: Options = {
    "truncate_double": flag("Compute float64 in float32 inside engines."),
    "precision": one_of([each.value for each in Precision], "What engines compute float32 in  [default: keep]"),
    "keep_fp32": several("OP|MODULE", "Stays float32 under fp16, bf16 and int8."),
    **GPU_OPTION,
}
_BOUNDS: Options = {
    "assume": {"multiple": True, "metavar": "'NAME<=MAX'", "help": "The greatest value of a size that data decides."},
    "max": several("DIM=SIZE", "The greatest size of a dim that the program leaves open."),
}
ENGINE_OPTIONS: Options = {**_PARTITION, **_OTHERS, **_BOUNDS}
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
    "build_in_process": flag("Build in the command's own process, which a crash of TensorRT's builder ends."),
}
"""In the order of the help."""


def chosen_engine_options(config: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The options as given, else those of the file, as fields of ``AnalyzeOptions`` and of ``CompileOptions``.

    Args:
        config: ``[tool.trtdiag]``.
        given: The command's arguments by name.

    Raises:
        UserError: ``config-wrong-value`` where the file has a precision that there is not; ``wrong-size``,
            ``wrong-assumption``.
    """
    others = chosen(_OTHERS, config, given)
    if "precision" in others:
        others["precision"] = Precision(others["precision"])
    return {
        "partition": PartitionOptions(**chosen(_PARTITION, config, given)),
        "assume": read_bounds(given["assume"]),
        "max_sizes": sizes_of(given["max"], "--max"),
        **others,
    }
