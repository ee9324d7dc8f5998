"""Layers whose kernels take the sizes of weights and states on trust."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from trtdiag.graph.kernel_bounds.call import Faults, Rule, Sizes, TrustingCall, said

_OF_CHANNELS = ("weight", "bias", "running_mean", "running_var", "mean", "invstd")


def normalization(call: TrustingCall) -> Faults:
    """Whether statistics and weights are as many as channels."""
    shape = call.sizes("input")
    if shape is None or len(shape) < 2:
        return
    for name in _OF_CHANNELS:
        own = call.sizes(name)
        if own is not None and own != shape[1:2]:
            yield f"its {name} has the sizes {said(own)}, and its input {shape[1]} channels"


def attention(call: TrustingCall) -> Faults:
    """Whether there are as many keys as values; the rest PyTorch checks before it chooses a kernel."""
    key, value = call.sizes("key"), call.sizes("value")
    if key is not None and value is not None and key[-2:-1] != value[-2:-1]:
        yield f"its keys have the sizes {said(key)}, and its values {said(value)}"


def fused_attention(call: TrustingCall) -> Faults:
    """The kernels themselves, which check nothing."""
    query, key, value = (call.sizes(name) for name in ("query", "key", "value"))
    if key is not None and value is not None and key[:-1] != value[:-1]:
        yield f"its keys have the sizes {said(key)}, and its values {said(value)}"
    if query is None or key is None or len(query) != 4 or len(key) != 4:
        return
    if 0 in (*query, *key):
        yield f"it divides by the sizes of its queries, {said(query)}, and keys, {said(key)}"
    if query[0] != key[0] or query[1] % key[1]:
        yield f"its queries have the sizes {said(query)}, and its keys {said(key)}"


def recurrent(gates: int) -> Rule:
    """LSTM, GRU and plain networks: states and weights of each layer and direction."""

    def rule(call: TrustingCall) -> Faults:
        packed = "data" in call.given
        shape, states = call.sizes("data" if packed else "input"), call.given.get("hx")
        every = states if isinstance(states, (list, tuple)) else [states]
        hidden = [call.sizes_of(state) for state in every]
        params = [call.sizes_of(one) for one in call.given.get("params") or ()]
        layers, ways = call.number("num_layers"), 1 + bool(call.given.get("bidirectional"))
        if shape is None or layers is None or any(one is None for one in (*hidden, *params)) or not hidden:
            return
        if call.sizes("batch_sizes") == (0,):
            yield "the number of its steps is 0"
        batch = None if packed else shape[0 if call.given.get("batch_first") else 1 : 2][:1]
        for state in hidden:
            assert state is not None
            fits = len(state) == 3 and state[0] == layers * ways and state[1] == hidden[0][1]  # type: ignore[index]
            if not fits or len(shape) != (2 if packed else 3) or (batch is not None and state[1:2] != batch):
                yield f"its input has the sizes {said(shape)}, and a state of it {said(state)}"
        yield from _weights(
            call, gates, shape[-1], [state[2] for state in hidden if state], params, layers * ways, ways
        )

    return rule


def _weights(
    call: TrustingCall,
    gates: int,
    width: int,
    widths: Sequence[int],
    params: Sequence[Sizes | None],
    count: int,
    ways: int,
) -> Faults:
    given, cell = widths[0], widths[-1]  # a projection makes what an LSTM gives narrower than its cells
    for index in range(count):
        entering = width if index < ways else given * ways
        wanted: list[Sizes] = [(gates * cell, entering), (gates * cell, given)]
        wanted += [(gates * cell,)] * 2 if call.given.get("has_biases") else []
        wanted += [(given, cell)] if given != cell else []
        start = index * len(wanted)
        found = list(params[start : start + len(wanted)])
        if found != wanted:
            off = next((pair for pair in zip(found, wanted, strict=False) if pair[0] != pair[1]), None)
            if off is None:
                yield f"it has {len(params)} weights, fewer than its {count} layers and directions need"
            else:
                yield f"a weight of it has the sizes {said(off[0] or ())}, and its layers need {said(off[1])}"


def weight_norm(call: TrustingCall) -> Faults:
    """Whether there is a norm for each slice of the weight; only the first and the last dim have a kernel."""
    shape, norms, dim = call.sizes("v"), call.sizes("g"), call.number("dim")
    if shape is None or norms is None or dim is None or not shape or dim not in (0, len(shape) - 1):
        return
    if 0 in shape or norms != tuple(size if index == dim else 1 for index, size in enumerate(shape)):
        yield f"its norms have the sizes {said(norms)}, and its weight {said(shape)} (by dim {dim})"


def masked_softmax(call: TrustingCall) -> Faults:
    """Whether the mask covers the input, in one of the three ways that there are."""
    shape, mask, kind = call.sizes("self"), call.sizes("mask"), call.number("mask_type")
    if shape is None or mask is None or len(shape) != 4:
        return
    wanted = {0: shape[2:], 1: (shape[0], shape[3])}.get(2 if kind is None else kind, shape)
    if 0 in shape or mask != wanted:
        yield f"its mask has the sizes {said(mask)}, and its input {said(shape)}"


def observed(call: TrustingCall) -> Faults:
    """Quantization that learns its ranges: one range for each channel."""
    shape, axis = call.sizes("self"), call.number("ch_axis")
    names = ("running_min", "running_max", "scale", "zero_point")
    found = {name: call.sizes(name) for name in names}
    if shape is None or axis is None or any(sizes is None for sizes in found.values()):
        return
    if found["running_min"] == found["running_max"] == (0,):  # the first call makes room for them
        return
    channels = shape[axis] if call.given.get("per_row_fake_quant") and -len(shape) <= axis < len(shape) else 1
    for name, sizes in found.items():
        if prod(sizes or ()) != channels:
            yield f"its {name} has the sizes {said(sizes or ())}, and there are {channels} channels"
