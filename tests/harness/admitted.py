"""Which sizes a declaration admits, read from torch's own objects alone: no solver of trtdiag takes part."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch.export import Dim, ExportedProgram
from torch.export.dynamic_shapes import _combine_args, _DerivedDim, _tree_map_with_path
from torch.fx.experimental.symbolic_shapes import SYMPY_INTERP
from torch.utils import _pytree as pytree

# A dim without a largest size is tried up to this, or to four times its example where that is more.
OPEN_END = 4096
OPEN_END_TIMES = 4
# torch leaves smaller sizes out of the program's ranges where a hint stands in place of a Dim.
LOWEST_HINTED = 2

Point = dict[str, int]
Shapes = tuple[tuple[int, ...] | None, ...]


@dataclass(frozen=True)
class Ask:
    """What ``torch.export.export`` was given."""

    model: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    dynamic_shapes: Any

    def declared(self) -> tuple[dict[int, Any], ...]:
        """For each leaf of the inputs, in the order of ``(args, kwargs)``: what is declared at which dim."""
        combined: Any = _combine_args(self.model, self.args, dict(self.kwargs))
        if isinstance(self.dynamic_shapes, (tuple, list)):
            combined = type(self.dynamic_shapes)(combined.values())
        found: dict[int, list[dict[int, Any]]] = defaultdict(list)

        def note(_path: Any, leaf: Any, shape: Any) -> None:
            dims = shape.items() if isinstance(shape, dict) else enumerate(shape or ())
            found[id(leaf)].append({dim: given for dim, given in dims if given is not None})

        if self.dynamic_shapes is not None:
            _tree_map_with_path(note, combined, self.dynamic_shapes, tree_name="inputs")
        leaves = pytree.tree_leaves((self.args, dict(self.kwargs)))
        return tuple(found[id(leaf)].pop(0) if found[id(leaf)] else {} for leaf in leaves)


@dataclass(frozen=True)
class Asked:
    """The range that was asked at one input dim."""

    leaf: int
    dim: int
    name: str
    low: int
    high: int


def asked_dims(ask: Ask) -> tuple[Asked, ...]:
    """Every dim that the user asked to be dynamic, with its range."""
    return tuple(
        Asked(leaf, dim, given.__name__, *range_of(given))
        for leaf, dims in enumerate(ask.declared())
        for dim, given in dims.items()
        if isinstance(given, Dim) and not isinstance(given, _DerivedDim)
    )


def range_of(given: Any) -> tuple[int, int]:
    """The ends of a ``Dim``; an open one is very large."""
    high = given.max
    return int(given.min), int(high) if isinstance(high, int) or getattr(high, "is_finite", False) else 1 << 62


@dataclass(frozen=True)
class Axis:
    """Something that can be chosen freely: a ``Dim`` that was declared, or a symbol of the program."""

    name: str
    low: int
    high: int
    hint: int


@dataclass(frozen=True)
class Admitted:
    """All sizes that a program was declared to take.

    Attributes:
        axes: What can be chosen.
        exprs: For each leaf of the inputs its sizes over the axes; ``None`` for what is no tensor.
        asked: The dims with the ranges that were asked at first: a size outside of them is nobody's promise.
        capped: Axes without a largest value, cut off at ``OPEN_END``.
    """

    axes: tuple[Axis, ...]
    exprs: tuple[tuple[sympy.Expr, ...] | None, ...]
    asked: tuple[Asked, ...]
    capped: tuple[str, ...]

    def __post_init__(self) -> None:
        symbols = [sympy.Symbol(axis.name, integer=True) for axis in self.axes]
        made = tuple(
            None if exprs is None else tuple(_function(symbols, expr) for expr in exprs) for exprs in self.exprs
        )
        object.__setattr__(self, "_sizes", made)

    def shapes(self, point: Point) -> Shapes:
        """The shape of each tensor at a point."""
        given = [point[axis.name] for axis in self.axes]
        return tuple(None if sizes is None else tuple(size(*given) for size in sizes) for sizes in self._sizes)  # type: ignore[attr-defined]

    def inside(self, shapes: Shapes) -> bool:
        """Whether every dim is in the range that was asked for it."""
        return all(one.low <= (shapes[one.leaf] or ())[one.dim] <= one.high for one in self.asked)

    def axes_of(self, leaf: int, dim: int) -> tuple[Axis, ...]:
        """The axes that decide the size of a dim."""
        free = {symbol.name for symbol in (self.exprs[leaf] or ())[dim].free_symbols}
        return tuple(axis for axis in self.axes if axis.name in free)

    def values(self, axis: Axis) -> list[int]:
        """The values of an axis at which all dims that it alone decides are in their asked ranges."""
        ours = [one for one in self.asked if self.axes_of(one.leaf, one.dim) == (axis,)]
        sizes = [(one, self._alone(one, axis)) for one in ours]
        return [v for v in range(axis.low, axis.high + 1) if all(one.low <= size(v) <= one.high for one, size in sizes)]

    def combinations(self) -> int:
        """How many points there are: the axes' asked values, multiplied."""
        found = 1
        for axis in self.axes:
            found *= len(self.values(axis))
        return found

    def _alone(self, one: Asked, axis: Axis) -> Callable[[int], int]:
        return _function([sympy.Symbol(axis.name, integer=True)], (self.exprs[one.leaf] or ())[one.dim])

    def kept(self, one: Asked) -> set[int]:
        """The asked sizes of a dim that are admitted."""
        axes = self.axes_of(one.leaf, one.dim)
        if len(axes) == 1:
            size = self._alone(one, axes[0])
            found = {size(value) for value in self.values(axes[0])}
        else:
            # Several axes: sums and the like take whatever lies between their ends where each axis has step 1.
            symbols = [sympy.Symbol(axis.name, integer=True) for axis in axes]
            joint = _function(symbols, (self.exprs[one.leaf] or ())[one.dim])
            found = {joint()} if not axes else _reached(joint, [self.values(axis) for axis in axes])
        return {size for size in found if one.low <= size <= one.high}


