"""What a program quantizes, and who computes with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch.fx import Graph, Node

from trtdiag.dtypes.facts import QuantizedReader, QuantizedTensor
from trtdiag.frontend.node_origins import stack_of
from trtdiag.frontend.program import Program
from trtdiag.graph.fake_values import has_values
from trtdiag.graph.inputs import Placeholder, placeholders
from trtdiag.graph.node_kinds import NodeKind, classify
from trtdiag.graph.operators import named_arguments, operator_of, short_name, target_name
from trtdiag.graph.quantizer import Grain, Quantizer, Step, is_symmetric
from trtdiag.graph.quantizers import is_dequantizer, is_quantizer_node, quantizer_of

PRODUCTS: Mapping[str, tuple[str, str, int]] = {
    **dict.fromkeys(("conv1d", "conv2d", "conv3d", "convolution"), ("input", "weight", 0)),
    "linear": ("input", "weight", 0),
    "addmm": ("mat1", "mat2", 1),
    "mm": ("self", "mat2", 1),
    "matmul": ("self", "other", -1),
    "bmm": ("self", "mat2", -1),
}
"""What TensorRT computes in INT8: its operands, and the dim of output channels in the second."""
_MOVE_NUMBERS = (
    "view reshape transpose permute t unsqueeze squeeze flatten unflatten clone contiguous expand slice select cat"
    " stack max_pool1d max_pool2d max_pool3d pixel_shuffle split chunk"
)
_MOVES = frozenset(_MOVE_NUMBERS.split())
"""Ops that quantized numbers go through as they are."""
_COMPUTE_IN_FLOATS = (
    "relu relu6 gelu silu sigmoid tanh hardswish hardsigmoid hardtanh clamp leaky_relu elu softplus mish softmax"
    " _softmax log_softmax layer_norm native_layer_norm rms_norm group_norm native_group_norm instance_norm batch_norm"
    " _native_batch_norm_legit_no_training scaled_dot_product_attention exp log sqrt rsqrt pow sin cos erf embedding"
)
_OF_DATA = "what a program computes has one scale for the whole tensor there"
_IN_FLOATS = frozenset(_COMPUTE_IN_FLOATS.split())
"""Ops that no kernel of INT8 computes by itself; those behind a product are part of its kernel."""


def quantized_tensors(program: Program, graph: Graph) -> tuple[QuantizedTensor, ...]:
    """What is quantized, in graph order.

    Args:
        program: Names places, and holds scales.
        graph: Its own graph, with values.
    """
    if program.exported is None or not any(map(is_quantizer_node, graph.nodes)):
        return ()
    return tuple(_Uses(program, placeholders(program.exported)).found(graph))


class _Uses:
    def __init__(self, program: Program, held: Mapping[str, Placeholder]) -> None:
        self._program = program
        self._held = held
        self._constant: dict[Node, bool] = {}

    def found(self, graph: Graph) -> Iterator[QuantizedTensor]:
        for node in graph.nodes:
            quantizer = quantizer_of(node, self._value) if is_quantizer_node(node) else None
            if quantizer is not None and not (quantizer.step is Step.QUANTIZE and _is_dequantized_again(node)):
                yield self._use(node, quantizer)

    def _use(self, node: Node, quantizer: Quantizer) -> QuantizedTensor:
        source = node.all_input_nodes[0]
        if quantizer.step is Step.DEQUANTIZE and is_quantizer_node(source):
            source = source.all_input_nodes[0]
        weight = self._is_constant(source)
        readers = list(_readers(node))
        return QuantizedTensor(
            node=node.name,
            op=target_name(node.target),
            frame=stack_of(self._program.origins, node.name).best,
            weight=weight,
            made_by="" if source.op == "placeholder" else target_name(source.target),
            by_product=short_name(op) in PRODUCTS if (op := operator_of(source)) is not None else False,
            from_data=any(map(self._is_data, (quantizer.scale, quantizer.zero_point))),
            symmetric=None if isinstance(quantizer.zero_point, Node) else is_symmetric(quantizer),
            odd_axis=_odd_axis(node, quantizer, readers, weight=weight),
            readers=tuple(self._reader(each, taken) for each, taken in readers),
        )

    def _reader(self, node: Node, taken: Node) -> QuantizedReader:
        op = operator_of(node)
        name = "" if op is None else short_name(op)
        floats = name in _IN_FLOATS
        beside = ""
        if op is not None and name in PRODUCTS:
            given = named_arguments(node, op)
            others = [given[each] for each in PRODUCTS[name][:2] if given.get(each) is not taken]
            beside = next((each.name for each in others if isinstance(each, Node) and not _is_dequantized(each)), "")
        return QuantizedReader(node.name, target_name(node.target), floats, beside)

    def _is_constant(self, node: Node) -> bool:
        if node not in self._constant:
            if node.op == "placeholder":
                known = node.name in self._held and self._held[node.name].held
            else:
                # Made of nothing, as by zeros, it is the same in each call, too.
                known = all(map(self._is_constant, node.all_input_nodes)) and not _is_random(node)
            self._constant[node] = known
        return self._constant[node]

    def _is_data(self, given: object) -> bool:
        return isinstance(given, Node) and not self._is_constant(given)

    def _value(self, node: Node) -> torch.Tensor | None:
        known = self._held.get(node.name)
        tensor = None if known is None or known.changed else known.tensor
        return tensor if tensor is not None and has_values(tensor) else None


def _is_random(node: Node) -> bool:
    op = operator_of(node)
    return op is None or torch.Tag.nondeterministic_seeded in op.tags


def _readers(node: Node) -> Iterator[tuple[Node, Node]]:
    """Who computes with what a node gives, past what only moves it, and the operand that it is there."""
    for user in node.users:
        op = operator_of(user)
        moves = op is not None and short_name(op) in _MOVES
        if moves or classify(user) in (NodeKind.NO_OP, NodeKind.ELEMENT):
            yield from _readers(user)
        elif user.op != "output" and classify(user) is not NodeKind.SHAPE:
            yield user, node


def _is_dequantized_again(node: Node) -> bool:
    return any(is_dequantizer(user.target) for user in node.users)


def _is_dequantized(node: Node) -> bool:
    """Whether an operand comes of quantized numbers, past what only moves them."""
    while True:
        if is_quantizer_node(node):
            return True
        op = operator_of(node)
        if op is None or short_name(op) not in _MOVES or not node.all_input_nodes:
            return False
        node = node.all_input_nodes[0]


def _odd_axis(node: Node, quantizer: Quantizer, readers: list[tuple[Node, Node]], *, weight: bool) -> str:
    """Why TensorRT does not fuse scales along this dim; empty where it does, or that is not known."""
    if quantizer.grain is Grain.OTHER or (quantizer.grain is Grain.BLOCK and quantizer.bits != 4):
        what = "weights of 8 bits have one for each output channel" if weight else _OF_DATA
        return f"{what}, and by blocks it takes those of 4 bits alone"
    if quantizer.grain is not Grain.CHANNEL:
        return ""
    if not weight:
        return _OF_DATA
    for reader, taken in readers:
        op = operator_of(reader)
        if op is None or short_name(op) not in PRODUCTS or taken is not node:
            continue  # what moves a weight on its way moves its dims
        _, weight_argument, axis = PRODUCTS[short_name(op)]
        value = node.meta.get("val")
        if named_arguments(reader, op).get(weight_argument) is not node or not isinstance(value, torch.Tensor):
            continue
        if quantizer.axis % value.dim() != axis % value.dim():
            return f"weights of {target_name(reader.target)} have one for each output channel, dim {axis % value.dim()}"
    return ""
