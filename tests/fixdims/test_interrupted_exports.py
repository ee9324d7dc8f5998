"""Exports that stop while the model is traced: only dims that stand in the way are left with one size."""

from __future__ import annotations

import copy
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.export import Dim, export

import trtdiag
from tests.dims.programs import program
from tests.harness.rows import each
from trtdiag.dims.plan import DimDef, Leaf, LeafKind, Plan
from trtdiag.dims.solver_input import system_of
from trtdiag.fixdims.export_result import read_program
from trtdiag.fixdims.interrupted_exports import INSTEAD, opened
from trtdiag.fixdims.notes import Notebook
from trtdiag.fixdims.other_examples import BeforeMoving, OtherExamples
from trtdiag.symbolic import Range

SIZES = {"x.shape[0]": 2, "x.shape[1]": 24, "y.shape[0]": 2, "y.shape[1]": 5}
ROOTS = {"x.shape[0]": "batch", "x.shape[1]": "length", "y.shape[0]": "batch", "y.shape[1]": "text"}
ASKED = Plan(
    tuple(DimDef(name, Range(1, 61)) for name in ("batch", "length", "text")),
    {site: Leaf(LeafKind.DIM, root) for site, root in ROOTS.items()},
)


@pytest.mark.parametrize("standing", [{"length"}, {"batch"}, {"length", "text"}, {"batch", "length", "text"}])
def test_dims_that_do_not_stand_in_the_way_stay(standing: set[str]) -> None:
    def attempt(plan: Plan, why: str) -> Any:
        moving = {ROOTS[site] for site, leaf in plan.leaves.items() if leaf.kind is not LeafKind.STATIC}
        return SimpleNamespace(finished=not moving & standing, message=why)

    search: Any = SimpleNamespace(
        found=SimpleNamespace(), attempt=attempt, examples=SIZES, notebook=Notebook({site: site for site in ROOTS})
    )
    tried: Any = SimpleNamespace(error_type="TypeError", message="unhashable type: non-nested SymInt", stack=None)
    answer = opened(search, ASKED, tried)
    assert answer is not None
    plan, traced = answer
    assert traced.finished
    fixed = {site for site, root in ROOTS.items() if root in standing}
    assert {site: leaf.value for site, leaf in plan.leaves.items() if leaf.kind is LeafKind.STATIC} == {
        site: SIZES[site] for site in fixed
    }
    assert {site for site, noted in search.notebook.sites.items() if noted.reasons} == fixed


