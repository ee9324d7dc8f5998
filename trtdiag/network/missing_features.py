"""What a layer needs that a target does not have."""

from __future__ import annotations

from collections.abc import Sequence

from trtdiag.network.dtype import DType
from trtdiag.network.layer import Layer
from trtdiag.network.layers.activation import Activation
from trtdiag.network.layers.attention import Attention
from trtdiag.network.layers.convolution import Deconvolution
from trtdiag.network.layers.normalization import Normalization
from trtdiag.network.layers.slice import SampleMode, Slice
from trtdiag.network.layers.squeeze import Squeeze, Unsqueeze
from trtdiag.network.layers.unary import Unary
from trtdiag.network.tensor import Tensor
from trtdiag.targets.target import Target


def lacks(target: Target, layer: Layer, inputs: Sequence[Tensor]) -> str | None:
    """What of a layer the target does not have, in words; ``None`` where it has all of it."""
    # Each of these is one Shuffle where there is no layer of its own.
    if layer.kind not in target.layers and not isinstance(layer, (Squeeze, Unsqueeze)):
        return f"layer {layer.kind}"
    if isinstance(layer, Activation) and layer.op.name not in target.activations:
        return f"activation {layer.op.name}"
    if isinstance(layer, Unary) and layer.op.name not in target.unaries:
        return f"unary operation {layer.op.name}"
    if isinstance(layer, Normalization) and layer.groups != 1 and not target.groups:
        return "normalization of groups with a scale for each channel"
    if isinstance(layer, Attention) and layer.quantize_to is not None and layer.quantize_to.value not in target.dtypes:
        return f"{layer.quantize_to.value}, which the softmax of an Attention is quantized to"
    if isinstance(layer, Deconvolution) and lacks_dilation(target, layer):
        return "Deconvolution with strides and dilation"
    if inputs and inputs[0].rank < target.least_rank(layer.kind):
        return f"{layer.kind} of {inputs[0].rank} dims"
    if (
        isinstance(layer, Slice)
        and layer.mode is not SampleMode.STRICT_BOUNDS
        and inputs[0].dtype is DType.BOOL
        and not target.samples_bools
    ):
        return f"Slice of bool with the mode {layer.mode.name}"
    for limit in target.limits:
        if limit.kind == layer.kind and inputs[0].dtype.value == limit.dtype and inputs[0].rank >= limit.least_rank:
            dims = f" of {limit.least_rank} dims" if limit.least_rank else ""
            return f"{limit.kind} of {limit.dtype}{dims} on {limit.gpu}"
    if inputs and not target.takes(layer.kind, inputs[0].dtype.value):
        return f"{layer.kind} of {inputs[0].dtype.value}"
    return None


def lacks_dilation(target: Target, layer: Deconvolution) -> bool:
    """Whether the target has no such Deconvolution because it is dilated and strided, along one dim or two."""
    return not target.dilated_deconvolutions and max(layer.dilation) > 1 and max(layer.stride) > 1
