"""The exact extent of every dim, element count and SymInt of a graph over the declared ranges."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from torch.fx import GraphModule

from trtdiag.frontend.program import Program
from trtdiag.graph.node_kinds import walk
from trtdiag.graph.values import NodeReader, NumberValue, TensorValue
from trtdiag.lower.facts import Checked
from trtdiag.shapes.facts import ShapeFacts, Size, TensorSizes
from trtdiag.symbolic import BoundsCache, Expr, Num, Range, Sym, build, free_symbols, is_condition
from trtdiag.wording import dtype_text

_NOT_NEGATIVE = Range(0, None)
_ANY = Range(None, None)


def shape_facts(
    program: Program, checked: Checked, box: Mapping[str, Range], reader: NodeReader | None = None
) -> ShapeFacts:
    """Return the size of every tensor and the value of every SymInt in the graph, nested graphs included.

    Args:
        program: Gives the ranges of symbols that ``box`` does not name.
        checked: The graph; every node has its value.
        box: The ranges to look at, symbol by symbol, as the user declared them.
        reader: One that has read the graph before saves most of the time.

    A symbol with no range anywhere is not given one: as a tensor's dim it is zero or more, else any integer.

    Cost: linear in nodes; each distinct expression is bounded once.
    """
    return graph_sizes(checked.graph_module, {**program.ranges, **box}, reader)


def graph_sizes(graph_module: GraphModule, box: Mapping[str, Range], reader: NodeReader | None = None) -> ShapeFacts:
    """Return the same for any graph whose nodes have values, over the ranges of ``box``."""
    reader = NodeReader() if reader is None else reader
    values = {located.name: reader.read(located.node) for located in walk(graph_module)}
    tensors = [value for found in values.values() for value in found if isinstance(value, TensorValue)]
    dims = {dim for tensor in tensors for dim in tensor.dims}
    sizes = _Sizes(_complete(box, dims))
    tensor_sizes: dict[str, tuple[TensorSizes, ...]] = {}
    scalars: dict[str, Size] = {}
    for name, found in values.items():
        own = [sizes.of_tensor(name, at, value) for at, value in enumerate(found) if isinstance(value, TensorValue)]
        if own:
            tensor_sizes[name] = tuple(own)
        for value in found[:1]:
            number = value.expr if isinstance(value, NumberValue) and value.kind == "int" else None
            if number is not None and not is_condition(number):
                scalars[name] = sizes.of(number)  # type: ignore[arg-type]
    return ShapeFacts(tensor_sizes, scalars)


class _Sizes:
    """Bounds by expression; equal expressions share one ``Size``."""

    def __init__(self, box: Mapping[str, Range]) -> None:
        self._bounds = BoundsCache(box)
        self._sizes: dict[Expr, Size] = {}
        self._volumes: dict[tuple[Expr, ...], Size] = {}

    def of(self, expr: Expr) -> Size:
        size = self._sizes.get(expr)
        if size is None:
            if isinstance(expr, Num) and isinstance(expr.value, int):
                size = Size(expr, Range(expr.value, expr.value), True, "constant")
            else:
                bounds = self._bounds.of(expr)
                size = Size(expr, bounds.range, bounds.exact, bounds.method)
            self._sizes[expr] = size
        return size

    def of_tensor(self, name: str, output: int, value: TensorValue) -> TensorSizes:
        volume = self._volumes.get(value.dims)
        if volume is None:
            volume = self._volumes[value.dims] = self.of(build.mul(*value.dims))
        return TensorSizes(
            node=name,
            output=output,
            dtype=dtype_text(value.dtype),
            dims=tuple(self.of(dim) for dim in value.dims),
            volume=volume,
            element_bytes=value.element_bytes,
        )


def _complete(box: Mapping[str, Range], dims: Collection[Expr]) -> dict[str, Range]:
    used = frozenset().union(*map(free_symbols, dims))
    plain = [dim.name for dim in dims if isinstance(dim, Sym)]
    return {**dict.fromkeys(used, _ANY), **dict.fromkeys(plain, _NOT_NEGATIVE), **box}
