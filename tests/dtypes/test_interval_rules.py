"""Every interval rule against brute force: the values that the op really gives lie inside, tight rules reach the ends.

All cases are one module, which is exported once; it first clamps its inputs to a known span, because a user input alone
may be anything.
"""

from __future__ import annotations

import functools
import itertools

import pytest
import torch
from torch import nn
from torch.export import Dim

from tests.harness.staged import staged, values_at
from tests.random_cases import some
from trtdiag.dtypes.interval_ops import RULES
from trtdiag.dtypes.intervals import value_spans
from trtdiag.graph.operators import operator_of, short_name

LOW, HIGH = -3, 5
SIZES = (3, 4, 7)


class Clamped(nn.Module):
    """Gives what each case makes of its inputs."""

    def forward(self, x, y):
        x, y = x.clamp(LOW, HIGH), y.clamp(1, 4)
        return tuple(act(x, y) for act in CASES.values())


# Rules whose span is exactly the values that occur, over all inputs and sizes.
TIGHT = {
    "add": lambda x, y: x + y,
    "add_alpha": lambda x, y: torch.add(x, y, alpha=3),
    "sub": lambda x, y: x - y,
    "rsub": lambda x, y: 10 - x,
    "mul": lambda x, y: x * y,
    "mul_negative": lambda x, y: x * -7,
    "neg": lambda x, y: -x,
    "abs": lambda x, y: x.abs(),
    "floor_divide": lambda x, y: x // y,
    "floor_divide_negative": lambda x, y: x // -2,
    "div_trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "div_floor": lambda x, y: torch.div(x, 3, rounding_mode="floor"),
    "remainder_number": lambda x, y: x % 3,
    "remainder_negative": lambda x, y: x % -3,
    "fmod": lambda x, y: torch.fmod(x, 3),
    "square": lambda x, y: x**2,
    "cube": lambda x, y: x**3,
    "clamp": lambda x, y: x.clamp(0, 2),
    "clamp_min": lambda x, y: x.clamp(min=1),
    "clamp_max": lambda x, y: x.clamp(max=1),
    "minimum": lambda x, y: torch.minimum(x, y),
    "maximum": lambda x, y: torch.maximum(x, y),
    "sign": lambda x, y: torch.sign(x),
    "where": lambda x, y: torch.where(torch.arange(x.shape[0]) > 1, x, y + 10),
    "masked_fill": lambda x, y: x.masked_fill(x > 0, 99),
    "bitwise_not": lambda x, y: torch.bitwise_not(x),
    "cat": lambda x, y: torch.cat([x, y]),
    "stack": lambda x, y: torch.stack([x, y * 5]),
    "pad": lambda x, y: torch.nn.functional.pad(y, (1, 0), value=-9),
    "pad_default": lambda x, y: torch.nn.functional.pad(y, (1, 0)),
    "flip": lambda x, y: x.flip(0),
    "roll": lambda x, y: x.roll(1),
    "unsqueeze_expand": lambda x, y: x.unsqueeze(0).expand(3, -1),
    "repeat": lambda x, y: x.repeat(2),
    "slice": lambda x, y: x[1:],
    "select": lambda x, y: x[0],
    "amax": lambda x, y: x.amax(),
    "amin": lambda x, y: x.amin(0),
    "max_of_two": lambda x, y: torch.max(x, y),
    "min_all": lambda x, y: x.min(),
    "max_dim_values": lambda x, y: x.max(0)[0],
    "max_dim_indices": lambda x, y: x.max(0)[1],
    "argmin": lambda x, y: x.argmin(),
    "argsort": lambda x, y: x.argsort(),
    "sort_values": lambda x, y: x.sort()[0],
    "sort_indices": lambda x, y: x.sort()[1],
    "topk_indices": lambda x, y: x.topk(2)[1],
    "cumsum": lambda x, y: x.cumsum(0),
    "sum": lambda x, y: x.sum(),
    "count_nonzero": lambda x, y: torch.count_nonzero(x),
    "gather": lambda x, y: x.gather(0, torch.zeros_like(x)),
    "index_select": lambda x, y: x.index_select(0, torch.zeros_like(x)),
    "scatter": lambda x, y: x.scatter(0, torch.zeros_like(x), y * 4),
    "to_bool_and_back": lambda x, y: (x > 0).to(torch.int64),
    "through_float": lambda x, y: torch.floor(x.to(torch.float32)).to(torch.int32).to(torch.int64),
    "arange": lambda x, y: torch.arange(x.shape[0]),
    "arange_start": lambda x, y: torch.arange(2, x.shape[0] + 2),
    "arange_down": lambda x, y: torch.arange(x.shape[0], 0, -1),
    "full": lambda x, y: torch.full((2,), 17),
    "full_like": lambda x, y: torch.full_like(x, -4),
    "zeros": lambda x, y: torch.zeros_like(x),
    "ones": lambda x, y: torch.ones_like(x),
    "eye": lambda x, y: torch.eye(3, dtype=torch.int64),
    "nonzero": lambda x, y: torch.nonzero(x),
    "tril": lambda x, y: torch.tril(y.unsqueeze(0) + x.unsqueeze(1).abs() + 3),
    "scalar_tensor": lambda x, y: torch.scalar_tensor(6, dtype=torch.int64) + 0 * x,
    "shift_right": lambda x, y: (x + 3) >> 1,
    "in_place": lambda x, y: x.clone().add_(4).mul_(2),
}
# Rules that only promise that every value lies inside.
LOOSE = {
    "remainder_tensor": lambda x, y: x % y,
    "divide_by_maybe_zero": lambda x, y: torch.div(y, torch.where(x == 0, 1, x), rounding_mode="floor"),
    "bitwise_and": lambda x, y: y & 6,
    "bitwise_or": lambda x, y: y | 3,
    "bitwise_xor": lambda x, y: y ^ 5,
    "scatter_add": lambda x, y: x.scatter_add(0, torch.zeros_like(x), y),
    "searchsorted": lambda x, y: torch.searchsorted(torch.arange(4), x),
    "prod_has_no_rule": lambda x, y: x.prod(),
    "float_scaling": lambda x, y: (x.to(torch.float32) * 2.5 + 0.25).to(torch.int64),
    "softmax_scaled": lambda x, y: (torch.softmax(x.to(torch.float32), 0) * 10).to(torch.int64),
    "true_division": lambda x, y: (x / y).round().to(torch.int64),
    "round_half": lambda x, y: torch.round(x.to(torch.float64) / 2).to(torch.int64),
    "one_hot": lambda x, y: torch.nn.functional.one_hot(y, 5),
    "repeat_interleave": lambda x, y: x.repeat_interleave(2),
    "cumsum_negative": lambda x, y: (-y).cumsum(0),
    "cummax": lambda x, y: x.cummax(0)[1],
    "unfold": lambda x, y: x.unfold(0, 2, 1),
    "index_put": lambda x, y: torch.index_put(x, (torch.zeros_like(x),), y, accumulate=True),
    "repeat_interleave_counts": lambda x, y: torch.repeat_interleave(torch.tensor([1, 0, 3])),
    "diff": lambda x, y: torch.diff(x),
    "diff_prepended": lambda x, y: torch.diff(x, prepend=y[:1] * 9),
    "bincount": lambda x, y: torch.bincount(y),
    "logarithm": lambda x, y: torch.log(y.to(torch.float32) * 100).to(torch.int64),
    "logarithm_base_two": lambda x, y: torch.log2(y.to(torch.float64)).floor().long(),
    "logarithm_of_zeros": lambda x, y: torch.log((y * 0).to(torch.float32)).clamp(-5, 5).to(torch.int64),
    "square_root_of_zeros": lambda x, y: torch.sqrt((y * 0).to(torch.float32)).to(torch.int64),
    "square_root": lambda x, y: torch.sqrt((x + 3).to(torch.float32)).to(torch.int64),
    "exponential": lambda x, y: torch.exp(x.to(torch.float32)).to(torch.int64),
    "angle": lambda x, y: (torch.atan2(x.to(torch.float32), y.to(torch.float32)) * 1000).to(torch.int64),
    "waves": lambda x, y: (torch.sin(x.to(torch.float32)) * 9 + torch.tanh(y.to(torch.float32))).to(torch.int64),
    "where_condition": lambda x, y: torch.where(x > 0)[0],
    "nonzero_static": lambda x, y: torch.nonzero_static(x, size=4, fill_value=-1),
    "bits_of_floats": lambda x, y: x.to(torch.float64).view(torch.int64),
    "write_into_a_view": lambda x, y: _written(x, y),
}


