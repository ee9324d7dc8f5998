"""Runs a partition step by step, each segment on nothing but what it declares, as an engine would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from trtdiag.graph.node_kinds import attribute_of
from trtdiag.graph.segment import DimSource, LocalSize
from trtdiag.partition.facts import Partitioned
from trtdiag.symbolic.build import linear_terms
from trtdiag.symbolic.evaluate import evaluate
from trtdiag.symbolic.expr import Sym

Values = dict[str, Any]


def run(partitioned: Partitioned, module: GraphModule, arguments: Sequence[object]) -> list[Any]:
    """The program's outputs in order; a name that a step needs and was not given is a KeyError."""
    runner = _Runner(partitioned, module)
    return runner.run(arguments)


def plain_run(module: GraphModule, arguments: Sequence[object]) -> list[Any]:
    """The outputs of the graph as PyTorch runs it."""
    outputs = torch.fx.Interpreter(module).run(*arguments)
    return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]


class _Runner:
    def __init__(self, partitioned: Partitioned, module: GraphModule) -> None:
        self._partitioned = partitioned
        self._module = module
        self._nodes: dict[str, Node] = {node.name: node for node in module.graph.nodes}
        self._order = {name: place for place, name in enumerate(self._nodes)}
        self._torch_sizes = {size.node: size for size in partitioned.torch_sizes}
        self._outside: Values = {}

    def run(self, arguments: Sequence[object]) -> list[Any]:
        given = iter(arguments)
        for node in self._module.graph.nodes:
            if node.op == "placeholder":
                self._outside[node.name] = next(given)
            elif node.op == "get_attr":
                self._outside[node.name] = attribute_of(self._module, node)
        for step in self._partitioned.steps:
            if step.segment is None:
                for name in step.torch_nodes:
                    self._call(name, self._outside, fetch=True)
            else:
                self._segment(step.segment)
        outputs = next(node for node in self._module.graph.nodes if node.op == "output").args[0]
        if isinstance(outputs, Node):
            outputs = (outputs,)
        return [self._fetch(out.name) if isinstance(out, Node) else out for out in outputs]  # type: ignore[union-attr]

    def _segment(self, index: int) -> None:
        segment = self._partitioned.segments[index]
        # An engine has memory of its own: nothing that it returns is a view of what it was given.
        values = {name: _copied(self._outside[name]) for name in (*segment.inputs, *segment.constants)}
        assert all(isinstance(values[name], torch.Tensor) for name in segment.inputs)
        for size in segment.entering_sizes:
            values[size.node] = self._fetch(size.node)
        ops = iter(sorted((*segment.ops, *segment.elements), key=self._order.__getitem__))
        waiting = list(segment.sizes)
        for name in ops:
            while waiting and self._ready(waiting[0], values):
                size = waiting.pop(0)
                values[size.node] = self._size(size, values)
            self._call(name, values, fetch=False)
        for name in segment.outputs:
            self._outside[name] = _copied(values[name])

    def _ready(self, size: LocalSize, values: Values) -> bool:
        return all(name in values for name in (*size.operands, *(source.tensor for source in size.sources)))

    def _fetch(self, name: str) -> Any:
        """A value outside of engines; a size is computed when it is first needed."""
        if name not in self._outside:
            size = self._torch_sizes[name]
            for operand in size.operands:
                self._fetch(operand)
            self._outside[name] = self._size(size, self._outside)
        return self._outside[name]

    def _size(self, size: LocalSize, values: Values) -> Any:
        if size.expr is None:
            return self._result(self._nodes[size.node], values)
        if len(size.sources) == 1 and size.sources[0].extent == size.expr:
            return _number(size.sources[0], values)
        return _plain(evaluate(size.expr, dict(_symbol(source, values) for source in size.sources)))

    def _call(self, name: str, values: Values, *, fetch: bool) -> None:
        node = self._nodes[name]
        if fetch:
            for argument in node.all_input_nodes:
                self._fetch(argument.name)
        values[name] = self._result(node, values)

    def _result(self, node: Node, values: Values) -> Any:
        args, kwargs = map_arg((node.args, node.kwargs), lambda argument: values[argument.name])
        return node.target(*args, **kwargs)  # type: ignore[operator]


def _number(source: DimSource, values: Mapping[str, Any]) -> int:
    value = values[source.tensor]
    return value if source.dim is None else value.shape[source.dim]


def _symbol(source: DimSource, values: Mapping[str, Any]) -> tuple[str, int]:
    """The symbol of a plain or affine extent, and its value."""
    number = _number(source, values)
    if isinstance(source.extent, Sym):
        return source.extent.name, number
    [(factor, symbol)], constant = linear_terms(source.extent)
    assert isinstance(symbol, Sym)
    value = Fraction(number - constant) / factor
    assert value.denominator == 1
    return symbol.name, int(value)


def _plain(value: int | Fraction | bool) -> int | float | bool:
    return float(value) if isinstance(value, Fraction) else value


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value
