"""Options about what goes into engines, for every command that plans them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trtdiag.cli.option_groups import Options, chosen, flag, number, one_of, several
from trtdiag.cli.value_checks import MOST_COUNT
from trtdiag.options import PartitionOptions, Precision

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
}
_OTHERS: Options = {
    "truncate_double": flag("Compute float64 in float32 inside engines."),
    "precision": one_of([each.value for each in Precision], "What engines compute float32 in  [default: keep]"),
    "keep_fp32": several("OP|MODULE", "Stays float32 under fp16 and bf16."),
    **GPU_OPTION,
}
ENGINE_OPTIONS: Options = {**_PARTITION, **_OTHERS}


def chosen_engine_options(config: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The options as given, else those of the file, as fields of ``AnalyzeOptions`` and of ``CompileOptions``.

    Args:
        config: ``[tool.trtdiag]``.
        given: The command's arguments by name.

    Raises:
        UserError: ``config-wrong-value`` where the file has a precision that there is not.
    """
    others = chosen(_OTHERS, config, given)
    if "precision" in others:
        others["precision"] = Precision(others["precision"])
    return {"partition": PartitionOptions(**chosen(_PARTITION, config, given)), **others}
