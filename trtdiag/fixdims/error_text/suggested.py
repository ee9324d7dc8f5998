"""torch's own suggested fixes, read as hints: what a text says of dims where it states no condition for them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from trtdiag.symbolic import ExpressionError, Relation, compare, free_symbols, parse_expr
from trtdiag.symbolic.build import affine, mod
from trtdiag.symbolic.conditions import within
from trtdiag.symbolic.expr import Condition, Expr, Num, Sym
from trtdiag.symbolic.ranges import Range

_LINE = re.compile(r"(?P<name>[^\W\d]\w*) = (?P<value>.+)$")
_DIM = re.compile(r"Dim\('\w+'(?:, min=(?P<min>\d{1,40}))?(?:, max=(?P<max>\d{1,40}))?\)")
_NONE = re.compile(r"None\s*#\s*(?P<value>\d{1,40})")
_MOST = 2**62


@dataclass(frozen=True)
class Suggested:
    """What torch's suggested fixes say.

    Attributes:
        ranges: Name -> range of a ``Dim``.
        sizes: Name -> its size, over other names.
    """

    ranges: dict[str, Range]
    sizes: dict[str, Expr]

    def conditions(self, name: str) -> list[Condition]:
        """What the suggestion asks of the dim: bounds, a multiple, a size, a relation to another dim."""
        if name in self.ranges:
            return within(Sym(name), self.ranges[name])
        size = self.sizes.get(name)
        if size is None:
            return []
        step = self.step_of(name)
        if step is None:
            return [compare(Relation.EQ, Sym(name), size)]
        scale, offset, root = step
        ends = self.ranges.get(root, Range()).scaled(scale, offset)
        return [compare(Relation.EQ, mod(Sym(name), scale), offset % scale), *within(Sym(name), ends)]

    def step_of(self, name: str) -> tuple[int, int, str] | None:
        """``(scale, offset, root)`` of ``name = scale*_root + offset`` over a root that stands for no input dim."""
        size = self.sizes.get(name)
        if size is None or isinstance(size, Num):
            return None
        found = affine(size)
        if found is None or found[1] < 1 or not found[0].startswith("_"):
            return None
        root, scale, offset = found
        return scale, offset, root

    def names(self) -> list[str]:
        """The dims of inputs that it speaks of."""
        roots = {step[2] for name in self.sizes if (step := self.step_of(name)) is not None}
        return [name for name in {**self.ranges, **self.sizes} if name not in roots]


def read_suggested(lines: Iterable[str]) -> Suggested:
    """Read the lines of suggested fixes; those that are none are left out."""
    ranges: dict[str, Range] = {}
    sizes: dict[str, Expr] = {}
    for line in lines:
        match = _LINE.match(line)
        if match is None:
            continue
        name, value = match["name"], match["value"].strip()
        dim, none = _DIM.match(value), _NONE.match(value)
        if dim is not None:
            low, high = (None if end is None else int(end) for end in (dim["min"], dim["max"]))
            ranges[name] = Range(low, None if high is None or high > _MOST else high)
        elif none is not None:
            sizes[name] = Num(int(none["value"]))
        else:
            try:
                size = parse_expr(value)
            except ExpressionError:
                continue
            if name not in free_symbols(size):
                sizes[name] = size
    return Suggested(ranges, sizes)