def _reached(size: Callable[..., int], values: Sequence[Sequence[int]]) -> set[int]:
    """All results over two axes; with more, over the first two beside the ends of the others."""
    found: set[int] = set()
    rest = [sorted({v[0], v[-1]}) for v in values[2:] if v]
    corners: list[tuple[int, ...]] = [()]
    for ends in rest:
        corners = [(*corner, end) for corner in corners for end in ends]
    for corner in corners:
        for first in values[0]:
            found.update(size(first, second, *corner) for second in values[1])
    return found


def _function(symbols: Sequence[sympy.Symbol], expr: sympy.Expr) -> Callable[..., int]:
    return sympy.lambdify(symbols, expr, modules=[dict(SYMPY_INTERP), "math"])  # type: ignore[no-any-return]


def admitted(program: ExportedProgram, ask: Ask, asked: Sequence[Asked] = ()) -> Admitted:
    """What a program was declared to take.

    A dim that was declared by a ``Dim`` takes any value of it, whatever torch made of it inside, unless it made it of
    several others that may be below 2 (a mask as long as past and present together), for which a hint costs sizes:
    then it follows these.  A dim that was left
    to torch (``Dim.AUTO``, ``Dim.DYNAMIC``, ``None``) is what the program says: an expression of other sizes follows
    them, a symbol of its own has the range of ``range_constraints``, or the one that ``Dim.DYNAMIC(...)`` promised.

    Args:
        program: The export.
        ask: What it was made with; its example inputs are those of the program.
        asked: The ranges that were asked at first, before anything was corrected.
    """
    assert program.example_inputs is not None
    args, kwargs = program.example_inputs
    leaves = pytree.tree_leaves((args, kwargs))
    declared = Ask(ask.model, args, kwargs, ask.dynamic_shapes).declared()
    inside = _placeholder_sizes(program, leaves)
    axes: dict[str, Axis] = {}
    capped: list[str] = []
    exprs: dict[tuple[int, int], sympy.Expr] = {}
    symbols: dict[sympy.Symbol, sympy.Expr] = {}
    tied: dict[tuple[int, int], sympy.Expr] = {}

    for leaf, dims in enumerate(declared):
        for dim, given in dims.items():
            if not isinstance(given, Dim):
                continue
            root = given.root if isinstance(given, _DerivedDim) else given
            chosen = sympy.Symbol(root.__name__, integer=True)
            size = sympy.sympify(given.fn(chosen) if isinstance(given, _DerivedDim) else chosen)
            hint = _solved(size, chosen, sympy.Integer(leaves[leaf].shape[dim]))
            low, high = range_of(root)
            parts = inside[leaf][dim].free_symbols
            if len(parts) > 1 and any(program.range_constraints[part].lower < LOWEST_HINTED for part in parts):
                tied[leaf, dim] = inside[leaf][dim]  # torch checks that it is what the others make it
                continue
            axes.setdefault(root.__name__, _axis(root.__name__, low, high, int(hint), capped))
            exprs[leaf, dim] = size
            _unify(symbols, inside[leaf][dim], size)

    free = {symbol for sizes in inside.values() for size in sizes for symbol in size.free_symbols} - symbols.keys()
    for symbol in sorted(free, key=str):
        name = f"{symbol}"
        limits = program.range_constraints.get(symbol)
        low, high = (0, 1 << 62) if limits is None else (int(limits.lower), _end(limits.upper))
        low, high = _bounds_of_hint(symbol, declared, inside, low, high)
        axes[name] = _axis(name, low, high, _hint(symbol, inside, leaves), capped)
        symbols[symbol] = sympy.Symbol(name, integer=True)

    exprs |= {place: size.xreplace(symbols) for place, size in tied.items()}
    sizes = tuple(
        tuple(exprs.get((leaf, dim), size.xreplace(symbols)) for dim, size in enumerate(inside[leaf]))
        if leaf in inside
        else None
        for leaf in range(len(leaves))
    )
    return Admitted(tuple(axes.values()), sizes, tuple(asked), tuple(capped))