class Table(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.sum(1, keepdim=True) * {5: 1.5, 7: 2.5}[y.shape[1]] + y


@pytest.mark.slow  # quick: the same with an export that is told apart by its plan alone
def test_a_dim_that_a_table_in_python_is_read_by_is_the_only_one_with_one_size() -> None:
    batch, length, text = Dim("batch", min=1, max=13), Dim("length", min=1, max=61), Dim("text", min=1, max=9)
    args, dims = (torch.randn(2, 24), torch.randn(2, 5)), ({0: batch, 1: length}, {0: batch, 1: text})
    fix = trtdiag.fix_dims(Table(), args, dynamic_shapes=dims)
    assert [(change.name, change.after) for change in fix.changes] == [("text", "5")]
    assert fix.proven
    program = export(Table(), args, dynamic_shapes=fix.dynamic_shapes).module()
    for rows, columns in ((1, 1), (13, 61), (7, 11)):
        x, y = torch.randn(rows, columns), torch.randn(rows, 5)
        assert torch.allclose(program(x, y), Table()(x, y))


def test_two_sizes_of_one_name_are_told_apart_by_their_dims() -> None:
    """While a model is traced, dims of one Dim are symbols of their own: batch*f == f*batch says nothing."""
    names = {"b": "batch", "f": "f", "e": "batch"}
    guards = ["L['x'].size()[0]*L['x'].size()[1] == L['x'].size()[1]*L['x'].size()[2]"]
    tried = read_program(program(dict.fromkeys(names, Range(1, 4)), guards))
    sites = {f"x.shape[{index}]": name for index, name in enumerate(names.values())}
    defs = (DimDef("batch", Range(1, 4)), DimDef("f", Range(1, 4)))
    plan = Plan(defs, {site: Leaf(LeafKind.DIM, name) for site, name in sites.items()})
    apart = Plan((), {site: Leaf(LeafKind.DYNAMIC, range=Range(1, 4)) for site in sites})
    chosen: Any = SimpleNamespace(narrowed_by={"b": tuple(tried.conditions)}, allowed={}, sets={}, alternatives={})
    notebook = Notebook(sites)
    notebook.round(tried, plan, system_of(tried.inputs, apart), chosen)
    (why,) = notebook.of("x.shape[0]").reasons
    assert why.text == "x.shape[0]*f == x.shape[2]*f"
    assert why.counterexample == "x.shape[0] = 1, x.shape[2] = 2, f = 1"


of_2_13 = pytest.mark.skipif(torch.__version__ < "2.13", reason="what is known are the words of torch 2.13")


class Packed(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru = torch.nn.GRU(4, 5, batch_first=True)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return self.gru(packed)[1][-1]


class Padded(Packed):
    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return self.gru(x)[0][torch.arange(len(lengths)), lengths - 1]


@of_2_13
def test_a_packed_sequence_has_another_way() -> None:
    inputs, padded = (torch.randn(2, 7, 4), torch.tensor([3, 7])), Padded()
    assert _told(Packed(), inputs) == "argument 'size' failed to unpack the object"
    assert torch.allclose(export(padded, inputs).module()(*inputs), Packed.forward(padded, *inputs), atol=1e-6)


def _told(model: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> str:
    """The words by which torch's refusal is known."""
    with pytest.raises(Exception) as caught:  # noqa: PT011  # torch raises anything here
        export(model, inputs)
    return next(words for words in INSTEAD if words in str(caught.value))


class Called(torch.nn.Module):
    def __init__(self, call: Any) -> None:
        super().__init__()
        self.call = call

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.call(x)


def _covariance(x: torch.Tensor) -> torch.Tensor:
    centered = x - x.mean(1, keepdim=True)
    return centered @ centered.T / (x.shape[1] - 1)


OTHER_WAYS: dict[str, tuple[str, Any, Any]] = {
    "equal": ("aten.equal.default", lambda x: x * torch.equal(x, x), lambda x: x * (x == x).all()),
    "cov": ("aten.equal.default", torch.cov, _covariance),
    "allclose": ("aten.allclose.default", lambda x: x * torch.allclose(x, x), lambda x: x * torch.isclose(x, x).all()),
    "numpy": (".numpy() is not supported", lambda x: torch.from_numpy(np.tanh(x.numpy())), torch.tanh),
    "text": ("FakeTensor.__format__", lambda x: x * float(f"{x.sum() * 0 + 2:.1f}"), lambda x: x * 2),
    "copy": ("Cannot access data pointer", lambda x: copy.deepcopy(x) * 2, lambda x: x.clone() * 2),
    "data": ("a fake tensor in the exported program constant's list", lambda x: x.data * 2, lambda x: x.detach() * 2),
}


@of_2_13
@each("name", OTHER_WAYS)
def test_what_torch_does_not_trace_has_another_way(name: str) -> None:
    words, before, after = OTHER_WAYS[name]
    x = torch.randn(3, 7)
    assert _told(Called(before), (x,)) == words
    assert torch.allclose(export(Called(after), (x,)).module()(x), before(x), atol=1e-6)


@of_2_13
def test_the_other_way_is_said() -> None:
    n = Dim("n", max=9)
    fix = trtdiag.fix_dims(Called(lambda x: x.data * 2), (torch.ones(3),), dynamic_shapes=({0: n},))
    assert INSTEAD["a fake tensor in the exported program constant's list"] in fix.notes
    fix = trtdiag.fix_dims(Called(lambda x: x * float(x.sum())), (torch.ones(3),), dynamic_shapes=({0: n},))
    assert any(note.startswith("write x.sum().item() in place of float(x.sum()) at ") for note in fix.notes)


class Doubled(torch.nn.Module):
    """Refuses some inputs always, and all while it is exported."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[1] != 5 or torch.compiler.is_exporting():
            raise ValueError("only 5 columns")
        return x * 2


@each("columns", [4, 5])
def test_whether_the_model_itself_fails_at_its_example_is_told(columns: int) -> None:
    fix = trtdiag.fix_dims(Doubled(), (torch.ones(3, columns),), dynamic_shapes=({0: Dim("n", min=2, max=9)},))
    assert fix.notes[-1] == (
        "without an export the model runs at these inputs"
        if columns == 5
        else "the model fails at these inputs without an export, too: ValueError: only 5 columns"
    )
    on_meta = Doubled().to("meta")
    on_meta.weight = torch.nn.Parameter(torch.ones(2, device="meta"))
    fix = trtdiag.fix_dims(on_meta, (torch.ones(3, 4),), dynamic_shapes=({0: Dim("n", min=2, max=9)},))
    assert fix.notes[-1] == "the export fails with every dim static too: dims are not the reason"


class Rows(torch.nn.Module):
    """Has a table for 4 rows; what it makes for others, torch.export cannot trace."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] == 4:
            return x * 2
        rows = torch.ones(x.shape[0], 1)
        rows.data[1:].copy_(torch.arange(x.shape[0] - 1)[:, None])
        return x * rows if x.shape[0] % 2 else x


def test_a_search_goes_back_to_the_given_example_once() -> None:
    tried, failed = SimpleNamespace(pins=()), SimpleNamespace(message="no fake tensor\nin constants")
    search: Any = SimpleNamespace(
        before_moving=BeforeMoving(ASKED, tried, ()),  # type: ignore[arg-type]  # of a try its pins are asked
        found=SimpleNamespace(notes=[]),
        notebook=Notebook({}),
        solving=None,
    )
    others, moved = OtherExamples(search), replace(ASKED, sizes={"x.shape[0]": 8})
    assert others.moved_back(moved, failed) == (ASKED, tried)  # type: ignore[arg-type]  # of a failed one its words
    assert search.found.notes == ["with another example (x.shape[0] = 8) the export fails: no fake tensor"]
    assert search.found.notebook is search.notebook
    assert search.moved_collapsed
    assert others.moved_back(moved, failed) is None  # type: ignore[arg-type]


@pytest.mark.slow  # quick: the same with tries that are told apart by their plans alone
def test_where_another_example_cannot_be_exported_the_given_one_stays() -> None:
    shapes = {"x": {0: Dim("n", min=1, max=30), 1: Dim("k", min=1, max=9)}}
    fix = trtdiag.fix_dims(Rows(), (torch.ones(4, 3),), dynamic_shapes=shapes)
    assert fix.proven
    assert {change.name: change.after for change in fix.changes} == {"n": "4"}
    assert any(note.startswith("with another example (x.shape[0] = 8) the export fails: ") for note in fix.notes)
    assert not any("dims are not the reason" in note for note in fix.notes)
