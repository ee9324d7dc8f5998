"""Sizes over the declared ranges, by hand and against every size that the module really makes."""

from __future__ import annotations

from collections import defaultdict

import pytest
import torch
from torch import nn
from torch.export import Dim

from tests.harness.rows import thinned
from tests.harness.staged import staged, values_at
from trtdiag.frontend.torch_private import shape_env_of
from trtdiag.shapes.ranges import shape_facts
from trtdiag.symbolic.ranges import Range


class TwoLinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 10)
        self.second = nn.Linear(10, 4)

    def forward(self, x):
        return self.second(torch.relu(self.first(x))).flatten(0, 1)


def test_batch_one_to_ten_and_a_sequence_with_only_a_maximum():
    program = staged(
        TwoLinear(), (torch.randn(3, 5, 6),), {"x": {0: Dim("batch", min=1, max=10), 1: Dim("seq", max=77)}}
    )
    # torch widens a minimum of 1 to 2 inside; a Dim without a minimum starts at 0.
    assert program.size("x") == ["1..10", "0..77", "6"]
    assert program.size("linear") == ["1..10", "0..77", "10"]
    assert program.size("flatten") == ["0..770", "4"]
    volume = program.shapes.tensors["flatten"][0].volume
    assert (str(volume.range), volume.exact) == ("0..3080", True)


def test_no_maximum_is_invented():
    program = staged(TwoLinear(), (torch.randn(3, 5, 6),), {"x": {0: Dim.AUTO, 1: Dim("seq", max=9)}})
    (batch, seq, _) = program.shapes.tensors["linear"][0].dims
    assert batch.range.max is None
    assert seq.range.max == 9
    assert program.shapes.tensors["flatten"][0].volume.range.max is None


def test_a_box_narrower_than_the_declared_ranges_is_used():
    program = staged(TwoLinear(), (torch.randn(3, 5, 6),), {"x": {0: Dim("batch", min=1, max=10)}})
    (symbol,) = program.program.ranges
    narrow = shape_facts(program.program, program.checked, {symbol: Range(4, 4)})
    assert str(narrow.tensors["flatten"][0].dims[0].range) == "20"


def test_reading_sizes_adds_no_guard():
    program = staged(TwoLinear(), (torch.randn(3, 5, 6),), {"x": {0: Dim("batch", min=1, max=10)}})
    env = shape_env_of(program.checked.graph_module)
    before = len(env.guards)
    shape_facts(program.program, program.checked, program.program.ranges)
    assert len(env.guards) == before