def _written(x, y):
    base = x.clone()
    base[1:].fill_(77)
    base[0] = y[0] * 20
    return base + 0


CASES = TIGHT | LOOSE


def _inputs(size):
    """All pairs of values from beyond one clamp to beyond the other, the second one last, with every kind of ``y``."""
    for count, (first, last) in enumerate(itertools.product(range(LOW - 1, HIGH + 2), repeat=2)):
        y = ((1, 1), (4, 4), (-9, 99))[count % 3]
        yield torch.tensor([*[first] * (size - 1), last]), torch.tensor([*[y[0]] * (size - 1), y[1]])


@functools.cache
def _exported():
    dim = Dim("n", min=min(SIZES), max=max(SIZES))
    example = (torch.tensor([3, -2, 1, 4, 0]), torch.tensor([1, 2, 3, 4, 1]))
    return staged(Clamped(), example, ({0: dim}, {0: dim}))


@functools.cache
def _spans():
    program = _exported()
    return value_spans(program.program, program.checked, program.shapes).spans


@functools.cache
def _ends():
    """The least and the greatest value of each node, over all inputs and sizes."""
    ends = {}
    for size in some(SIZES, 2):  # the quick run leaves out what is no end
        for inputs in _inputs(size):
            for name, value in values_at(_exported(), inputs).items():
                if isinstance(value, torch.Tensor) and value.numel() and not value.is_floating_point():
                    low, high = int(value.min()), int(value.max())
                    known = ends.get(name, (low, high))
                    ends[name] = (min(low, known[0]), max(high, known[1]))
    return ends


def _result(case):
    (output,) = _exported().checked.graph_module.graph.find_nodes(op="output")
    return output.args[0][list(CASES).index(case)].name


@pytest.mark.parametrize("case", TIGHT)
def test_span_is_exactly_what_occurs(case):
    result = _result(case)
    found = _spans()[result]
    assert (found.low, found.high) == _ends()[result], found.why
    assert found.fits_int32


def test_spans_hold_every_value_that_occurs():
    spans = _spans()
    assert {_result(case) for case in CASES} <= set(_ends())
    outside = {
        name: found for name, found in _ends().items() if found[0] < spans[name].low or found[1] > spans[name].high
    }
    assert outside == {}, {name: spans[name] for name in outside}


def test_what_has_no_rule_says_so():
    result = _spans()[_result("prod_has_no_rule")]
    assert result.as_range().max is None
    assert result.why == "no range rule for aten.prod.default"


def test_the_cases_reach_most_rules():
    ops = map(operator_of, _exported().checked.graph_module.graph.nodes)
    reached = {short_name(op) for op in ops if op is not None} & set(RULES)
    assert len(reached) >= 60, sorted(set(RULES) - reached)
