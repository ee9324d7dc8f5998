"""Sizes that are left to torch to work out from others, and that it does not work out; steps over sizes."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch.export import Dim

from tests.fixdims.test_advice import ASKED, STATIC, because, only
from tests.harness.rows import each
from trtdiag import fix_dims
from trtdiag.dims.dynamic_shapes.asked import asked_plan, structure_of
from trtdiag.dims.solver_input import dims_in, system_of
from trtdiag.fixdims.child_export import planned, trial
from trtdiag.fixdims.export_loop import Search
from trtdiag.frontend.factory import recipe_of
from trtdiag.symbolic import free_symbols, parse_expr


class _OneProduct(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack(x.flatten().unbind(), 0).reshape(x.shape)


def test_a_size_that_torch_did_not_work_out_is_left_open_whichever_of_two_follows() -> None:
    """With an LSTM over h*w steps one followed in one round and the other in the next, and the search went round."""
    x = (torch.randn(4, 6),)
    asked = structure_of(recipe_of((_OneProduct(), x, {}, ({0: Dim("h", max=12), 1: Dim("w", max=12)},)), "test"))
    recipe = recipe_of((_OneProduct(), x, {}, ({0: 2 * Dim("_h", min=1, max=4), 1: Dim.AUTO},)), "test")
    plan = asked_plan(structure := structure_of(recipe))
    tried = trial(recipe, plan, None, lambda: planned(recipe, structure, plan))
    search = Search(asked_plan(asked), {}, lambda _plan, _why: tried, 1)
    chosen = search.chosen(tried, system_of(tried.inputs, plan))
    high, wide = (dim.expr for dim, _leaf in dims_in(tried.inputs, plan))
    (root,), (own,) = free_symbols(high), free_symbols(wide)
    assert not chosen.determined  # no size is left to torch that is one divided by another
    chosen = replace(chosen, determined={own: parse_expr(f"12//{root}")})
    assert search._left_open(plan, tried, chosen)
    assert search._left_open(plan, tried, replace(chosen, determined={root: parse_expr(f"12//{own}")}))
    assert not search._left_open(plan, tried, replace(chosen, determined={"other": parse_expr(f"2*{root}")}))


class _RangeOfProduct(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for step in range(x.shape[0] * x.shape[1]):
            x = x + step
        return x


class _MadeOfSteps(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z = x.flatten()
        y = torch.stack(z.unbind(), 0).reshape(x.shape)
        return y + x.reshape(y.shape)


@each("model", [_RangeOfProduct(), _MadeOfSteps()])
def test_steps_over_a_product_are_the_cause_of_all_that_comes_after_them(model: torch.nn.Module) -> None:
    """What torch records behind an LSTM over h*w was called the cause, and six further examples were tried."""
    steps: list[str] = []
    dims = {"x": {0: Dim("h", max=9), 1: Dim("w", max=9)}}
    fix = fix_dims(model, (torch.randn(2, 3),), dynamic_shapes=dims, progress=steps.append)
    assert fix.proven
    assert steps == ["export 1: as asked", "export 2: with the corrected dims"]
    for change in fix.changes:
        assert change.why[0].text in ("w*h == 6", "h*w == 6")
        assert change.model_change is not None
        assert change.model_change.text.startswith("write the Python loop over ")


def test_steps_over_a_product_are_not_tried_with_other_examples() -> None:
    """Six further exports, each of which fixed its own product: an LSTM over h*w had no time left to be proven."""
    steps: list[str] = []
    dims = {"x": {0: Dim("h", min=2, max=6), 1: Dim("w", min=2, max=6)}}
    fix = fix_dims(_OneProduct(), (torch.randn(2, 3),), dynamic_shapes=dims, progress=steps.append)
    assert fix.proven
    assert {site: leaf.value for site, leaf in fix.plan.leaves.items()} == {"x.shape[0]": 2, "x.shape[1]": 3}
    assert [step for step in steps if "another example" in step] == []


def test_the_length_of_a_recurrent_layer_is_one_number() -> None:
    reason = because("h // 4 == 36", "y, _ = self.rnn(y)", "aten.tensor_split.sections")
    one = only(ASKED, STATIC, reason)
    assert one is not None
    assert one.text.startswith("pad to one length, or export one program for each: torch.export runs the recurrent")
    assert "at net.py:7 step by step, 36 times" in one.text
    own = because("h // 4 == 36", "a, b = torch.tensor_split(y, n)", "aten.tensor_split.sections")
    assert only(ASKED, STATIC, own) is None


class _Parts(torch.nn.Module):
    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> list[torch.Tensor]:
        counts = lengths.tolist()
        return [x[:count] for count in counts]


def test_a_list_of_numbers_is_no_recurrent_layer() -> None:
    dims = {"x": None, "lengths": {0: Dim("n", min=1, max=6)}}
    fix = fix_dims(_Parts(), (torch.randn(9), torch.tensor([2, 5, 7])), dynamic_shapes=dims)
    (change,) = fix.changes
    assert change.model_change is not None
    assert change.model_change.text.startswith("write the Python loop over n at ")
    assert "counts = lengths.tolist()" in change.model_change.text
