"""Writes Attention, and what stands around it in decoders."""

from __future__ import annotations

from typing import Any

import torch

from trtdiag.engine.tensorrt.emission import Outputs, Step
from trtdiag.engine.tensorrt.emit.registry import emitter
from trtdiag.network import DType
from trtdiag.network.aliased_outputs import why_not_in_place
from trtdiag.network.layers.attention import Attention, CausalMaskKind, KVCacheUpdate, RotaryEmbedding
from trtdiag.network.layers.elementwise import ElementWiseOperation
from trtdiag.network.layers.unary import UnaryOperation

_KINDS_SINCE = (11,)
_QUERIES, _KEYS = 2, 2
"""The dim of query and key that counts them."""


@emitter
def attention(step: Step, layer: Attention) -> Outputs:
    """One layer, which TensorRT may take apart where it has no kernel for it.

    Its own causal mask goes with no other mask (Source: ``nvinfer1::IAttention::setCausal``, 10.15), and before 11 it
    is that of the upper left.  So where there is a mask too, both become one; it has the full size of the scores.
    """
    kinds = step.dialect.target.release >= _KINDS_SINCE
    masked = layer.has_mask(step.count)
    native = not masked and (kinds or layer.causal is not CausalMaskKind.LOWER_RIGHT)
    own = layer.causal if native else CausalMaskKind.NONE
    arguments = [step.tensor(0), step.tensor(1), step.tensor(2), step.dialect.member(layer.op)]
    if kinds:
        made = step.definition.add_attention_v2(*arguments, step.dialect.member(own))
    else:
        made = step.definition.add_attention(*arguments, own is not CausalMaskKind.NONE)
    outputs = step.place(made, decomposable=True)
    if layer.quantize_to is not None:
        made.normalization_quantize_scale = step.tensor(step.count - 1)
        made.normalization_quantize_to_type = step.dialect.dtype(layer.quantize_to)
    if not native:
        made.mask = _mask(step, layer.causal, masked) if layer.causal is not CausalMaskKind.NONE else _full_mask(step)
    return outputs


def _full_mask(step: Step) -> Any:
    """The given mask, repeated to the size of the scores where it is not."""
    mask = step.type(3)
    if (mask.shape[2], mask.shape[3]) == (step.type(0).shape[_QUERIES], step.type(1).shape[_KEYS]):
        return step.tensor(3)
    return _mask(step, CausalMaskKind.NONE, True)


def _mask(step: Step, causal: CausalMaskKind, given: bool) -> Any:
    """What each query sees, the given mask included, in the size of the scores."""
    seen = _seen(step, causal)
    if not given:
        return seen
    mask = step.type(3)
    if mask.dtype is DType.BOOL:
        return _both(step, step.tensor(3), seen, ElementWiseOperation.AND, DType.BOOL)
    nothing = step.constant(torch.full((1, 1, 1, 1), -torch.inf, dtype=mask.dtype.torch))
    return step.place(step.definition.add_select(seen, step.tensor(3), nothing), mask.dtype)[0]


def _seen(step: Step, causal: CausalMaskKind) -> Any:
    """True where ``query - key``, counted from the end for LOWER_RIGHT, is 0 or more: a fill and a comparison."""
    queries, keys = _size(step, 0, _QUERIES), _size(step, 1, _KEYS)
    ones = step.constant(torch.ones(2, dtype=torch.int64))
    shape = step.definition.add_concatenation([ones, queries, keys])
    sizes = step.place_untyped(shape, axis=0)[0]
    alpha = step.constant(torch.tensor(0))
    if causal is CausalMaskKind.LOWER_RIGHT:
        more = _both(step, keys, queries, ElementWiseOperation.SUB, DType.INT64)
        alpha = step.place_untyped(step.definition.add_shuffle(more), reshape_dims=())[0]
    steps = [0, 0, 0, 0] if causal is CausalMaskKind.NONE else [0, 0, 1, -1]
    made = step.dialect.add_fill(step.definition, (0,) * 4, DType.INT64)
    distance = step.place_untyped(made)[0]
    made.set_input(0, sizes)
    made.set_input(1, alpha)
    made.set_input(2, step.constant(torch.tensor(steps)))
    nothing = step.constant(torch.zeros((1, 1, 1, 1), dtype=torch.int64))
    later = _both(step, distance, nothing, ElementWiseOperation.LESS, DType.BOOL)
    return step.place(step.definition.add_unary(later, step.dialect.member(UnaryOperation.NOT)), DType.BOOL)[0]


def _size(step: Step, index: int, axis: int) -> Any:
    """One size of an input, as a vector of one."""
    whole = step.place_untyped(step.definition.add_shape(step.tensor(index)))[0]
    return step.place_untyped(step.definition.add_slice(whole, (axis,), (1,), (1,)))[0]


def _both(step: Step, one: Any, other: Any, operation: ElementWiseOperation, dtype: DType) -> Any:
    return step.place(step.definition.add_elementwise(one, other, step.dialect.member(operation)), dtype)[0]


@emitter
def rotary_embedding(step: Step, layer: RotaryEmbedding) -> Outputs:
    """One layer; positions are a further input of it."""
    made = step.definition.add_rotary_embedding(*step.tensors[:3], layer.interleaved, layer.rotary_embedding_dim)
    outputs = step.place(made)
    if step.count == 4:
        made.set_input(3, step.tensor(3))
    return outputs


@emitter
def kv_cache_update(step: Step, layer: KVCacheUpdate) -> Outputs:
    """One layer.

    Both have one memory: "The cache tensor must be a network input", "The output tensor must be a network output",
    tensorrt-rtx 1.4.0.76 and 1.7.1.116.
    """
    why = why_not_in_place(step.emission.network, step.placed)
    step.require(why is None, f"KVCacheUpdate {why}")
    return step.place(step.definition.add_kv_cache_update(*step.tensors, step.dialect.member(layer.mode)))
