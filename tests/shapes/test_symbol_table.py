"""The symbol table in the user's words."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.export import Dim

from tests.harness.staged import staged
from trtdiag.shapes.symbols import MOST_EXPRESSIONS, symbol_table
from trtdiag.symbolic.ranges import Range


class Joined(nn.Module):
    def forward(self, x, y):
        joined = torch.cat([x, y])
        found = torch.nonzero(y)
        return joined[1:], joined * 2, found, x.flatten()


def _table(module, args, dims):
    program = staged(module, args, dims)
    return program, symbol_table(program.program, program.checked).symbols


def _joined():
    dims = {"x": {0: Dim("rows", min=1, max=9)}, "y": {0: Dim("more", min=2, max=7)}}
    return _table(Joined(), (torch.randn(3, 4), torch.randn(5, 4)), dims)


def test_backed_symbols_name_range_hint_and_origin():
    _, symbols = _joined()
    rows, more = (facts for facts in symbols if facts.backed)
    assert (rows.name, rows.range, rows.hint, rows.origins) == ("rows", Range(1, 9), 3, ("x.shape[0]",))
    assert (more.name, more.range, more.hint, more.origins) == ("more", Range(2, 7), 5, ("y.shape[0]",))
    assert rows.born_by is None
    assert rows.born_at is None


def test_derived_sizes_are_in_the_users_names_and_most_frequent_first():
    _, symbols = _joined()
    rows = symbols[0]
    assert rows.expressions[0] == "more + rows"
    assert set(rows.expressions) == {"more + rows", "more + rows - 1", "4*rows"}


def test_uses_count_nodes_not_placeholders():
    program, symbols = _joined()
    mentions = {
        node.name
        for node in program.checked.graph_module.graph.nodes
        if node.op == "call_function" and symbols[0].symbol in str(getattr(node.meta.get("val"), "shape", ""))
    }
    assert symbols[0].uses >= len(mentions) >= 4


def test_an_unbacked_symbol_says_who_bore_it_and_where():
    program, symbols = _joined()
    (born,) = [facts for facts in symbols if not facts.backed]
    assert born.born_by == "nonzero: aten.nonzero.default"
    assert born.origins == ("nonzero: aten.nonzero.default",)
    assert born.born_at is not None
    assert born.born_at.file == __file__
    assert "torch.nonzero" in born.born_at.code
    assert born.hint is None
    assert program.program.ranges[born.symbol] == born.range


def test_an_unbacked_symbol_survives_saving(tmp_path):
    dims = {"x": {0: Dim("rows", min=1, max=9)}, "y": {0: Dim("more", min=2, max=7)}}
    exported = torch.export.export(Joined(), (torch.randn(3, 4), torch.randn(5, 4)), dynamic_shapes=dims)
    torch.export.save(exported, tmp_path / "joined.pt2")
    from trtdiag.frontend.capture import capture
    from trtdiag.lower.facts import Checked

    program = capture(tmp_path / "joined.pt2")
    symbols = symbol_table(program, Checked(program.exported.graph_module, (), 0, 0, {})).symbols
    (born,) = [facts for facts in symbols if not facts.backed]
    assert born.born_by == "nonzero: aten.nonzero.default"
    assert [facts.range for facts in symbols if facts.backed] == [Range(1, 9), Range(2, 7)]


def test_a_symbol_without_an_entry_in_the_ranges_is_an_orphan():
    program, _ = _joined()
    bare = replace(program.program, ranges={})
    assert all(facts.range is None for facts in symbol_table(bare, program.checked).symbols)


def test_a_shared_dim_lists_every_place_it_stands_in():
    batch = Dim("batch", min=1, max=9)
    dims = {"x": {0: batch}, "y": {0: batch}}
    _, symbols = _table(nn.Bilinear(4, 3, 2), (torch.randn(5, 4), torch.randn(5, 3)), _as_inputs(dims))
    assert [facts.origins for facts in symbols] == [("input1.shape[0]", "input2.shape[0]")]


def _as_inputs(dims):
    return {"input1": dims["x"], "input2": dims["y"]}


def test_a_derived_dim_belongs_to_its_root():
    class Pairs(nn.Module):
        def forward(self, x):
            return x.reshape(-1, 2)

    _, symbols = _table(Pairs(), (torch.randn(6),), {"x": {0: 2 * Dim("half", min=2, max=8)}})
    (facts,) = symbols
    assert facts.range == Range(2, 8)
    assert facts.origins == ("x.shape[0]",)


def test_a_number_that_is_an_input_is_the_origin_of_its_symbol():
    class Sized(nn.Module):
        def forward(self, x, count):
            return x.new_ones(count, 3) + x

    _, symbols = _table(Sized(), (torch.randn(1, 3), 5), {"x": None, "count": Dim.DYNAMIC})
    (facts,) = symbols
    assert facts.backed
    assert facts.origins == ("count",)


def test_a_static_program_has_no_symbols():
    _, symbols = _table(nn.Linear(3, 4), (torch.randn(2, 3),), None)
    assert symbols == ()


@pytest.mark.slow  # quick: test_backed_symbols_name_range_hint_and_origin
def test_many_derived_sizes_are_cut():
    class Many(nn.Module):
        def forward(self, x):
            return [torch.cat([x] * count) for count in range(2, 30)]

    _, symbols = _table(Many(), (torch.randn(5),), {"x": {0: Dim("n", min=2, max=9)}})
    assert len(symbols[0].expressions) == MOST_EXPRESSIONS
