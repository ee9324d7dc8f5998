"""How much a composition of layers may compute, and how much it does at the greatest sizes."""

from __future__ import annotations

from collections.abc import Sequence

from trtdiag.convert.refusal import refuse
from trtdiag.convert.writer import Writer
from trtdiag.shapes.shape_constraints import elements
from trtdiag.symbolic import Expr, Num, bounds, to_text

MOST_PAIRS = 1 << 24
"""Own choice: 64 MiB in float32 for a tensor in which every element of one meets every element of another."""


def greatest(write: Writer, size: Expr) -> int | None:
    """The greatest value that a size can have; ``None`` where nothing bounds it."""
    facts = write.builder.facts
    ends = [bounds(expr, facts.ranges).range.max for expr in (size, facts.expanded(size))]
    return min((end for end in ends if end is not None), default=None)


def amount_in_words(write: Writer, size: Expr) -> str:
    """The number, or the expression and how great it can be."""
    if isinstance(size, Num):
        return f"{size.value:,}"
    most = greatest(write, size)
    return f"{to_text(size)} (without bound)" if most is None else f"{to_text(size)} (up to {most:,})"


def require_few(write: Writer, shape: Sequence[Expr], why: str) -> None:
    """Refuse a composition whose largest tensor has ``shape``, where it may have more than ``MOST_PAIRS`` elements."""
    if len(shape) > write.target.max_rank:
        raise refuse("rank", f"{why} takes {len(shape)} dims; TensorRT has {write.target.max_rank} at most")
    count = elements(shape)
    most = greatest(write, count)
    if most is None or most > MOST_PAIRS:
        raise refuse(
            "pairs",
            f"{why} takes a tensor of {amount_in_words(write, count)} elements; {MOST_PAIRS:,} is the limit",
            "declare smaller ranges of sizes, or leave the op to PyTorch",
        )
