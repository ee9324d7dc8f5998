"""Options about what goes into engines, for every command that plans them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from trtdiag.cli.list_options import listed
from trtdiag.cli.value_checks import MOST_COUNT
from trtdiag.errors import UserError
from trtdiag.options import PartitionOptions, Precision

_F = TypeVar("_F", bound=Callable[..., Any])
_PRECISIONS = tuple(precision.value for precision in Precision)

gpu_option = click.option(
    "--gpu",
    multiple=True,
    metavar="GENERATION",
    help="With TensorRT-RTX: for these GPUs, sm75 to sm121, or all  [default: the one here, else sm80 and later]",
)
_OPTIONS = (
    click.option(
        "--keep-in-torch",
        multiple=True,
        metavar="OP|MODULE",
        help="Leave these to PyTorch: ops (aten.softmax) and module paths (layers.0).",
    ),
    click.option(
        "--min-segment-ops",
        type=click.IntRange(0, MOST_COUNT),
        metavar="N",
        help="Make no engine with fewer ops that compute  [default: 5]",
    ),
    click.option("--require-full", is_flag=True, default=None, help="Everything in one engine, or an error."),
    click.option("--truncate-double", is_flag=True, default=None, help="Compute float64 in float32 inside engines."),
    click.option(
        "--precision", type=click.Choice(_PRECISIONS), help="What engines compute float32 in  [default: keep]"
    ),
    click.option("--keep-fp32", multiple=True, metavar="OP|MODULE", help="Stays float32 under fp16 and bf16."),
    gpu_option,
)


@dataclass(frozen=True)
class EngineOptions:
    """What was chosen: fields of ``AnalyzeOptions`` and of ``CompileOptions``."""

    partition: PartitionOptions
    truncate_double: bool
    precision: Precision
    keep_fp32: tuple[str, ...]
    gpu: tuple[str, ...]


def engine_options(command: _F) -> _F:
    """Add the options to a command; it gets them as arguments of the same names, for ``chosen_engine_options``."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def chosen_engine_options(config: Mapping[str, Any], given: Mapping[str, Any]) -> EngineOptions:
    """The options as given, else those of the file, else the defaults.

    Args:
        config: ``[tool.trtdiag]``.
        given: The command's arguments by name.

    Raises:
        UserError: ``config-wrong-value`` where the file has a precision that there is not.
    """

    def value(name: str, default: Any) -> Any:
        told = given[name]
        return config.get(name.replace("_", "-"), default) if told is None else told

    def words(name: str) -> tuple[str, ...]:
        return listed(given[name]) or tuple(config.get(name.replace("_", "-"), ()))

    plain = PartitionOptions()
    return EngineOptions(
        partition=PartitionOptions(
            min_segment_ops=value("min_segment_ops", plain.min_segment_ops),
            keep_in_torch=words("keep_in_torch"),
            require_full=value("require_full", plain.require_full),
        ),
        truncate_double=value("truncate_double", False),
        precision=_precision(value("precision", Precision.KEEP.value)),
        keep_fp32=words("keep_fp32"),
        gpu=words("gpu"),
    )


def _precision(text: str) -> Precision:
    if text not in _PRECISIONS:
        raise UserError(
            f"precision cannot be {text!r}",
            because="[tool.trtdiag] in pyproject.toml says so",
            fix=f"write one of {', '.join(_PRECISIONS)}",
            reference="config-wrong-value",
        )
    return Precision(text)
