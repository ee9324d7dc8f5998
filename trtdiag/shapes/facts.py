"""The facts of the shapes stage: symbols, exact sizes, memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trtdiag.graph.source import Frame
from trtdiag.symbolic import Expr, Range


@dataclass(frozen=True)
class Size:
    """The exact extent of one dim or SymInt over the declared ranges.

    ``exact`` is False where only an interval could be shown (every value lies inside, the ends may not be reached);
    ``method`` then says why.
    """

    expr: Expr
    range: Range
    exact: bool
    method: str


@dataclass(frozen=True)
class SymbolFacts:
    """One symbol.

    Attributes:
        symbol: torch's name (``s77``, ``u0``).
        name: The user's name for it.
        backed: False for symbols born from data.
        range: Declared range, ``None`` where the program has none for it.
        hint: Size in the example.
        origins: The input dims it appears in (``x.shape[2]``), or the node that bears it.
        born_at: For unbacked symbols: the user's line of the op that bears it.
        born_by: For unbacked symbols: the node and its op (``nonzero: aten.nonzero.default``).
        uses: How many nodes mention it in their sizes.
        expressions: The derived size expressions it appears in, as text, most frequent first.
        assumed: Whether the range is the user's word beyond what the program says, of a size from data.
        called: What users may call a size from data, its name first.
    """

    symbol: str
    name: str
    backed: bool
    range: Range | None
    hint: int | None
    origins: tuple[str, ...]
    born_at: Frame | None
    born_by: str | None
    uses: int
    expressions: tuple[str, ...]
    assumed: bool = False
    called: tuple[str, ...] = ()


@dataclass(frozen=True)
class SymbolTable:
    """All symbols of a program, in order of first appearance."""

    symbols: tuple[SymbolFacts, ...]


@dataclass(frozen=True)
class TensorSizes:
    """The sizes of one tensor value of a node: dims in order, ``dtype`` as text, elements at the maximum.

    ``volume`` is the exact (or stated as loose) extent of the element count.
    """

    node: str
    output: int
    dtype: str
    dims: tuple[Size, ...]
    volume: Size
    element_bytes: int


@dataclass(frozen=True)
class ShapeFacts:
    """Sizes of every tensor (``tensors``) and every SymInt value (``scalars``), by node name."""

    tensors: Mapping[str, tuple[TensorSizes, ...]]
    scalars: Mapping[str, Size]


@dataclass(frozen=True)
class MemoryStep:
    """A stretch of the execution order.

    Attributes:
        node: Where most bytes are alive in it.
        usual_bytes: The most bytes alive in it at the sizes that engines are tuned for, inputs included, weights not;
            ``None`` where a size is not known.
        max_bytes: The same at the maximum of every range.
    """

    node: str
    usual_bytes: int | None
    max_bytes: int | None


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes at the maximum of every range; ``None`` where a size has no maximum.

    Attributes:
        weight_bytes: Parameters, buffers and constants, each storage once.
        input_bytes: User inputs.
        live_bytes: The largest sum of tensors alive at one op in graph order, inputs included, weights not (views count
            with their base once).
        live_at: The node at which it is reached; ``None`` where the inputs alone are the largest set.
        live_frame: That node's source line.
        largest: Nodes with the largest outputs and their bytes, largest first.
        steps: The course over the execution order, in at most ``MOST_STEPS`` stretches.
        if_assumed: Where sizes from data have no maximum: some that each of them might get, with the bytes that are
            alive then, other sizes at their maximum, or as they are tuned for where they have none.
    """

    weight_bytes: int
    input_bytes: int | None
    live_bytes: int | None
    live_at: str | None
    live_frame: Frame | None
    largest: tuple[tuple[str, int], ...]
    steps: tuple[MemoryStep, ...] = ()
    if_assumed: tuple[tuple[int, int], ...] = ()
