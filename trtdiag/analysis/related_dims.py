"""Dims that were declared on their own and that the program makes of another one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from trtdiag.dims.plan import Leaf, LeafKind
from trtdiag.dims.suggestion import asked_of
from trtdiag.frontend.program import InputDim, Program
from trtdiag.symbolic import Expr, Num, Range, Sym, affine, free_symbols, to_text


@dataclass(frozen=True)
class Related:
    """A dim with a declared name whose size is an expression of other dims.

    Attributes:
        dim: The dim.
        text: Its size in the user's names (``4*h5``).
        sayable: Whether torch.export can say it as a derived Dim.
        root_name: The name of the dim that it is made of.
        root_site: Where that one is.
        root_range: What all dims of this root allow it to be, by their declarations.
        smallest: The smallest declared minimum among the two.
    """

    dim: InputDim
    text: str
    sayable: bool
    root_name: str
    root_site: str
    root_range: Range
    smallest: int


def related_dims(program: Program) -> Iterator[Related]:
    """Yield each dim that has a declared name of its own and is made of another, in the order of the inputs."""
    dims = [dim for tensor in program.inputs for dim in tensor.dims]
    roots = {dim.expr.name: dim for dim in reversed(dims) if isinstance(dim.expr, Sym)}
    asked = asked_of(program)
    leaves = {} if asked.structure is None else asked.plan.leaves  # of a program alone it is not known
    for dim in dims:
        if dim.declared_name is None or isinstance(dim.expr, (Sym, Num)):
            continue
        symbols = sorted(free_symbols(dim.expr))
        root = roots.get(symbols[0])
        if root is None or _is_declared(dim, root, leaves):
            continue
        name = program.names.get(symbols[0], symbols[0])
        lows = [d.declared_range.min or 0 for d in (dim, root) if d.declared_range is not None]
        yield Related(
            dim=dim,
            text=to_text(dim.expr, program.words),
            sayable=len(symbols) == 1 and line_of(dim.expr) is not None and name.isidentifier(),
            root_name=name,
            root_site=root.site,
            root_range=_root_range(symbols[0], dims),
            smallest=min(lows, default=0),
        )


def _is_declared(dim: InputDim, root: InputDim, leaves: Mapping[str, Leaf]) -> bool:
    """Whether the declaration has the two so already, of whichever the symbol is: ``n`` beside ``n - 1``."""
    line, one, other = line_of(dim.expr), leaves.get(dim.site), leaves.get(root.site)
    if line is None or one is None or other is None or {one.kind, other.kind} != {LeafKind.DIM}:
        return False
    scale, offset = line
    said = (scale * other.scale, scale * other.offset + offset)
    return one.root == other.root and (one.scale, one.offset) == said


def _root_range(symbol: str, dims: list[InputDim]) -> Range:
    """What the declarations of all dims that are lines over ``symbol`` leave to it."""
    allowed = Range()
    for dim in dims:
        line = line_of(dim.expr) if free_symbols(dim.expr) == {symbol} else None
        if line is not None and dim.declared_range is not None:
            allowed = allowed.intersect(dim.declared_range.unscaled(*line))
    return allowed


def line_of(expr: Expr) -> tuple[int, int] | None:
    """``(a, b)`` where ``expr`` is ``a*symbol + b`` with ``a`` of 1 or more, the only form that a Dim can have."""
    line = affine(expr)
    return None if line is None or line[1] < 1 else line[1:]
