"""Runs one op as a network and as PyTorch, at its sample's sizes and, with dynamic dims, at others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    ShapeEnv,
    StatelessSymbolicContext,
)
from torch.utils import _pytree as pytree

from trtdiag.convert.facts import ConversionContext, ConvertedSegment
from trtdiag.convert.segment import convert_segment
from trtdiag.convert.support import support
from trtdiag.errors import ShapeOutOfRangeError
from trtdiag.graph.limit import Limit
from trtdiag.graph.quantizers import is_quantizer_node, makes_floats
from trtdiag.graph.values import NodeReader
from trtdiag.network import run
from trtdiag.options import PartitionOptions
from trtdiag.partition.partition import partition
from trtdiag.shapes.counts import counted_ranges
from trtdiag.shapes.symbols import is_backed
from trtdiag.symbolic import Range, condition_from_sympy, free_symbols, holds
from trtdiag.symbolic.functions import ExpressionError
from trtdiag.targets import Target, get_target

# Reduced precision keeps 11 (float16) or 8 (bfloat16) bits; a few roundings add up.  float32: sums in another order.
TOLERANCES = {
    torch.float32: (1e-5, 1e-5),
    torch.float16: (4e-3, 4e-3),
    torch.bfloat16: (3e-2, 3e-2),
}
GREATEST = 1 << 15
"""Of dynamic dims."""
FEWER = 1 << 6
"""Of dynamic dims where ``GREATEST`` is more elements than TensorRT takes: five dims of it are not."""
OLD_THEN_NEW = ("8.6", pytest.param("11.4", marks=pytest.mark.slow))
"""Of TensorRT: the oldest writes what the newest has layers for; the newest is what ``check_op`` takes by itself."""
CHANGES = (1, 7, -1)
"""Of sizes: by one, by a prime, and shrunk by one."""


@dataclass(frozen=True)
class Outcome:
    """What became of one op.

    Attributes:
        limits: Why it stays with PyTorch, by node; empty where it was converted and compared.
        converted: The network, where there is one.
        sizes: How many sets of sizes were compared.
    """

    limits: Mapping[str, Limit]
    converted: ConvertedSegment | None
    sizes: int


@dataclass(frozen=True)
class Compared:
    """One set of sizes: what the engine is given, and what PyTorch gives, both in the order of the network's ports."""

    inputs: Sequence[torch.Tensor]
    wanted: Sequence[torch.Tensor]


def check_op(
    op: OpOverload,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic: bool = False,
    target: str | Target = "11.4",
    tolerance: tuple[float, float] | None = None,
    compare: Callable[[Any, Any], None] | None = None,
    constants: bool = False,
    read: Collection[int] | None = None,
    shared: bool = False,
    also: Callable[[ConvertedSegment, Sequence[Compared]], None] | None = None,
) -> Outcome:
    """Convert ``op(*args, **kwargs)`` and compare its outputs with PyTorch's; a difference is an AssertionError.

    Args:
        op: The op.
        args: Its arguments; tensors in them become inputs.
        kwargs: By name.
        dynamic: Make every dim of 2 or more dynamic, and compare at other sizes as well.
        target: A TensorRT version, or its target for some GPU generations.
        tolerance: Relative and absolute; by dtype where it is not given.
        compare: Called with both results in the place of a comparison by tolerance.
        constants: Tensors are weights of the program, not inputs; with ``dynamic`` the first stays an input.
        read: Which outputs of several are read; all of them where it is not given.
        shared: With ``dynamic``, equal sizes of tensors are one symbol.
        also: Called with the network and all that was compared, to run it elsewhere too.
    """
    target = get_target(target) if isinstance(target, str) else target
    traced = _traced(op, args, kwargs or {}, dynamic, constants, read, shared)
    outcome, ranges = _converted(traced, target)
    converted = outcome.converted
    if converted is None:
        return outcome
    compared: list[Compared] = []
    for inputs in _inputs(traced, ranges, dynamic):
        try:
            wanted = _outputs(traced, inputs, converted.segment.outputs)
        except (RuntimeError, IndexError, ValueError):
            if not compared:
                raise
            continue  # PyTorch itself refuses these other sizes
        engine = [c.entering(inputs[c.node]) for c in converted.inputs]
        try:
            got = run(converted.network, engine)
        except ShapeOutOfRangeError:
            if not compared:
                raise
            continue  # the op's own trace holds for other sizes than these
        # Behind the outputs may come sizes that the data decide.
        for crossing, expected, actual in zip(converted.outputs, wanted, got, strict=False):
            _compare(expected, actual.to(crossing.program_dtype), tolerance, compare)
        compared.append(Compared(engine, wanted))
    if also is not None:
        also(converted, compared)
    return Outcome({}, converted, len(compared))


