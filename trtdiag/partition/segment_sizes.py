"""The sizes that a segment recomputes from its own tensors, by which of their dims give them, and those that enter."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from trtdiag.graph.limit import Limit
from trtdiag.graph.segment import DimSource, LocalSize, SizeInput
from trtdiag.graph.values import NumberValue, TensorValue, Value
from trtdiag.partition.op_graph import OpGraph, SizeNode
from trtdiag.symbolic import Condition, Expr, Num, Sym, free_symbols, is_condition, linear_terms, to_text
from trtdiag.symbolic.float_factors import rounds


class Extents:
    """The dims and numbers at hand, by what they say about symbols; of equals the first added is taken."""

    def __init__(self) -> None:
        self._whole: dict[Expr, DimSource] = {}
        self._plain: dict[str, DimSource] = {}
        self._affine: dict[str, DimSource] = {}

    def add(self, name: str, value: Value | None) -> None:
        """Add every dim of a tensor, or a number."""
        if isinstance(value, TensorValue):
            for dim, extent in enumerate(value.dims):
                self._add(name, dim, extent)
        elif isinstance(value, NumberValue) and value.expr is not None and not is_condition(value.expr):
            self._add(name, None, value.expr)  # type: ignore[arg-type]

    def _add(self, name: str, dim: int | None, extent: Expr) -> None:
        if isinstance(extent, Num) or extent in self._whole:
            return
        source = DimSource(name, dim, extent)
        self._whole[extent] = source
        if isinstance(extent, Sym):
            self._plain[extent.name] = source
            return
        terms, _ = linear_terms(extent)
        if len(terms) == 1 and isinstance(terms[0][1], Sym):
            self._affine.setdefault(terms[0][1].name, source)

    def solve(self, expr: Expr | Condition) -> tuple[DimSource, ...] | None:
        """Return what gives every symbol of ``expr``, or the size whole; ``None`` where something is missing.

        Also ``None`` where ``expr`` as fractions is not what the program computes in floating point.
        """
        if not is_condition(expr) and expr in self._whole:
            return (self._whole[expr],)
        if rounds(expr):
            return None
        found = []
        for symbol in sorted(free_symbols(expr)):
            source = self._plain.get(symbol) or self._affine.get(symbol)
            if source is None:
                return None
            found.append(source)
        return tuple(found)

    def missing(self, expr: Expr | Condition) -> tuple[str, ...]:
        """Return the symbols of ``expr`` that nothing at hand gives."""
        return tuple(s for s in sorted(free_symbols(expr)) if s not in self._plain and s not in self._affine)


def segment_sizes(
    graph: OpGraph,
    limits: Mapping[str, Limit],
    wanted: Iterable[str],
    inputs: Sequence[str],
    inside: Collection[str],
) -> tuple[tuple[LocalSize, ...], tuple[SizeInput, ...]]:
    """Return how a segment gets each size that its ops take.

    A size is computed from the dims of the segment's tensor inputs where they give all of its symbols; else by its own
    op where that reads tensors and sizes of the segment, or gives a float; else it enters as a tensor.

    Args:
        graph: The sizes.
        limits: Why an engine cannot compute a size, by node.
        wanted: The sizes that the segment's ops take.
        inputs: The tensors that enter, in order.
        inside: The tensors that its ops make, and its weights and constants.
    """
    return _Sizes(graph, limits, inputs, inside).get(wanted)


class _Sizes:
    def __init__(
        self, graph: OpGraph, limits: Mapping[str, Limit], inputs: Sequence[str], inside: Collection[str]
    ) -> None:
        self._graph = graph
        self._limits = limits
        self._inside = frozenset(inside)
        self._at_hand = {*inputs, *inside}
        self._extents = Extents()
        for name in inputs:
            self._extents.add(name, graph.tensors[graph.tensor_index[name]].value)
        self._recomputed: dict[str, LocalSize | None] = {}
        self._partly: set[str] = set()  # floats of sizes that enter

    def get(self, wanted: Iterable[str]) -> tuple[tuple[LocalSize, ...], tuple[SizeInput, ...]]:
        """Return the wanted sizes with the operands that they need, operands first."""
        recomputed: dict[str, LocalSize] = {}
        entering: dict[str, SizeInput] = {}
        waiting = [(name, False) for name in reversed(tuple(dict.fromkeys(wanted)))]
        while waiting:
            name, ready = waiting.pop()
            if name in recomputed or name in entering or name not in self._graph.sizes:
                continue
            found = self._recompute(name)
            if found is None:
                size = self._graph.sizes[name]
                entering[name] = SizeInput(name, size.expr, self._why(size))
            elif ready:
                recomputed[name] = found
            else:
                waiting.append((name, True))
                waiting += [(operand, False) for operand in reversed(found.operands)]
        return tuple(recomputed.values()), tuple(entering.values())

    def _recompute(self, name: str) -> LocalSize | None:
        """Return how to compute a size; its operands first, without recursion: chains of sizes can be long."""
        waiting = [name]
        while waiting:
            current = waiting[-1]
            size = self._graph.sizes[current]
            if current in self._recomputed:
                waiting.pop()
                continue
            if current in self._limits:
                self._recomputed[current] = None
                continue
            sources = None if size.expr is None else self._extents.solve(size.expr)
            if sources is not None:
                self._recomputed[current] = LocalSize(current, size.expr, sources)
                continue
            sizes = [operand for operand in size.operands if operand in self._graph.sizes]
            unknown = [operand for operand in sizes if operand not in self._recomputed]
            if unknown and not size.given:
                waiting += unknown
                continue
            self._recomputed[current] = LocalSize(current, None, operands=size.operands) if self._own(size) else None
        return self._recomputed[name]

    def _own(self, size: SizeNode) -> bool:
        """Whether the segment runs the size's own op, with its operands recomputed or entering."""
        if size.given or any(o not in self._graph.sizes and o not in self._at_hand for o in size.operands):
            return False
        inside = [o not in self._graph.sizes or self._recomputed[o] is not None for o in size.operands]
        if size.real:  # no float enters, but the sizes that it is made of
            if not all(inside) or any(o in self._partly for o in size.operands):
                self._partly.add(size.name)
            return True
        inside = [known and o not in self._partly for o, known in zip(size.operands, inside, strict=True)]
        # Of what only its operands give, or a dim of a tensor that is made here, PyTorch has nothing before it runs.
        sources = size.sources or ()
        late = size.sources is None or any(source.tensor in self._inside for source in sources)
        return all(inside) or (late and any(inside))

    def _why(self, size: SizeNode) -> str:
        if size.name in self._limits:
            return self._limits[size.name].why
        if size.given:
            return (
                "it is a number that enters the program or comes from data, and no tensor of the segment has its size"
            )
        if size.expr is None:
            return "it is no expression of sizes, and it is computed from what is outside of the segment"
        if rounds(size.expr):
            return f"{to_text(size.expr)} is computed in floating point, as the program does"
        missing = self._extents.missing(size.expr)
        return f"{to_text(size.expr)} needs {', '.join(missing)}, and no tensor that enters the segment has a dim of it"


def outside_sizes(graph: OpGraph, wanted: Iterable[str]) -> tuple[tuple[LocalSize, ...], frozenset[str]]:
    """Return how PyTorch computes sizes, operands first, and the tensors whose shape it needs for that.

    Numbers that PyTorch has already (inputs, results of its ops) are left out.
    """
    wanted_all = set()
    waiting = list(wanted)
    shapes: set[str] = set()
    while waiting:
        size = graph.sizes[waiting.pop()]
        if size.name in wanted_all or size.given:
            continue
        wanted_all.add(size.name)
        if size.sources is None:
            waiting += [operand for operand in size.operands if operand in graph.sizes]
            shapes.update(operand for operand in size.operands if operand in graph.tensor_index)
        else:
            shapes.update(source.tensor for source in size.sources if source.tensor in graph.tensor_index)
    # The order of the graph puts operands first.
    sizes = [graph.sizes[name] for name in graph.sizes if name in wanted_all]
    return (
        tuple(
            LocalSize(size.name, None, operands=size.operands)
            if size.sources is None
            else LocalSize(size.name, size.expr, size.sources)
            for size in sizes
        ),
        frozenset(shapes),
    )
