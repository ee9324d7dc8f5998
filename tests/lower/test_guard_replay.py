"""The op behind a guard of a saved program is found by running the ops again."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, export, save
from torch.nn import functional as F

from trtdiag.frontend.capture import capture
from trtdiag.lower.guard_replay import replay_guards
from trtdiag.symbolic import parse_condition
from trtdiag.symbolic.expr import Condition


class Mixed(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(x)
        if x.shape[3] % 3 == 0:
            y = y + 1
        return F.pixel_unshuffle(y, 4)


def saved(tmp_path: Path) -> Path:
    example = (torch.randn(1, 3, 32, 24),)
    save(export(Mixed(), example, dynamic_shapes={"x": {2: Dim.AUTO, 3: Dim.AUTO}}), tmp_path / "mixed.pt2")
    return tmp_path / "mixed.pt2"


@pytest.mark.slow  # quick: no guard is lost, in test_pipeline_seeds.py
def test_an_op_is_recognised_by_what_it_refuses_and_a_branch_by_no_op(tmp_path: Path) -> None:
    program = capture(saved(tmp_path))
    h, w = (str(dim.expr.name) for dim in program.inputs[0].dims[2:])  # type: ignore[union-attr]  # both are dynamic
    multiple: Condition = parse_condition(f"4*({h} // 4) == {h}")
    branch: Condition = parse_condition(f"{w} % 3 == 0")
    replay = replay_guards(program, {multiple: {h: 33}, branch: {w: 28}})
    assert replay.complete
    assert replay.nodes.keys() == {multiple}
    node = replay.nodes[multiple]
    stack = program.origins[node].stack.user
    assert stack is not None
    assert "pixel_unshuffle" in stack.code


@pytest.mark.slow  # quick: an op is recognised, and what is not, is not
def test_a_replay_that_runs_out_of_time_does_not_claim_to_be_complete(tmp_path: Path) -> None:
    program = capture(saved(tmp_path))
    h = str(program.inputs[0].dims[2].expr.name)  # type: ignore[union-attr]  # a dynamic dim
    replay = replay_guards(program, {parse_condition(f"{h} % 4 == 0"): {h: 33}}, limit_s=0.0)
    assert not replay.complete
    assert replay.nodes == {}


@pytest.mark.slow  # quick: the program and its ShapeEnv stay as they were, in test_lowered_programs.py
def test_replaying_leaves_the_programs_own_guards_alone() -> None:
    example = (torch.randn(1, 3, 32, 24),)
    exported = export(Mixed(), example, dynamic_shapes={"x": {2: Dim.AUTO, 3: Dim.AUTO}})
    program = capture(exported)
    before = [str(guard.condition) for guard in program.guards]
    h = str(program.inputs[0].dims[2].expr.name)  # type: ignore[union-attr]  # a dynamic dim
    replay_guards(program, {parse_condition(f"{h} % 4 == 0"): {h: 33}})
    assert [str(guard.condition) for guard in capture(exported).guards] == before