def convert_op(
    op: OpOverload,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    target: Target,
    read: Collection[int] | None = None,
) -> Outcome:
    """Convert ``op(*args, **kwargs)`` for its own sizes, as numbers, and compare nothing; ``read`` as above."""
    return _converted(_traced(op, args, kwargs or {}, False, False, read, False), target)[0]


def _converted(traced: _Traced, target: Target) -> tuple[Outcome, dict[str, Range]]:
    """What became of an op, and the ranges of its symbols."""
    left, planned = _left_by_types(traced.module), _planned(traced, target)
    for greatest in (GREATEST, min(GREATEST, FEWER)):
        ranges = traced.ranges(greatest)
        source = ConversionContext(traced.module, planned, target, ranges, traced.given, {}, traced.held)
        found = support(source, left)
        if not any(limit.code == "too-many-elements" for limit in found.limits.values()):
            break
    if found.limits:
        return Outcome(found.limits, None, 0), ranges
    held = [node.name for node in traced.held]
    parts = partition(traced.module, {}, PartitionOptions(require_full=True), held=held)
    if not parts.segments:
        return Outcome({f.node: f.limit for f in parts.fallback}, None, 0), ranges
    (segment,) = parts.segments
    return Outcome({}, convert_segment(source, segment), 0), ranges


@dataclass(frozen=True)
class _Traced:
    module: GraphModule
    tensors: Mapping[str, torch.Tensor]
    held: Mapping[Node, torch.Tensor]
    env: ShapeEnv
    given: tuple[Any, ...]

    def ranges(self, greatest: int) -> dict[str, Range]:
        """Of each symbol, up to ``greatest`` or what it is grown to below."""
        sizes = {str(symbol): int(size) for symbol, size in self.env.backed_var_to_val.items()}
        found = {
            str(symbol): _range(traced, max(greatest, sizes.get(str(symbol), 0) + max(CHANGES)))
            for symbol, traced in self.env.var_to_range.items()
        }
        # How many elements the data choose has no greatest number of its own.
        found = {name: own if is_backed(name) else Range(own.min, None) for name, own in found.items()}
        return dict(counted_ranges(self.module.graph, NodeReader(), found))


def _traced(
    op: OpOverload,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    dynamic: bool,
    constants: bool,
    read: Collection[int] | None = None,
    shared: bool = False,
) -> _Traced:
    env = ShapeEnv()
    mode = FakeTensorMode(shape_env=env, allow_non_fake_inputs=True)
    graph = Graph()
    flat, spec = pytree.tree_flatten((list(args), dict(kwargs)))
    tensors: dict[str, torch.Tensor] = {}
    held: dict[Node, torch.Tensor] = {}
    fakes: list[Any] = []
    nodes: list[Any] = []
    for item in flat:
        if not isinstance(item, torch.Tensor):
            fakes.append(item)
            nodes.append(item)
            continue
        node = graph.placeholder(f"x{len(tensors)}")
        is_held = constants and (bool(tensors) or not dynamic)
        fake = _fake(mode, item, dynamic and not is_held, node.name, shared)
        node.meta["val"] = fake
        tensors[node.name] = item
        if is_held:
            held[node] = item
        fakes.append(fake)
        nodes.append(node)
    fake_args, fake_kwargs = pytree.tree_unflatten(fakes, spec)
    node_args, node_kwargs = pytree.tree_unflatten(nodes, spec)
    with enable_python_dispatcher(), mode:
        value = op(*fake_args, **fake_kwargs)
    call = graph.call_function(op, tuple(node_args), dict(node_kwargs))
    call.meta["val"] = value
    returned: list[Node] = [call]
    if isinstance(value, (list, tuple)):
        returned = []
        for index, item in enumerate(value):
            if isinstance(item, torch.Tensor) and (read is None or index in read):
                element = graph.call_function(_getitem(), (call, index))
                element.meta["val"] = item
                returned.append(element)
    graph.output(tuple(returned))
    return _Traced(GraphModule(torch.nn.Module(), graph), tensors, held, env, tuple(_conditions(env)))


def _getitem() -> Callable[..., Any]:
    import operator

    return operator.getitem


def _fake(mode: FakeTensorMode, tensor: torch.Tensor, dynamic: bool, name: str, shared: bool) -> FakeTensor:
    from torch._dynamo.source import ConstantSource

    kind = DimDynamic.DUCK if shared else DimDynamic.DYNAMIC
    sizes = [kind if dynamic and size > 1 else DimDynamic.STATIC for size in tensor.shape]
    context = StatelessSymbolicContext(dynamic_sizes=sizes)
    return mode.from_tensor(tensor.detach(), source=ConstantSource(name), symbolic_context=context)


