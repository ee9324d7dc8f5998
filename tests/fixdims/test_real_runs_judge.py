"""The judge with real tensors finds what fake tensors do not see, and nothing where there is nothing."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.export import Dim

from tests.guards import cases
from tests.harness.admitted import Ask, admitted, asked_dims
from tests.harness.real_runs import RealJudgement, judge_on_data, unequal_points
from tests.harness.soundness import judge


def exported(ask: Ask) -> torch.export.ExportedProgram:
    return torch.export.export(ask.model, ask.args, dict(ask.kwargs) or None, dynamic_shapes=ask.dynamic_shapes)


def judged(ask: Ask) -> RealJudgement:
    return judge_on_data(exported(ask), ask)


@pytest.mark.slow  # quick: a program that answers otherwise than its model fails
def test_keys_and_values_of_two_lengths_fail_on_data_alone() -> None:
    ask = Ask(*cases.build("step_separate_kv"))
    assert judge(exported(ask), ask).sound  # on shapes nothing breaks
    found = judged(ask)
    assert found.points > 0
    assert found.failures
    assert all(failure.point["tk"] != failure.point["tv"] for failure in found.failures)


@pytest.mark.slow  # quick: what fails before this judge of tests
def test_keys_and_values_of_one_length_agree() -> None:
    ask = Ask(*cases.build("step_separate_kv"))
    b, t = Dim("b", min=1, max=64), Dim("t", min=1, max=255)
    found = judged(Ask(ask.model, ask.args, ask.kwargs, ({0: b}, {0: b, 2: t}, {0: b, 2: t})))
    assert found.failures == []
    assert found.points >= 7


class Branch(nn.Module):
    """Another answer from nine rows on."""

    def forward(self, x):
        return x * 2 if x.shape[0] > 8 else x


def test_a_program_that_answers_otherwise_than_its_model_fails() -> None:
    ask = Ask(Branch(), (torch.randn(12, 2),), {}, ({0: Dim.DYNAMIC},))
    program = exported(ask)
    program._guards_code = []  # as after a second decomposition of a loaded program: nothing refuses the sizes any more
    assert judge_on_data(program, Ask(Branch(), ask.args, {}, ({0: Dim.DYNAMIC(min=2, max=40)},))).failures


class Table(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(5, 2)

    def forward(self, ids):
        return self.table(ids + ids.shape[0])


def test_an_index_that_does_not_exist_says_nothing_of_sizes() -> None:
    found = judged(Ask(Table(), (torch.tensor([1, 2]),), {}, ({0: Dim("n", min=2, max=16)},)))
    assert found.points > 0
    assert found.of_data
    assert not found.failures


@pytest.mark.slow  # quick: what fails before this judge of tests
def test_points_differ_wherever_the_sizes_are_free() -> None:
    ask = Ask(*cases.build("step_separate_kv"))
    of = admitted(exported(ask), ask, asked_dims(ask))
    points = list(unequal_points(of, 12))
    names = [axis.name for axis in of.axes]
    for one, other in ((a, b) for a in names for b in names if a != b):
        assert any(point[one] < point[other] for point in points), (one, other)