class Encoder(nn.Module):
    """Two stride-two convolutions: sizes ((h-1)//2)+1 of one another."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 4, 3, stride=2, padding=1), nn.InstanceNorm2d(4), nn.Conv2d(4, 6, 3, stride=2, padding=1)
        )

    def forward(self, x):
        return self.layers(x).flatten(2)


class Cache(nn.Module):
    def forward(self, x, past):
        keys = torch.cat([past, x], dim=1)
        return keys[:, 1:], keys.shape[1] - x.shape[1]


class Slices(nn.Module):
    def forward(self, x, y):
        return torch.cat([x, y])[1:-1], x.unfold(0, 2, 3), torch.nn.functional.pad(x, (0, 1, 2, 0))


class Halves(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        return (
            x[::3],
            x.new_ones(rows // 4 + rows % 3 + 2),
            x.new_zeros(torch.sym_min(rows, 5)),
            torch.arange(rows * columns),
        )


CASES = {
    "encoder": (
        Encoder(),
        lambda h, w: (torch.randn(1, 3, h, w),),
        {"x": {2: Dim("h", min=9, max=24), 3: Dim("w", min=16, max=17)}},
        (range(9, 25), range(16, 18)),
    ),
    "derived": (
        TwoLinear(),
        lambda b, s: (torch.randn(b, 2 * s, 6),),
        {"x": {0: Dim("b", min=1, max=3), 1: 2 * Dim("_s", min=2, max=7)}},
        (range(1, 4), range(2, 8)),
    ),
    "cache": (
        Cache(),
        lambda b, p: (torch.randn(b, 1, 4), torch.randn(b, p, 4)),
        {"x": {0: Dim("b", min=1, max=3)}, "past": {0: Dim("b", min=1, max=3), 1: Dim("p", min=2, max=13)}},
        (range(1, 4), range(2, 14)),
    ),
    "slices": (
        Slices(),
        lambda a, b: (torch.randn(a, 3), torch.randn(b, 3)),
        {"x": {0: Dim("a", min=3, max=11)}, "y": {0: Dim("b", min=3, max=7)}},
        (range(3, 12), range(3, 8)),
    ),
    "halves": (
        Halves(),
        lambda a, b: (torch.randn(a, b),),
        {"x": {0: Dim("a", min=6, max=13), 1: Dim("b", min=2, max=5)}},
        (range(6, 14), range(2, 6)),
    ),
}


# Quick: the ends and each other.
@thinned("case", CASES.values(), ids=CASES, every=2)
def test_claimed_ends_are_exactly_the_sizes_that_occur(case):
    module, inputs, dims, sizes = case
    middle = [values[len(values) // 2] for values in sizes]
    program = staged(module, inputs(*middle), dims)
    seen: dict[tuple[str, int | str], set[int]] = defaultdict(set)
    for first in sizes[0]:
        for second in sizes[1]:
            for name, value in values_at(program, inputs(first, second)).items():
                if isinstance(value, torch.Tensor):
                    seen[name, "volume"].add(value.numel())
                    for index, size in enumerate(value.shape):
                        seen[name, index].add(size)
                elif isinstance(value, int) and not isinstance(value, bool):
                    seen[name, "number"].add(value)
    checked = 0
    for (name, what), values in seen.items():
        if what == "number":
            claimed = program.shapes.scalars[name]
        else:
            (tensor,) = program.shapes.tensors[name]
            claimed = tensor.volume if what == "volume" else tensor.dims[what]
        assert claimed.range == Range(min(values), max(values)), (name, what, claimed)
        assert claimed.exact
        checked += 1
    assert checked > 10


class FromData(nn.Module):
    def forward(self, x, n):
        count = n.item()
        torch._check(count >= 1)
        torch._check(count <= 40)
        return torch.nonzero(x), x.new_zeros(count, 2)


def test_unbacked_sizes_keep_the_bounds_that_the_program_asserts():
    program = staged(FromData(), (torch.ones(8), torch.tensor(3)), ({0: Dim("n", min=4, max=64)}, None))
    rows, width = program.shapes.tensors["nonzero"][0].dims
    assert rows.range.min == 0
    assert rows.range.max in (64, None)  # torch 2.13 bounds it by the input's size; older versions leave it open
    assert str(width.range) == "1"
    assert program.size("new_zeros") == ["1..40", "2"]
    assert str(program.shapes.scalars["item"].range) == "1..40"


def test_a_symbol_without_any_range_is_zero_or_more_as_a_dim():
    program = staged(FromData(), (torch.ones(8), torch.tensor(3)), ({0: Dim("n", min=4, max=64)}, None))
    bare = type(program.program)(**{**vars(program.program), "ranges": {}})
    facts = shape_facts(bare, program.checked, {})
    assert facts.tensors["nonzero"][0].dims[0].range == Range(0, None)
    assert facts.tensors["x"][0].dims[0].range == Range(0, None)


class Branches(nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda t: torch.cat([t, t]).sum(0), lambda t: t.sum(0), (x,))


@pytest.mark.slow  # quick: nested names are attribute paths, in tests/graph
def test_nested_graphs_have_sizes_under_their_own_names():
    program = staged(Branches(), (torch.randn(5, 3),), {"x": {0: Dim("n", min=2, max=9)}})
    (name,) = [name for name in program.shapes.tensors if name.endswith(".cat")]
    assert program.size(name) == ["4..18", "3"]


def test_equal_sizes_are_one_object():
    program = staged(TwoLinear(), (torch.randn(3, 5, 6),), {"x": {0: Dim("batch", min=1, max=10)}})
    dims = [tensor.dims[0] for tensors in program.shapes.tensors.values() for tensor in tensors if tensor.dims]
    batch = [dim for dim in dims if str(dim.range) == "1..10"]
    assert len(batch) >= 3
    assert len({id(dim) for dim in batch}) == 1
