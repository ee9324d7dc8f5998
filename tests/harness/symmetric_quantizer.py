"""Quantizes a model as PT2E does, with torch alone: int8 with zero point 0 around convolutions and linear layers.

One scale for each tensor that they read, one for each output channel of their weights; batch norms are taken into the
convolutions before them, and where a sum adds a convolution to something else, that is quantized too: TensorRT then
adds inside of the convolution.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Interpreter, Node

from trtdiag.graph.quantizers import decomposed_ops

ATEN = torch.ops.aten
PRODUCTS = (ATEN.conv2d.default, ATEN.linear.default)
SUMS = (ATEN.add.Tensor, ATEN.add_.Tensor)
GREATEST = 127


def quantized(
    module: nn.Module, args: tuple[Any, ...], dims: Any = None, calls: Sequence[tuple[Any, ...]] = ()
) -> torch.export.ExportedProgram:
    """The program with quantizers, calibrated on ``args`` and on further ``calls``."""
    graph_module = torch.export.export(module, args, dynamic_shapes=dims).module()
    assert isinstance(graph_module, GraphModule)
    with torch.no_grad():
        _take_batch_norms_in(graph_module)
        sources = list(dict.fromkeys(source for source, _ in _readings(graph_module)))
        greatest = _Greatest(graph_module, sources)
        for given in (args, *calls):
            greatest.run(*given)
        _insert(graph_module, greatest.found)
        _quantize_weights(graph_module)
    graph_module.graph.eliminate_dead_code()
    graph_module.recompile()
    return torch.export.export(graph_module, args, dynamic_shapes=dims)


class _Greatest(Interpreter):
    """Notes the greatest magnitude of some tensors."""

    def __init__(self, module: GraphModule, wanted: Sequence[Node]) -> None:
        super().__init__(module)
        self._wanted = frozenset(wanted)
        self.found: dict[Node, float] = {}

    def run_node(self, n: Node) -> Any:
        value = super().run_node(n)
        if n in self._wanted:
            self.found[n] = max(self.found.get(n, 1e-6), float(value.abs().max()))
        return value


def _is_product(node: object) -> bool:
    return isinstance(node, Node) and node.target in PRODUCTS


def _readings(module: GraphModule) -> Iterator[tuple[Node, Node]]:
    """Tensors to quantize, each with a node that reads it."""
    for node in module.graph.nodes:
        if _is_product(node):
            yield node.args[0], node
        elif node.target in SUMS and all(isinstance(arg, Node) for arg in node.args[:2]):
            left, right = node.args[:2]
            if any(_is_product(side) and side.target is ATEN.conv2d.default for side in (left, right)):
                yield (right if _is_product(left) else left), node


def _insert(module: GraphModule, greatest: Mapping[Node, float]) -> None:
    ops = decomposed_ops()
    made: dict[Node, Node] = {}
    for source, reader in list(_readings(module)):
        how = (greatest[source] / GREATEST, 0, -GREATEST - 1, GREATEST, torch.int8)
        if source not in made:
            with module.graph.inserting_after(source):
                made[source] = module.graph.call_function(ops.quantize_per_tensor.default, (source, *how))
        with module.graph.inserting_before(reader):
            back = module.graph.call_function(ops.dequantize_per_tensor.default, (made[source], *how))
        reader.replace_input_with(source, back)


def _quantize_weights(module: GraphModule) -> None:
    ops = decomposed_ops()
    for number, node in enumerate([node for node in module.graph.nodes if _is_product(node)]):
        weight = _attribute(module, node.args[1])
        scales = (weight.abs().amax(tuple(range(1, weight.dim()))) / GREATEST).clamp(min=1e-8)
        zeros = torch.zeros(len(scales), dtype=torch.int64, device=weight.device)
        how = (0, -GREATEST, GREATEST, torch.int8)
        names = [f"{part}_{number}" for part in ("quantized_weight", "weight_scales", "weight_zero_points")]
        parts = (ops.quantize_per_channel(weight, scales, zeros, *how), scales, zeros)
        with module.graph.inserting_before(node):
            read = []
            for name, part in zip(names, parts, strict=True):
                module.register_buffer(name, part)
                read.append(module.graph.get_attr(name))
            back = module.graph.call_function(ops.dequantize_per_channel.default, (*read, *how))
        node.update_arg(1, back)


def _take_batch_norms_in(module: GraphModule) -> None:
    for node in list(module.graph.nodes):
        before = node.args[0] if node.args else None
        if node.target is not ATEN.batch_norm.default or not _is_product(before) or len(before.users) != 1:
            continue
        weight, bias, mean, variance = (_attribute(module, arg) for arg in node.args[1:5])
        scale = weight / (variance + node.args[7]).sqrt()
        kernel = _attribute(module, before.args[1])
        old = _attribute(module, before.args[2]) if len(before.args) > 2 and before.args[2] is not None else 0.0
        parts = {"kernel": kernel * scale.reshape(-1, 1, 1, 1), "bias": (old - mean) * scale + bias}
        with module.graph.inserting_before(before):
            read = []
            for name, part in parts.items():
                module.register_buffer(f"{before.name}_{name}", part)
                read.append(module.graph.get_attr(f"{before.name}_{name}"))
        before.args = (before.args[0], *read, *before.args[3:])
        node.replace_all_uses_with(before)
        module.graph.erase_node(node)


def _attribute(module: GraphModule, node: Node) -> Tensor:
    return operator.attrgetter(str(node.target))(module).detach()