def _range(found: Any, greatest: int) -> Range:
    """What the trace left of a size."""
    low = int(found.lower) if found.lower.is_number and abs(found.lower) < 2**62 else 0
    high = int(found.upper) if found.upper.is_number and abs(found.upper) < 2**62 else greatest
    return Range(low, min(high, greatest))


def _conditions(env: ShapeEnv) -> list[Any]:
    found = []
    for guard in env.guards:
        try:
            found.append(condition_from_sympy(guard.expr))
        except ExpressionError:
            continue
    return found


def _planned(traced: _Traced, target: Target) -> dict[str, tuple[torch.dtype, ...]]:
    """The types as they are, but for int64 where the target has none, and for quantized numbers between ops."""
    others = {} if "int64" in target.dtypes else {torch.int64: torch.int32}
    nodes = list(traced.module.graph.nodes)
    few = {torch.int8: torch.int32, torch.uint8: torch.int32, torch.float8_e4m3fn: torch.float32}
    quantized = few if any(is_quantizer_node(node) or makes_floats(node) for node in nodes) else {}
    planned = {}
    for node in nodes:
        values = [v for v in pytree.tree_leaves(node.meta.get("val")) if isinstance(v, torch.Tensor)]
        found = others if node in traced.held else {**others, **quantized}
        planned[node.name] = tuple(found.get(v.dtype, v.dtype) for v in values)
    return planned


def _left_by_types(module: GraphModule) -> dict[str, Limit]:
    """The calls that the type plan leaves to PyTorch before a converter is asked: those with a tensor in float64."""
    limits = {}
    for node in module.graph.nodes:
        if node.op != "call_function":
            continue
        values = pytree.tree_leaves([used.meta["val"] for used in (node, *node.all_input_nodes)])
        if any(isinstance(value, torch.Tensor) and value.dtype == torch.float64 for value in values):
            limits[node.name] = Limit("double-precision", "it has a tensor in float64")
    return limits


def _inputs(traced: _Traced, ranges: Mapping[str, Range], dynamic: bool) -> list[dict[str, torch.Tensor]]:
    """The sample's tensors, and those of other sizes: each symbol changed."""
    found = [dict(traced.tensors)]
    if not dynamic:
        return found
    for change in CHANGES:
        changed: dict[str, torch.Tensor] = {}
        values: dict[Any, int] = {}
        for node in traced.module.graph.find_nodes(op="placeholder"):
            tensor = traced.tensors[node.name]
            for axis, size in enumerate(node.meta["val"].shape):
                if isinstance(size, torch.SymInt):
                    expr = size.node.expr
                    if expr.is_symbol:
                        values.setdefault(expr, max(2, tensor.shape[axis] + change))
                    length = int(expr.xreplace(values)) if expr.free_symbols <= values.keys() else tensor.shape[axis]
                    tensor = tensor.index_select(axis, torch.arange(length) % tensor.shape[axis])
            changed[node.name] = tensor
        if all(changed[name].shape == traced.tensors[name].shape for name in changed):
            continue
        if not _allowed(traced, ranges, {str(expr): value for expr, value in values.items()}):
            continue  # the op was traced for other sizes
        found.append(changed)
    return found


def _allowed(traced: _Traced, ranges: Mapping[str, Range], values: Mapping[str, int]) -> bool:
    """Whether sizes are within the ranges and conditions that tracing the op left."""
    inside = all(value in ranges[name] for name, value in values.items())
    return inside and all(holds(c, values) for c in traced.given if free_symbols(c) <= values.keys())


def _outputs(traced: _Traced, inputs: Mapping[str, torch.Tensor], names: Sequence[str]) -> list[torch.Tensor]:
    placeholders = [node.name for node in traced.module.graph.find_nodes(op="placeholder")]
    returned = traced.module(*(inputs[name].clone() for name in placeholders))
    (output,) = traced.module.graph.find_nodes(op="output")
    by_name = {node.name: value for node, value in zip(output.args[0], returned, strict=True)}
    return [by_name[name] for name in names]


def _compare(
    expected: torch.Tensor,
    actual: torch.Tensor,
    tolerance: tuple[float, float] | None,
    compare: Callable[[Any, Any], None] | None,
) -> None:
    if compare is not None:
        compare(expected, actual)
        return
    relative, absolute = tolerance or TOLERANCES.get(expected.dtype, (0.0, 0.0))
    torch.testing.assert_close(actual, expected, rtol=relative, atol=absolute, equal_nan=True)
