"""Value spans of whole programs: constants, inputs, indices, wrapping, nested graphs, writes in place."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.export import Dim

from tests.harness.rows import thinned
from tests.harness.staged import node_named, staged
from trtdiag.dtypes.intervals import value_spans
from trtdiag.frontend.capture import capture
from trtdiag.lower.facts import Checked
from trtdiag.shapes.ranges import shape_facts


def _spans(module, args, dims=None):
    program = staged(module, args, dims)
    return program, value_spans(program.program, program.checked, program.shapes).spans


class Positions(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(100, 8)
        self.places = nn.Embedding(66, 8)

    def forward(self, ids, mask):
        places = torch.arange(ids.shape[1]) + 2
        return self.words(ids.reshape(-1)).view(*ids.shape, 8) + self.places(places) * mask.unsqueeze(-1)


def test_language_model_inputs():
    dims = {"ids": {1: Dim("seq", max=64)}, "mask": {1: Dim("seq", max=64)}}
    _, spans = _spans(Positions(), (torch.ones(2, 9, dtype=torch.int64), torch.ones(2, 9, dtype=torch.int64)), dims)
    assert (spans["ids"].low, spans["ids"].high) == (0, 99)
    assert spans["ids"].why == (
        "used as an index into words.weight of size 100: other values are an error in PyTorch, too"
    )
    assert spans["arange"].why == "arange(0, seq) with seq <= 64"
    assert (spans["add"].low, spans["add"].high) == (2, 65)
    assert not spans["mask"].fits_int32
    assert spans["mask"].why == "user input, any int64"


def test_an_unbounded_sequence_does_not_fit_and_says_why():
    class Far(nn.Module):
        def forward(self, x):
            return torch.arange(x.shape[0]) * 4

    _, spans = _spans(Far(), (torch.randn(5),), {"x": {0: Dim.AUTO}})
    assert spans["arange"].as_range().max is None
    assert "unbounded" in spans["arange"].why
    assert "unbounded" in spans["mul"].why
    assert spans["arange"].as_range().min == 0


def test_whole_numbers_that_are_not_initialised_are_zeros_and_floats_anything():
    class Open(nn.Module):
        def forward(self, x):
            back = torch.empty_like(x, dtype=torch.int64)
            back[:1] = 7
            return back + 1, torch.empty_like(x) + 1

    _, spans = _spans(Open(), (torch.randn(5),))
    assert (spans["empty_like"].low, spans["empty_like"].high) == (0, 7)  # with what is written into it
    assert spans["add"].fits_int32
    assert spans["empty_like_1"].low == -math.inf


class Constants(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("small", torch.tensor([7, -2, 3]))
        self.register_buffer("infinite", torch.tensor([0, 2**63 - 1]))
        self.register_buffer("empty", torch.zeros(0, dtype=torch.int64))
        self.register_buffer("one", torch.tensor(True))

    def forward(self, x):
        return (
            self.small + x.to(torch.int64),
            self.infinite.view(2, 1).expand(2, 3),
            self.infinite[0:1],
            self.infinite + 1,
            self.empty.clone(),
            self.one.to(torch.int64),
            x[:9223372036854775807],
        )


def test_constants_by_their_values():
    program, spans = _spans(Constants(), (torch.ones(3),))
    assert (spans["b_small"].low, spans["b_small"].high, spans["b_small"].attained) == (-2, 7, True)
    assert spans["b_small"].why == "values read: -2..7"
    infinite = spans["b_infinite"]
    assert infinite.attained
    assert infinite.as_range().max == 2**63 - 1
    assert spans["expand"].attained  # all values are still there
    sliced = next(node.name for node in program.checked.graph_module.graph.nodes if "slice" in str(node.target))
    assert not spans[sliced].attained  # the large one may be gone
    assert spans["b_empty"].fits_int32
    assert (spans["b_one"].low, spans["b_one"].high) == (1, 1)


def test_wrapping_is_no_proof_of_anything():
    class Wraps(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("most", torch.tensor([2**63 - 1, 0]))

        def forward(self, x):
            return self.most + 1 + 0 * x

    _, spans = _spans(Wraps(), (torch.ones(2, dtype=torch.int64),))
    wrapped = spans["add"]
    assert (wrapped.low, wrapped.high, wrapped.attained) == (-(2**63), 2**63 - 1, False)
    assert "wrap" in wrapped.why


class Indexed(nn.Module):
    def __init__(self, act):
        super().__init__()
        self.act = act
        self.register_buffer("table", torch.randn(10, 4))

    def forward(self, i):
        return self.act(self.table, i)


INDEXED = {
    "embedding": (lambda t, i: torch.nn.functional.embedding(i, t), (0, 9)),
    "index": (lambda t, i: t[i], (-10, 9)),
    "second_dim": (lambda t, i: t[:, i], (-4, 3)),
    "index_select": (lambda t, i: t.index_select(1, i), (0, 3)),
    "gather": (lambda t, i: t.gather(0, i.unsqueeze(1).expand(-1, 4)), (0, 9)),
    "shifted": (lambda t, i: torch.nn.functional.embedding(i + 3, t), (-3, 6)),
    "shifted_back": (lambda t, i: torch.nn.functional.embedding(i - 3, t), (3, 12)),
    "reordered": (lambda t, i: torch.nn.functional.embedding(i.flip(0).view(-1, 1), t), (0, 9)),
    "joined": (lambda t, i: torch.nn.functional.embedding(torch.cat([i, i * 0]), t), (0, 9)),
    "widened": (lambda t, i: torch.nn.functional.embedding(i.to(torch.int64), t), (0, 9)),
    "also_used_elsewhere": (lambda t, i: (torch.nn.functional.embedding(i, t), i * 2), (0, 9)),
    "without_gradients": (lambda t, i: _no_grad(t, i), (0, 9)),
    "put": (lambda t, i: torch.index_put(t, (i,), torch.zeros(())), (-10, 9)),
}
OFFSETS = torch.tensor([0, 2, 5])
# Every part is an index of its own, and together they are the whole input of shape (2, 3).
COVERED = {
    "columns": (lambda t, i: t[:4][i[:, 0]] + t[i[:, 1]] + t[i[:, -1]], (-10, 9)),
    "unbind": (lambda t, i: sum(torch.nn.functional.embedding(part, t) for part in i.unbind(1)), (0, 9)),
    "split": (lambda t, i: [torch.nn.functional.embedding(part, t) for part in i.split([1, 2], dim=1)], (0, 9)),
    "slices": (
        lambda t, i: (torch.nn.functional.embedding(i[:, :2], t), torch.nn.functional.embedding(i[:, 2:], t)),
        (0, 9),
    ),
    "offsets": (lambda t, i: torch.nn.functional.embedding(i + OFFSETS, t), (-5, 9)),
}
NOT_COVERED = {
    "one column missing": lambda t, i: t[i[:, 0]] + t[i[:, 2]],
    "gap between slices": lambda t, i: (t[i[:, :1]], t[i[:, 2:]]),
}
# Here the values that are used as an index are not all the values of the input.
NOT_INDEXED = {
    "part": lambda t, i: torch.nn.functional.embedding(i[1:], t),
    "narrowed": lambda t, i: torch.nn.functional.embedding(i.to(torch.int32), t),
    "remainder": lambda t, i: torch.nn.functional.embedding(i % 10, t),
    "only_one_branch": lambda t, i: torch.cond(
        t.sum() > 0, lambda a, b: torch.nn.functional.embedding(b, a), lambda a, b: a[:5] * 1.0, (t, i)
    ),
    "mask": lambda t, i: t[i > 0].sum(),
}


def _no_grad(table, i):
    with torch.no_grad():
        return torch.nn.functional.embedding(i, table)


# Quick: the ends and each third.
@thinned(("act", "expected"), INDEXED.values(), every=3, ids=INDEXED)
def test_an_index_is_bounded_by_its_table(act, expected):
    module = Indexed(act)
    program, spans = _spans(module, (torch.tensor([3, 0, 3, 3, 3]).clamp(*expected),))
    assert (spans["i"].low, spans["i"].high) == expected
    assert program.checked.graph_module is program.program.exported.graph_module
    for bad in (expected[0] - 1, expected[1] + 1):
        with pytest.raises((IndexError, RuntimeError)):
            module(torch.full((5,), bad))
    for good in expected:
        module(torch.full((5,), good))


@pytest.mark.parametrize(("act", "expected"), COVERED.values(), ids=COVERED)
def test_parts_that_make_up_the_whole_bound_it(act, expected):
    _, spans = _spans(Indexed(act), (torch.tensor([[1, 0, 1], [2, 1, 2]]),))
    assert (spans["i"].low, spans["i"].high) == expected


@pytest.mark.parametrize("act", NOT_COVERED.values(), ids=NOT_COVERED)
def test_parts_that_leave_something_out_bound_nothing(act):
    _, spans = _spans(Indexed(act), (torch.tensor([[1, 0, 1], [2, 1, 2]]),))
    assert not spans["i"].fits_int32


# Quick: the ends.
@thinned("act", NOT_INDEXED.values(), every=9, ids=NOT_INDEXED)
def test_an_index_of_some_values_bounds_nothing(act):
    dims = None
    example = torch.arange(5) if act is not NOT_INDEXED["mask"] else torch.tensor([1, 0, 1, 1, 1, 0, 0, 0, 0, 1])
    _, spans = _spans(Indexed(act), (example,), dims)
    assert spans["i"].why == "user input, any int64"


def test_several_outputs_through_a_nested_graph():
    class Nested(nn.Module):
        def forward(self, x):
            with torch.no_grad():
                values, order = torch.arange(x.shape[0]).clamp(max=5).sort()
                far = order + 100
            return far, torch.cond(x.sum() > 0, lambda a: a * 2, lambda a: a - 50, (values,))

    program, spans = _spans(Nested(), (torch.randn(6),), {"x": {0: Dim("n", min=3, max=30)}})
    outputs = program.checked.graph_module.graph.find_nodes(op="output")[0].all_input_nodes
    far, either = (spans[node.name] for node in outputs)
    assert (far.low, far.high) == (100, 129)
    assert (either.low, either.high) == (-50, 10)
    assert any("." in name for name in spans)


def test_a_loop_is_interpreted_for_every_number_of_rounds():
    class Loop(nn.Module):
        def forward(self, x):
            return torch._higher_order_ops.while_loop(
                lambda n, t: n < 1000, lambda n, t: (n + 1, t + 1), (torch.zeros((), dtype=torch.int64), x.clamp(0, 3))
            )

    program, spans = _spans(Loop(), (torch.ones(2, dtype=torch.int64),))
    for node in program.checked.graph_module.graph.find_nodes(op="output")[0].all_input_nodes:
        assert not spans[node.name].fits_int32


def test_a_write_in_place_reaches_every_view():
    class Writes(nn.Module):
        def forward(self, x):
            base = torch.zeros_like(x)
            view = base.view(-1)
            base[1:].fill_(50)
            view.add_(x.clamp(0, 1))
            return base * 1, view * 1

    program, spans = _spans(Writes(), (torch.ones(4, dtype=torch.int64),))
    for node in program.checked.graph_module.graph.find_nodes(op="output")[0].all_input_nodes:
        assert spans[node.name].low == 0
        assert spans[node.name].high >= 51
        assert spans[node.name].fits_int32


def test_an_index_use_after_a_write_says_nothing_about_the_values_before_it():
    class Writes(nn.Module):
        def forward(self, table, x):
            copy = x.clone()
            before = copy * 1
            copy.clamp_(0, 3)
            return torch.nn.functional.embedding(copy, table), before

    program, spans = _spans(Writes(), (torch.randn(4, 2), torch.ones(4, dtype=torch.int64)))
    before = program.checked.graph_module.graph.find_nodes(op="output")[0].all_input_nodes[1]
    assert not spans[before.name].fits_int32
    assert not spans["x"].fits_int32


@pytest.mark.parametrize("functional", [False, True], ids=["as exported", "decomposed"])
def test_a_buffer_that_the_program_changes_is_not_what_it_was(functional):
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.tensor([3]))
            self.register_buffer("still", torch.tensor([4]))

        def forward(self, x):
            self.calls.add_(1)
            return x + self.calls + self.still

    exported = torch.export.export(Counts(), (torch.ones(1, dtype=torch.int64),))
    if functional:
        exported = exported.run_decompositions({})
    program = capture(exported)
    checked = Checked(program.exported.graph_module, (), 0, 0, {})
    spans = value_spans(program, checked, shape_facts(program, checked, {})).spans
    assert spans["b_calls"].why == "calls: a buffer that the program changes, any value"
    assert not spans["b_calls"].fits_int32
    assert (spans["b_still"].low, spans["b_still"].high) == (4, 4)


def test_rounding_of_large_integers_in_floats_is_counted():
    class Rounds(nn.Module):
        def forward(self, x):
            return x.clamp(0, 2**31 - 1).to(torch.float32).to(torch.int64), x.clamp(0, 2**24).to(torch.float32).long()

    program, spans = _spans(Rounds(), (torch.ones(1, dtype=torch.int64),))
    outputs = program.checked.graph_module.graph.find_nodes(op="output")[0].all_input_nodes
    large, small = (spans[node.name] for node in outputs)
    really = int(torch.tensor([2**31 - 1]).to(torch.float32).to(torch.int64))
    assert really == 2**31  # one more than it was
    assert large.high >= really
    assert not large.fits_int32
    assert (small.low, small.high) == (0, 2**24)


def test_half_precision_overflows_to_anything():
    class Halves(nn.Module):
        def forward(self, x):
            return (x.clamp(0, 300).to(torch.float16) * 300).to(torch.int64)

    program, spans = _spans(Halves(), (torch.ones(1, dtype=torch.int64),))
    (output,) = program.checked.graph_module.graph.find_nodes(op="output")[0].all_input_nodes
    assert not spans[output.name].fits_int32


def test_fake_weights_are_not_read(tmp_path):
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        module = Positions()
        exported = torch.export.export(
            module, (torch.ones(2, 9, dtype=torch.int64), torch.ones(2, 9, dtype=torch.int64)), strict=False
        )
    program = capture(exported)
    checked = Checked(program.exported.graph_module, (), 0, 0, {})
    spans = value_spans(program, checked, shape_facts(program, checked, program.ranges)).spans
    assert (spans["ids"].low, spans["ids"].high) == (0, 99)


def test_a_float_that_becomes_an_integer_is_bounded_only_where_the_float_is():
    class Floats(nn.Module):
        def forward(self, x):
            return (torch.sigmoid(x) * 255).to(torch.int64), (x * 255).to(torch.int64), torch.log(x).long()

    program, spans = _spans(Floats(), (torch.rand(3),))
    outputs = program.checked.graph_module.graph.find_nodes(op="output")[0].all_input_nodes
    bounded, scaled, logarithm = (spans[node.name] for node in outputs)
    assert bounded.low <= 0 <= 255 <= bounded.high < 300
    assert "converted from float" in scaled.why
    assert logarithm.as_range().max is None


def test_data_dependent_sizes_bound_their_ranges():
    class FromData(nn.Module):
        def forward(self, x):
            found = torch.nonzero(x)
            return torch.arange(found.shape[0])

    program, spans = _spans(FromData(), (torch.ones(4),), {"x": {0: Dim("n", min=2, max=20)}})
    assert spans[node_named(program, "aten.nonzero").name].high == 19
    assert spans["arange"].fits_int32 == (program.shapes.tensors["arange"][0].dims[0].range.max is not None)
