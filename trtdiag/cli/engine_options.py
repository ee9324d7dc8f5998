"""Options about what goes into engines, for every command that plans them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from trtdiag.cli.words import listed
from trtdiag.options import PartitionOptions

_F = TypeVar("_F", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--keep-in-torch",
        multiple=True,
        metavar="OP|MODULE",
        help="Leave these to PyTorch: ops (aten.softmax) and module paths (layers.0).",
    ),
    click.option(
        "--min-segment-ops",
        type=click.IntRange(min=0),
        metavar="N",
        help="Make no engine with fewer ops that compute  [default: 5]",
    ),
    click.option("--require-full", is_flag=True, default=None, help="Everything in one engine, or an error."),
    click.option("--truncate-double", is_flag=True, default=None, help="Compute float64 in float32 inside engines."),
)


def engine_options(command: _F) -> _F:
    """Add the options to a command; it gets them as arguments of the same names."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def partition_options(
    config: Mapping[str, Any], keep_in_torch: tuple[str, ...], min_segment_ops: int | None, require_full: bool | None
) -> PartitionOptions:
    """The options as given, else those of the file, else the defaults."""
    plain = PartitionOptions()
    least = config.get("min-segment-ops", plain.min_segment_ops) if min_segment_ops is None else min_segment_ops
    return PartitionOptions(
        min_segment_ops=least,
        keep_in_torch=listed(keep_in_torch) or tuple(config.get("keep-in-torch", ())),
        require_full=config.get("require-full", plain.require_full) if require_full is None else require_full,
    )
