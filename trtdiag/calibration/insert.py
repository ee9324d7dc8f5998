"""The quantized program: the original one with quantizers at the inputs of its ops, and weights of INT8."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Node

from trtdiag.calibration.constant_values import ConstantValues
from trtdiag.calibration.facts import QuantizedOp, Quantizers
from trtdiag.calibration.scales import GREATEST, LEAST, channel_scales, quantized_weight
from trtdiag.errors import UserError
from trtdiag.frontend.node_origins import op_origins
from trtdiag.frontend.program import Program
from trtdiag.frontend.rebuilt_program import rebuilt_program
from trtdiag.graph.aliases import written_nodes
from trtdiag.graph.fake_values import fake_mode_of
from trtdiag.graph.operators import named_arguments, operator_of, short_name, target_name
from trtdiag.graph.quantizers import decomposed_ops
from trtdiag.lower.draft import insert_call
from trtdiag.lower.graph_copy import GraphCopy, brought_tensors, copied


@dataclass(frozen=True)
class Folded:
    """A program whose batch norms are in the products before them.

    Attributes:
        program: What it was made of.
        draft: The graph, to look at.
        constants: Its weights.
    """

    program: Program
    draft: GraphCopy
    constants: ConstantValues

    def exported(self) -> ExportedProgram:
        """As a program of torch."""
        assert self.program.exported is not None
        return _exported(self.program.exported, self.draft)


def folded(program: Program) -> Folded:
    """A program, which has a graph, with its batch norms folded."""
    assert program.exported is not None
    signature = program.exported.graph_signature
    draft = GraphCopy(
        copied(program.exported.graph_module),
        list(signature.input_specs),
        list(signature.output_specs),
        brought_tensors(program.exported),
    )
    constants = ConstantValues(draft)
    fold_norms(draft, constants)
    draft.graph_module.recompile()
    return Folded(program, draft, ConstantValues(draft))


def quantized(source: Folded, quantizers: Quantizers) -> Program:
    """The program with its quantizers; inputs, ranges and guards are those of the original.

    Args:
        source: The program, its batch norms folded; of it nothing is left as it was.
        quantizers: What to quantize, and how.

    Raises:
        UserError: ``other-quantizers``: they are those of another program.
    """
    program, draft = source.program, source.draft
    nodes = {node.name: node for node in draft.graph.nodes}
    writer = _Writer(draft, source.constants)
    for op in quantizers.ops:
        node = nodes.get(op.node)
        if node is None or target_name(node.target) != op.op:
            raise UserError(
                "the scales are those of another program",
                because=f"it has no {op.op} of the name {op.node}",
                fix="give the model that was calibrated, or compile this one with calibrate",
                reference="other-quantizers",
            )
        writer.quantize(node, op)
    draft.graph.lint()
    draft.graph_module.recompile()
    assert program.exported is not None
    made = _exported(program.exported, draft)
    return replace(program, exported=made, origins=op_origins(made.graph_module))


class _Writer:
    """Inserts quantizers before ops; ops that read one tensor with one scale share a quantizer."""

    def __init__(self, draft: GraphCopy, constants: ConstantValues) -> None:
        self._draft = draft
        self._constants = constants
        self._written = written_nodes(draft.graph)
        self._ops = decomposed_ops()
        self._mode = fake_mode_of(draft.graph)
        self._inputs: dict[tuple[Node, float], Node] = {}
        self._weights: dict[tuple[Node, int], Node] = {}

    def quantize(self, node: Node, op: QuantizedOp) -> None:
        arguments: list[Any] = list(node.args)
        for each in op.inputs:
            arguments[each.at] = self._input(arguments[each.at], each.scale, node)
        if op.weight is not None:
            weight = arguments[op.weight]
            arguments[op.weight] = self._weight(weight, op.axis, node)
            node.args = tuple(arguments)
            self._drop(weight)
        node.args = tuple(arguments)

    def _input(self, source: Any, scale: float, reader: Node) -> Node:
        if (source, scale) in self._inputs:
            return self._inputs[source, scale]
        value = source.meta["val"]
        with self._draft.graph.inserting_before(reader), self._mode:
            how = (scale, 0, LEAST, GREATEST, torch.int8)
            narrow = self._ops.quantize_per_tensor.default
            numbers = insert_call(
                self._draft.graph, narrow, (source, *how), torch.empty_like(value, dtype=torch.int8), reader, "quantize"
            )
            wide = self._ops.dequantize_per_tensor.default
            made = insert_call(
                self._draft.graph,
                wide,
                (numbers, *how),
                torch.empty_like(value),
                reader,
                "dequantize",
                {"out_dtype": value.dtype},
            )
        if source not in self._written:
            self._inputs[source, scale] = made
        return made

    def _weight(self, source: Node, axis: int, reader: Node) -> Node:
        if (source, axis) in self._weights:
            return self._weights[source, axis]
        value = self._constants.value(source)
        scales = channel_scales(value, axis)
        zeros = torch.zeros(scales.shape, dtype=torch.int64, device=scales.device)
        tensors: Mapping[str, torch.Tensor] = {
            "int8": quantized_weight(value, scales, axis),
            "scales": scales,
            "zeros": zeros,
        }
        entered = [
            self._draft.add_constant(
                f"{source.name}_{name}", tensor, self._mode.from_tensor(tensor, static_shapes=True)
            )
            for name, tensor in tensors.items()
        ]
        with self._draft.graph.inserting_before(reader):
            made = insert_call(
                self._draft.graph,
                self._ops.dequantize_per_channel.default,
                (*entered, axis, -GREATEST, GREATEST, torch.int8),
                source.meta["val"],
                reader,
                "weight",
                {"out_dtype": value.dtype},
            )
        self._weights[source, axis] = made
        return made

    def _drop(self, node: Any) -> None:
        """Take away what nothing reads any more, and what only that has read."""
        if not isinstance(node, Node) or node.users:
            return
        sources = node.all_input_nodes
        if node.op == "placeholder":
            self._draft.drop_constant(node)
        else:
            self._draft.graph.erase_node(node)
        for source in sources:
            self._drop(source)


def _exported(exported: ExportedProgram, draft: GraphCopy) -> ExportedProgram:
    """The program of a draft, called like the original."""
    held = {**exported.constants, **exported.state_dict}
    constants = dict(exported.constants)
    for spec in draft.input_specs:
        if spec.kind is InputKind.CONSTANT_TENSOR and spec.target not in held:
            constants[str(spec.target)] = draft.tensors[spec.arg.name]
    wanted = {spec.target for spec in draft.input_specs}
    state = {name: value for name, value in exported.state_dict.items() if name in wanted}
    return rebuilt_program(
        exported, draft.graph_module, draft.graph, draft.signature(), state, constants, same_modules=True
    )


# Takes batch norms into the products before them, as engines do: weights are quantized as they are then.


_PRODUCTS = frozenset({"conv1d", "conv2d", "conv3d", "linear"})


def fold_norms(draft: GraphCopy, constants: ConstantValues) -> None:
    """Fold each batch norm with constant statistics into the convolution that it alone reads."""
    read = [node for node in draft.placeholders if node.users]
    for node in list(draft.graph.nodes):
        op = operator_of(node)
        if op is not None and short_name(op) == "batch_norm":
            _fold(node, draft, constants)
    for node in read:
        if not node.users:
            draft.drop_constant(node)


def _fold(node: Node, draft: GraphCopy, constants: ConstantValues) -> None:
    given = named_arguments(node, operator_of(node))  # type: ignore[arg-type]  # it calls one
    source = given["input"]
    op = operator_of(source)
    if given["training"] or op is None or short_name(op) not in _PRODUCTS or len(source.users) > 1:
        return
    if short_name(op) == "linear" and source.meta["val"].dim() != 2:
        return  # the norm is over another dim than that of the output channels
    product = named_arguments(source, op)
    read = [given["weight"], given["bias"], given["running_mean"], given["running_var"], product["bias"]]
    if given["running_mean"] is None or not all(each is None or constants.known(each) for each in read):
        return
    if not constants.known(product["weight"]):
        return

    def exact(each: Node | None, usual: float) -> torch.Tensor:
        return torch.tensor(usual, dtype=torch.float64) if each is None else constants.value(each).double()

    weight = constants.value(product["weight"])
    scale = exact(given["weight"], 1.0) / torch.sqrt(exact(given["running_var"], 1.0) + given["eps"])
    shift = exact(given["bias"], 0.0) + (exact(product["bias"], 0.0) - exact(given["running_mean"], 0.0)) * scale
    folded = (weight.double() * scale.reshape(-1, *(1,) * (weight.dim() - 1))).to(weight.dtype)
    mode = fake_mode_of(draft.graph)
    stem = source.name
    kernel = draft.add_constant(f"{stem}_folded_weight", folded, mode.from_tensor(folded, static_shapes=True))
    bias = draft.add_constant(
        f"{stem}_folded_bias", shift.to(weight.dtype), mode.from_tensor(shift.to(weight.dtype), static_shapes=True)
    )
    source.args = (source.args[0], kernel, bias, *source.args[3:])
    source.kwargs = {name: value for name, value in source.kwargs.items() if name not in ("weight", "bias")}
    node.replace_all_uses_with(source)
    draft.graph.erase_node(node)
