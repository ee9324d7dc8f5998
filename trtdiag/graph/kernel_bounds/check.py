"""Sizes and indices that kernels of PyTorch take on trust: where a call reads or writes beyond its tensors.

One rule for calls of a graph, by the sizes that it states, and for calls as they run, by those of their tensors.  Each
op was seen to reach beyond its tensors, or to end the process, on the CPU with torch 2.13: every op that a saved graph
may call was given tensors with a page after them that cannot be read, and changed sizes, indices and numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import torch
from torch._ops import OpOverload

from trtdiag.graph.kernel_bounds.call import Faults, Rule, SizesOf, TrustingCall, said
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

# Ops whose kernels take indices, lengths and offsets on trust, and those whose tensors must be as many.


def bag(call: TrustingCall) -> Faults:
    """Whether offsets go up, within the indices."""
    indices, offsets = call.sizes("indices"), call.sizes("offsets")
    if indices is None or offsets is None or len(indices) != 1 or len(offsets) != 1:
        return
    if offsets[0] - bool(call.given.get("include_last_offset")) <= 0 < indices[0]:
        yield f"it has {indices[0]} indices, and no bag for them ({offsets[0]} offsets)"
    yield from _steps(call.elements("offsets"), indices[0], "indices")


def _steps(offsets: torch.Tensor | None, end: int, what: str) -> Faults:
    """Why offsets do not lead from the first to the last of ``end`` things."""
    if offsets is None or not offsets.numel():
        return
    least, most = int(offsets.min()), int(offsets.max())
    if least < 0 or most > end or bool((offsets[..., 1:] < offsets[..., :-1]).any()):
        yield f"its offsets go from {least} to {most}, or back, and it has {end} {what}"


def ctc(call: TrustingCall) -> Faults:
    """Whether targets are classes, as far as their lengths go."""
    shape, targets, lengths = call.sizes("log_probs"), call.elements("targets"), call.numbers("target_lengths")
    if not shape or targets is None or lengths is None:
        return
    if targets.dim() == 2 and len(lengths) == targets.shape[0]:  # what is behind the length of a row is not read
        places = torch.arange(targets.shape[1]).expand(targets.shape)
        targets = targets[places < torch.tensor(lengths).reshape(-1, 1)]
    elif targets.dim() == 1:
        targets = targets[: max(0, sum(lengths))]
    if targets.numel() and (int(targets.min()) < 0 or int(targets.max()) >= shape[-1]):
        yield f"its targets go from {int(targets.min())} to {int(targets.max())}, and there are {shape[-1]} classes"


def segments(call: TrustingCall) -> Faults:
    """Whether lengths or offsets are for this data, and offsets go up within it; the sum of lengths PyTorch checks."""
    shape, axis = call.sizes("data"), call.number("axis")
    if shape is None or axis is None or not 0 <= axis < len(shape):
        return
    for name in ("lengths", "offsets"):
        own = call.sizes(name)
        if own is not None and own[:-1] != shape[:axis]:
            yield f"its {name} have the sizes {said(own)}, and its data {said(shape)}"
    yield from _steps(call.elements("offsets"), shape[axis], f"elements in dim {axis}")


def pivots(call: TrustingCall) -> Faults:
    """Whether there is a pivot for each row."""
    shape, pivots = call.sizes("LU_data"), call.sizes("LU_pivots")
    if shape is None or pivots is None or len(shape) < 2:
        return
    if pivots != (*shape[:-2], min(shape[-2:])):
        yield f"its pivots have the sizes {said(pivots)}, and its matrix {said(shape)}"


def embedded(call: TrustingCall) -> Faults:
    """Whether indices are rows of the weight."""
    indices, rows = call.elements("indices"), call.number("num_weights")
    if indices is None or rows is None or not indices.numel():
        return
    if int(indices.min()) < 0 or int(indices.max()) >= rows:
        yield f"its indices go from {int(indices.min())} to {int(indices.max())}, and there are {rows} rows"


def repeated(call: TrustingCall) -> Faults:
    """Whether nothing is repeated a negative number of times: PyTorch checks the sum before it looks at each."""
    repeats = call.elements("repeats")
    if repeats is not None and repeats.numel() and int(repeats.min()) < 0:
        yield f"it repeats an element {int(repeats.min())} times"


def packed(call: TrustingCall) -> Faults:
    """Whether the steps of packed sequences hold their data."""
    shape, batches = call.sizes("data"), call.numbers("batch_sizes")
    if shape is None or not shape or batches is None or not isinstance(call.given["batch_sizes"], torch.Tensor):
        return
    if min(batches, default=0) < 1 or sum(batches) != shape[0] or batches != sorted(batches, reverse=True):
        yield f"its steps have the sizes {batches}, and its data {shape[0]} rows"


def copied(call: TrustingCall) -> Faults:
    """Whether two lists of tensors are as long."""
    one, other = call.given.get("self"), call.given.get("src")
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)) and len(one) != len(other):
        yield f"it copies {len(other)} tensors into {len(one)}"


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
    (repeated, "repeat_interleave"),
    (packed, "_pad_packed_sequence"),
    (copied, "_foreach_copy _foreach_copy_"),
    (masked_softmax, "_masked_softmax"),
    (
        observed,
        "fused_moving_avg_obs_fake_quant _fused_moving_avg_obs_fq_helper _fused_moving_avg_obs_fq_helper_functional",
    ),
)
_RULES: Mapping[str, Rule] = {f"aten::{name}": rule for rule, names in _GROUPS for name in names.split()}
_BY_ELEMENTS = frozenset({bag, ctc, segments, embedded, repeated, packed})


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
