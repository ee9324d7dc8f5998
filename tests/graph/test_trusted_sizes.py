"""Ops that take sizes and indices on trust: each with a call that fits, and calls that reach beyond its tensors.

The calls that do not fit are not made: with a page behind the tensors that cannot be read, each ends the process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tests.harness.rows import each
from trtdiag.graph.kernel_bounds.check import reach_of_sizes, trusts_elements, trusts_sizes

ATEN = torch.ops.aten
Call = tuple[Any, list[Any], dict[str, Any]]


def f(*sizes: int) -> Tensor:
    return torch.randn(sizes)


def whole(*values: int) -> Tensor:
    return torch.tensor(values)


def norm(channels: int = 5, **others: int) -> Call:
    names = ("weight", "bias", "running_mean", "running_var")
    stats = [f(others.get(name, 5)) for name in names]
    return ATEN._native_batch_norm_legit_no_training.default, [f(2, channels, 3), *stats, 0.1, 1e-5], {}


def attention(op: Any, queries: Any = (2, 3, 9, 16), keys: Any = (2, 3, 11, 16), values: Any = (2, 3, 11, 16)) -> Call:
    return op, [f(*queries), f(*keys), f(*values)], {}


def sdpa(**sizes: Any) -> Call:
    return attention(ATEN.scaled_dot_product_attention.default, **sizes)


def fused(**sizes: Any) -> Call:
    return attention(ATEN._scaled_dot_product_flash_attention_for_cpu.default, **sizes)


def recurrent(op: Any, gates: int, change: Callable[[dict[str, Any]], None] | None = None, **others: Any) -> Call:
    """Two layers, both directions, of 7 values with 4 hidden ones, 3 in a batch."""
    params: list[Tensor] = []
    for layer in range(2):
        for _ in range(2):
            params += [f(gates * 4, 8 if layer else 7), f(gates * 4, 4), f(gates * 4), f(gates * 4)]
    given: dict[str, Any] = {"input": f(9, 3, 7), "hx": [f(4, 3, 4), f(4, 3, 4)] if gates == 4 else f(4, 3, 4)}
    given |= {
        "params": params,
        "has_biases": True,
        "num_layers": 2,
        "dropout": 0.0,
        "train": False,
        "bidirectional": True,
    }
    given |= dict(batch_first=False, **others)
    if change is not None:
        change(given)
    return op, list(given.values()), {}


def lstm(change: Callable[[dict[str, Any]], None] | None = None) -> Call:
    return recurrent(ATEN.lstm.input, 4, change)


def gru(change: Callable[[dict[str, Any]], None] | None = None) -> Call:
    return recurrent(ATEN.gru.input, 3, change)


def packed_lstm(batches: Tensor, states: int = 1) -> Call:
    params = [f(16, 7), f(16, 4), f(16), f(16)]
    hx = [f(states, 3, 4), f(1, 3, 4)]
    return ATEN.lstm.data, [f(6, 7), batches, hx, params, True, 1, 0.0, False, False], {}


def put(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda given: given.update({name: value})


def weight(place: int, value: Tensor) -> Callable[[dict[str, Any]], None]:
    return lambda given: given["params"].__setitem__(place, value)


def bag(offsets: Tensor, *, last: bool = False, mode: int = 0) -> Call:
    return ATEN.embedding_bag.default, [f(50, 16), whole(*range(12)), offsets, False, mode, False, None, last], {}


def ctc(targets: Tensor, lengths: Any, classes: int = 5, op: Any = ATEN._ctc_loss.default) -> Call:
    every = torch.tensor([7, 7]) if isinstance(lengths, Tensor) else [7, 7]
    return op, [f(7, 2, classes).log_softmax(-1), targets, every, lengths], {}


ROWS = torch.tensor([[1, 2, -100], [3, -100, -100]])  # what is behind the lengths is not read


def segments(offsets: Tensor | None = None, lengths: Tensor | None = None, axis: int = 0) -> Call:
    shape = (12, 3) if not axis else (2, 12)
    return ATEN.segment_reduce.default, [f(*shape), "sum"], {"lengths": lengths, "offsets": offsets, "axis": axis}


def unpacked(pivots: int) -> Call:
    return ATEN.lu_unpack.default, [f(3, 4, 6), torch.ones(3, pivots, dtype=torch.int32)], {}


def resized(height: int, size: int = 17, scale: float | None = 1.9) -> Call:
    return ATEN._upsample_bilinear2d_aa.default, [f(2, 3, height, 8), [size, 15], False, scale, 1.9], {}


def transformed(entering: int) -> Call:
    return ATEN._fft_c2r.default, [torch.zeros(3, entering, dtype=torch.complex64), [1], 0, 10], {}


def softmax_gradient(rows: int) -> Call:
    return ATEN._log_softmax_backward_data.default, [f(4, 5), f(rows, 5), 1, torch.float32], {}


def layer_norm_gradient(gradient: Any = (2, 6, 9), mean: Any = (2, 6, 1)) -> Call:
    args = [f(*gradient), f(2, 6, 9), [9], f(*mean), f(2, 6, 1), f(9), f(9), [True, True, True]]
    return ATEN.native_layer_norm_backward.default, args, {}


def weight_norm(norms: Any, dim: int) -> Call:
    return ATEN._weight_norm.default, [f(8, 3, 5), f(*norms), dim], {}


def embedding_gradient(last: int) -> Call:
    return ATEN.embedding_dense_backward.default, [f(3, 16), whole(0, 49, last), 50, -1, True], {}


def masked(width: int, kind: int | None, mask: Any) -> Call:
    return ATEN._masked_softmax.default, [f(2, 3, 5, width), torch.zeros(mask, dtype=torch.bool), 3, kind], {}


def observed(ranges: int, *, per_row: bool = True, scale: int = 3) -> Call:
    one = torch.ones(1, dtype=torch.int64)
    points = torch.zeros(scale, dtype=torch.int32)
    args = [f(3, 5), one, one, f(ranges), f(ranges), f(scale), points, 0.1, 0, 255, 0, per_row]
    return ATEN.fused_moving_avg_obs_fake_quant.default, args, {}


def padded(batches: Tensor) -> Call:
    return ATEN._pad_packed_sequence.default, [f(6, 4), batches, False, 0.0, 3], {}


def repeated(*times: int) -> Call:
    return ATEN.repeat_interleave.self_Tensor, [f(2, 3), whole(*times), 0], {"output_size": 9}


def copied(count: int) -> Call:
    return ATEN._foreach_copy.default, [[f(3), f(40)], [f(3), f(40)][:count]], {}


FITTING: dict[str, Call] = {
    "normalization": norm(),
    "attention": sdpa(),
    "attention of one value": sdpa(keys=(2, 3, 1, 16), values=(2, 3, 1, 8)),
    "fused attention": fused(),
    "fused attention in groups": fused(queries=(2, 6, 9, 16)),
    "lstm": lstm(),
    "gru": gru(),
    "rnn": recurrent(ATEN.rnn_tanh.input, 1),
    "packed lstm": packed_lstm(whole(3, 2, 1)),
    "bag": bag(whole(0, 3, 3, 9)),
    "bag with its end": bag(whole(0, 3, 12), last=True),
    "ctc": ctc(ROWS, [2, 1]),
    "ctc in a row": ctc(whole(1, 2, 3), torch.tensor([2, 1]), op=ATEN._ctc_loss.Tensor),
    "segments": segments(offsets=whole(0, 3, 12)),
    "segments by lengths": segments(lengths=torch.tensor([[3, 9], [6, 6]]), axis=1),
    "pivots": unpacked(4),
    "resized": resized(9),
    "resized without scale": resized(4, scale=None),
    "transformed": transformed(6),
    "softmax gradient": softmax_gradient(4),
    "layer norm gradient": layer_norm_gradient(),
    "weight norm": weight_norm((8, 1, 1), 0),
    "weight norm by the last dim": weight_norm((1, 1, 5), 2),
    "weight norm by a dim between": weight_norm((1, 1, 1), 1),
    "embedding gradient": embedding_gradient(3),
    "masked softmax": masked(5, 0, (5, 5)),
    "masked softmax for each of a batch": masked(5, 1, (2, 5)),
    "observed": observed(3),
    "observed as a whole": observed(1, per_row=False, scale=1),
    "padded": padded(whole(3, 2, 1)),
    "repeated": repeated(0, 9),
    "copied": copied(2),
}
REACHING: dict[str, tuple[Call, str]] = {
    "channels": (norm(7), "its weight has the sizes 5, and its input 7 channels"),
    "bias": (norm(bias=1), "its bias has the sizes 1"),
    "values": (sdpa(values=(2, 3, 5, 16)), "its values 2x3x5x16"),
    "queries": (fused(queries=(6, 3, 9, 16)), "its queries have the sizes 6x3x9x16"),
    "heads": (fused(queries=(2, 2, 9, 16)), "its queries have the sizes 2x2x9x16"),
    "no query": (fused(queries=(2, 3, 0, 16)), "it divides by the sizes"),
    "values of fused attention": (fused(values=(2, 3, 5, 16)), "its values 2x3x5x16"),
    "lstm's input": (lstm(put("input", f(9, 3, 8))), "its layers need 16x8"),
    "lstm's batch": (lstm(put("input", f(9, 9, 7))), "a state of it 4x3x4"),
    "lstm's state": (lstm(put("hx", [f(4, 3, 4), f(4, 1, 4)])), "a state of it 4x1x4"),
    "lstm's layers": (lstm(put("hx", [f(1, 3, 4), f(4, 3, 4)])), "a state of it 1x3x4"),
    "lstm's weight": (lstm(weight(0, f(1, 7))), "a weight of it has the sizes 1x7, and its layers need 16x7"),
    "lstm's second layer": (lstm(weight(8, f(16, 4))), "its layers need 16x8"),
    "lstm's bias": (lstm(weight(14, f(4))), "its layers need 16"),
    "lstm without weights": (lstm(lambda given: given["params"].pop()), "it has 15 weights"),
    "gru's weight": (gru(weight(0, f(1, 7))), "its layers need 12x7"),
    "gru's state": (gru(put("hx", f(4, 1, 4))), "a state of it 4x1x4"),
    "no steps": (packed_lstm(torch.zeros(0, dtype=torch.int64)), "the number of its steps is 0"),
    "packed states": (packed_lstm(whole(3, 2, 1), states=3), "a state of it 3x3x4"),
    "no bag": (bag(torch.zeros(0, dtype=torch.int64)), "no bag for them"),
    "only the end of bags": (bag(whole(0), last=True), "no bag for them"),
    "an offset before": (bag(whole(0, -16, 9)), "from -16 to 9"),
    "an offset behind": (bag(whole(0, 16, 12)), "from 0 to 16"),
    "offsets back": (bag(whole(0, 9, 3), mode=1), "or back"),
    "a class that is none": (ctc(torch.tensor([[1, 5, 0], [3, 0, 0]]), [2, 1]), "its targets go from 1 to 5"),
    "a class in a row": (ctc(whole(1, 2, -3), torch.tensor([2, 1])), "its targets go from -3 to 2"),
    "fewer classes": (ctc(ROWS, [2, 1], classes=2), "there are 2 classes"),
    "segments beyond": (segments(offsets=whole(0, 3, 13)), "it has 12 elements in dim 0"),
    "segments of other rows": (segments(lengths=whole(3, 9), axis=1), "its lengths have the sizes 2"),
    "pivots missing": (unpacked(3), "its pivots have the sizes 3x3"),
    "a size beyond the scale": (resized(4), "it makes 17 of a size of 4"),
    "a spectrum": (transformed(18), "which has to be 6"),
    "softmax of less": (softmax_gradient(1), "its output 1x5"),
    "layer norm of less": (layer_norm_gradient(gradient=(2, 3, 9)), "its grad_out has the sizes 2x3x9"),
    "layer norm's mean": (layer_norm_gradient(mean=(2, 1)), "its input 12 rows"),
    "norms missing": (weight_norm((1, 1, 1), 0), "its norms have the sizes 1x1x1"),
    "rows that there are not": (embedding_gradient(50), "there are 50 rows"),
    "a wider row": (masked(15, 0, (5, 5)), "its mask has the sizes 5x5"),
    "ranges missing": (observed(1), "its running_min has the sizes 1"),
    "rows missing": (padded(whole(3, 2, 2)), "its data 6 rows"),
    "steps going up": (padded(whole(1, 2, 3)), "its steps have the sizes [1, 2, 3]"),
    "repeated less than never": (repeated(500, -491), "it repeats an element -491 times"),
    "one tensor too few": (copied(1), "it copies 1 tensors into 2"),
}


def _reach(call: Call) -> str:
    op, args, kwargs = call
    assert trusts_sizes(op)
    return reach_of_sizes(op, args, kwargs, lambda value: tuple(value.shape) if isinstance(value, Tensor) else None)


@each("name", FITTING)
def test_a_call_that_fits_is_made(name: str) -> None:
    op, args, kwargs = FITTING[name]
    assert _reach(FITTING[name]) == ""
    op(*args, **kwargs)  # it is one that PyTorch takes


@each("name", REACHING)
def test_a_call_that_reaches_beyond_is_told(name: str) -> None:
    call, said = REACHING[name]
    assert said in _reach(call)


def test_what_is_not_known_is_not_judged() -> None:
    for op, args, kwargs in FITTING.values():
        assert reach_of_sizes(op, args, kwargs, lambda _: None) == ""
    assert not trusts_sizes(ATEN.relu.default)
    assert trusts_elements(ATEN.embedding_bag.default)
    assert not trusts_elements(ATEN.lstm.input)
