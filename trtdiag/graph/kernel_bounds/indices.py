"""Ops whose kernels take indices, lengths and offsets on trust, and those whose tensors must be as many."""

from __future__ import annotations

import torch

from trtdiag.graph.kernel_bounds.call import Faults, TrustingCall, said


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
