"""Quantizes a model by torchao's PT2E flow, with a quantizer as TensorRT wants it: int8 with zero point 0."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e import MinMaxObserver, PerChannelMinMaxObserver
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.pt2e.quantizer import QuantizationAnnotation, QuantizationSpec, Quantizer

ATEN = torch.ops.aten
_TENSORS = QuantizationSpec(
    torch.int8, MinMaxObserver.with_args(eps=2**-12), -128, 127, qscheme=torch.per_tensor_symmetric
)


def _weights(axis: int) -> QuantizationSpec:
    observer = PerChannelMinMaxObserver.with_args(eps=2**-12)
    return QuantizationSpec(torch.int8, observer, -127, 127, qscheme=torch.per_channel_symmetric, ch_axis=axis)


_AXES = {ATEN.conv2d.default: 0, ATEN.conv1d.default: 0, ATEN.linear.default: 0, ATEN.conv_transpose2d.input: 1}


class Symmetric(Quantizer):
    """What convolutions, linear layers and products read, and what sums add to a convolution."""

    def annotate(self, model: GraphModule) -> GraphModule:
        for node in model.graph.nodes:
            specs = dict(_asked(node))
            if specs:
                node.meta["quantization_annotation"] = QuantizationAnnotation(specs, _annotated=True)
        return model

    def validate(self, model: GraphModule) -> None:
        """Nothing to check: every annotation is one of the two above."""


def _asked(node: Node) -> Any:
    if node.target in _AXES:
        yield node.args[0], _TENSORS
        yield node.args[1], _weights(_AXES[node.target])
    elif node.target is ATEN.matmul.default:
        yield from ((side, _TENSORS) for side in node.args)
    elif node.target in (ATEN.add.Tensor, ATEN.add_.Tensor):
        left, right = node.args[:2]
        if isinstance(left, Node) and isinstance(right, Node) and left is not right:
            pairs = ((left, right), (right, left))
            yield from ((other, _TENSORS) for one, other in pairs[:1] if "conv" in f"{one.target} {other.target}")


def pt2e_quantized(
    module: nn.Module, args: tuple[Any, ...], dims: Any = None, calls: Sequence[tuple[Any, ...]] = ()
) -> torch.export.ExportedProgram:
    """The program that PT2E makes of a model, calibrated on ``args`` and on further ``calls``."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # torchao's, of its own parts
        prepared = prepare_pt2e(torch.export.export(module, args, dynamic_shapes=dims).module(), Symmetric())
        for given in (args, *calls):
            prepared(*given)
        return torch.export.export(convert_pt2e(prepared), args, dynamic_shapes=_by_place(dims))


def _by_place(dims: Any) -> Any:
    """One entry for each tensor: what ``*args`` were called is lost in the module of a program."""
    if dims is None:
        return None
    found = list(dims.values() if isinstance(dims, dict) else dims)
    return tuple(found[0]) if len(found) == 1 and isinstance(found[0], (tuple, list)) else tuple(found)
