"""Sizes and indices that kernels of PyTorch take on trust: where a call reads or writes beyond its tensors.

One rule for calls of a graph, by the sizes that it states, and for calls as they run, by those of their tensors.  Each
op was seen to reach beyond its tensors, or to end the process, on the CPU with torch 2.13: every op that a saved graph
may call was given tensors with a page after them that cannot be read, and changed sizes, indices and numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from torch._ops import OpOverload

from trtdiag.graph.kernel_bounds.call import Faults, Rule, SizesOf, TrustingCall, said
from trtdiag.graph.kernel_bounds.indices import bag, copied, ctc, embedded, packed, pivots, segments
from trtdiag.graph.kernel_bounds.layers import (
    attention,
    fused_attention,
    masked_softmax,
    normalization,
    observed,
    recurrent,
    weight_norm,
)
from trtdiag.graph.operators import arguments_of, schema_name


def _scaled(call: TrustingCall) -> Faults:
    """What is read lies at the place in the output by the scale, not by the sizes."""
    shape, size = call.sizes("input") or call.sizes("self"), call.numbers("output_size")
    if shape is None or size is None or len(size) != 2 or len(shape) != 4:
        return
    for name, before, after in zip(("scales_h", "scales_w"), shape[2:], size, strict=True):
        scale = call.given.get(name)
        if isinstance(scale, float) and scale > 0 and after > before * scale * (1 + 1e-6) + 1e-6:
            yield f"it makes {after} of a size of {before}, with the scale {scale:g}"


def _real_transform(call: TrustingCall) -> Faults:
    shape, dims, last = call.sizes("self"), call.numbers("dim"), call.number("last_dim_size")
    if shape is None or not dims or last is None or not -len(shape) <= dims[-1] < len(shape):
        return
    if shape[dims[-1]] != last // 2 + 1:
        yield f"it gives {last} numbers of a size of {shape[dims[-1]]}, which has to be {last // 2 + 1}"


def _same(one: str, other: str) -> Rule:
    def rule(call: TrustingCall) -> Faults:
        first, second = call.sizes(one), call.sizes(other)
        if first is not None and second is not None and first != second:
            yield f"its {one} has the sizes {said(first)}, and its {other} {said(second)}"

    return rule


def _layer_norm_backward(call: TrustingCall) -> Faults:
    yield from _same("grad_out", "input")(call)
    shape, normalized = call.sizes("input"), call.numbers("normalized_shape")
    if shape is None or normalized is None or len(normalized) > len(shape):
        return
    rows = prod(shape[: len(shape) - len(normalized)])
    for name in ("mean", "rstd"):
        own = call.sizes(name)
        if own is not None and prod(own) != rows:
            yield f"its {name} has the sizes {said(own)}, and its input {rows} rows"


_GROUPS: Sequence[tuple[Rule, str]] = (
    (
        normalization,
        "native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_functional"
        " _native_batch_norm_legit_no_training _batch_norm_no_update _batch_norm_with_update"
        " _batch_norm_with_update_functional cudnn_batch_norm miopen_batch_norm batch_norm_elemt",
    ),
    (attention, "scaled_dot_product_attention"),
    (
        fused_attention,
        "_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention"
        " _scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention",
    ),
    (recurrent(4), "lstm"),
    (recurrent(3), "gru"),
    (recurrent(1), "rnn_tanh rnn_relu"),
    (bag, "embedding_bag _embedding_bag _embedding_bag_forward_only"),
    (ctc, "ctc_loss _ctc_loss"),
    (segments, "segment_reduce"),
    (pivots, "lu_unpack"),
    (_scaled, "_upsample_bilinear2d_aa _upsample_bicubic2d_aa _upsample_lanczos2d_aa"),
    (_real_transform, "_fft_c2r"),
    (_same("grad_output", "output"), "_log_softmax_backward_data"),
    (_layer_norm_backward, "native_layer_norm_backward"),
    (weight_norm, "_weight_norm _weight_norm_interface"),
    (embedded, "embedding_dense_backward"),
    (packed, "_pad_packed_sequence"),
    (copied, "_foreach_copy _foreach_copy_"),
    (masked_softmax, "_masked_softmax"),
    (
        observed,
        "fused_moving_avg_obs_fake_quant _fused_moving_avg_obs_fq_helper _fused_moving_avg_obs_fq_helper_functional",
    ),
)
_RULES: Mapping[str, Rule] = {f"aten::{name}": rule for rule, names in _GROUPS for name in names.split()}
_BY_ELEMENTS = frozenset({bag, ctc, segments, embedded, packed})


def trusts_sizes(op: OpOverload) -> bool:
    """Whether an op takes sizes or indices on trust."""
    return schema_name(op) in _RULES


def trusts_elements(op: OpOverload) -> bool:
    """Whether it is what a tensor holds that an op takes on trust, so that each call may be another."""
    return _RULES.get(schema_name(op)) in _BY_ELEMENTS


def reach_of_sizes(op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], sizes_of: SizesOf) -> str:
    """Why a call reads or writes beyond its tensors, as a clause; empty where it does not.

    Args:
        op: What is called.
        args: With these arguments by place.
        kwargs: And these by name.
        sizes_of: Says the sizes of one.
    """
    rule = _RULES.get(schema_name(op))
    if rule is None:
        return ""
    known = arguments_of(op)
    given = {argument.name: argument.default for argument in known.values()}
    return next(rule(TrustingCall({**given, **dict(zip(known, args, strict=False)), **kwargs}, sizes_of)), "")