def _placeholder_sizes(program: ExportedProgram, leaves: Sequence[Any]) -> dict[int, tuple[sympy.Expr, ...]]:
    """Leaf -> its sizes as torch has them inside."""
    names = [spec.arg.name for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    assert len(names) == len(leaves)
    found = {}
    for index, (name, leaf) in enumerate(zip(names, leaves, strict=True)):
        if isinstance(leaf, torch.Tensor):
            shape = nodes[name].meta["val"].shape
            found[index] = tuple(
                sympy.sympify(size.node.expr if isinstance(size, torch.SymInt) else int(size)) for size in shape
            )
    return found


def _unify(symbols: dict[sympy.Symbol, sympy.Expr], inside: sympy.Expr, size: sympy.Expr) -> None:
    """Note what a program's symbol is, where its size is linear in one symbol that is not known yet."""
    unknown = inside.free_symbols - symbols.keys()
    if len(inside.free_symbols) == 1 and unknown:
        (symbol,) = unknown
        symbols[symbol] = _solved(inside, symbol, size)


def _solved(expr: sympy.Expr, symbol: sympy.Symbol, value: sympy.Expr) -> sympy.Expr:
    """What ``symbol`` is where ``expr``, linear in it, is ``value``."""
    slope = expr.coeff(symbol)
    return (value - (expr - slope * symbol)) / slope


def _hint(symbol: sympy.Symbol, inside: Mapping[int, Sequence[sympy.Expr]], leaves: Sequence[Any]) -> int:
    for leaf, sizes in inside.items():
        for dim, size in enumerate(sizes):
            if size.free_symbols == {symbol} and size.coeff(symbol) != 0:
                return int(_solved(size, symbol, sympy.Integer(leaves[leaf].shape[dim])))
    return 2


def _bounds_of_hint(
    symbol: sympy.Symbol, declared: Sequence[dict[int, Any]], inside: Mapping[int, Any], low: int, high: int
) -> tuple[int, int]:
    """The range of a symbol as its hint states it.

    ``Dim.DYNAMIC(min=, max=)`` is a promise, whatever ``range_constraints`` came to; ``Dim.AUTO`` leaves it to torch.
    torch writes 2 for a least size of 0 or 1, and the module takes it all the same.
    """
    for leaf, dims in enumerate(declared):
        for dim, given in dims.items():
            if isinstance(given, (Dim, int)) or inside[leaf][dim] != symbol:
                continue
            least, most = getattr(given, "min", None), getattr(given, "max", None)
            promised = given.type.name == "DYNAMIC"
            if least is not None and (promised or low <= 2):
                low = int(least)
            if most is not None and promised:
                high = int(most)
    return low, high


def _end(upper: Any) -> int:
    return int(upper) if isinstance(upper, (int, sympy.Integer)) else 1 << 62


def _axis(name: str, low: int, high: int, hint: int, capped: list[str]) -> Axis:
    limit = max(OPEN_END, OPEN_END_TIMES * hint)
    if high > 1 << 20 and name not in capped:
        capped.append(name)
    return Axis(name, low, limit if high > 1 << 20 else high, hint)
