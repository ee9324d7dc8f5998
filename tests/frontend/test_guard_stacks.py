"""Guards by condition and by text; the text of a condition is made once, and only when one is asked for."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from trtdiag.frontend.guard_stacks import GuardStacks, recording
from trtdiag.frontend.torch_private import shape_env_guards, shape_env_of


class Printed:
    """A condition that counts how often its text is made; equal to others of the same text, as torch's are."""

    def __init__(self, text: str, seen: list[str]) -> None:
        self._text, self._seen = text, seen

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Printed) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __str__(self) -> str:
        self._seen.append(self._text)
        return self._text


def test_a_guard_that_comes_up_again_and_again_is_not_printed() -> None:
    stacks, seen = GuardStacks(), list[str]()
    for _ in range(5):
        stacks.note(Printed("Eq(Mod(s0, 7), 0)", seen))
        stacks.note(Printed("s0 > 3", seen))
    stacks.also_in_roots({})

    assert stacks.of(Printed("s0 > 3", seen)).stack.frames
    assert stacks.of(Printed("s0 > 3", seen)).op is None
    assert seen == []


def test_texts_are_made_once_each() -> None:
    stacks, seen = GuardStacks(), list[str]()
    stacks.note(Printed("Eq(Mod(s0, 7), 0)", seen))
    stacks.note(Printed("s0 > 3", seen))
    found = stacks.of("s0 > 3")
    assert found is not None
    assert found is stacks.of(Printed("s0 > 3", seen))
    assert not stacks.of("s0 > 4").stack.frames
    assert stacks.of("Eq(Mod(s0, 7), 0)").stack.frames
    assert seen == ["Eq(Mod(s0, 7), 0)", "s0 > 3"]

    stacks.note(Printed("s0 > 5", seen))
    assert stacks.of("s0 > 5").stack.frames
    assert seen == ["Eq(Mod(s0, 7), 0)", "s0 > 3", "s0 > 5"]


class Windows(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(x.shape[0] // 7, 7, 3).sum(1) if x.shape[0] > 20 else x


def test_guards_of_an_export_are_found_as_torch_holds_them_and_by_their_text() -> None:
    with recording() as stacks:
        exported = torch.export.export(
            Windows(), (torch.randn(28, 3),), dynamic_shapes=({0: 7 * Dim("windows", min=3, max=9)},)
        )
    env = shape_env_of(exported.graph_module)
    assert env is not None
    conditions = [condition for condition, _ in shape_env_guards(env)]
    found = [stacks.of(condition).stack for condition in conditions]
    own = [stack for stack in found if any(f.function == "forward" for f in stack.frames)]
    assert own
    assert [stacks.of(str(condition)).stack for condition in conditions] == found


class Composite(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        near = torch.cdist(x, x) if x.shape[0] > 3 else x
        return torch.nn.functional.max_pool1d(near, 3)


def test_the_op_is_known_whose_kernel_compares_sizes_before_it_calls_other_ops() -> None:
    # Both are written as other ops: torch asks for their numbers outside any dispatch on fake tensors.
    dims = {0: Dim.AUTO, 1: Dim.AUTO}
    with recording() as stacks:
        exported = torch.export.export(Composite(), (torch.randn(5, 30, 4),), dynamic_shapes=(dims,))
    env = shape_env_of(exported.graph_module)
    assert env is not None
    noted = {str(condition): stacks.of(condition) for condition, _ in shape_env_guards(env)}
    ops = {each.op for each in noted.values()}
    assert {"aten.cdist.default", "aten.max_pool1d.default"} <= ops
    python = [each for each in noted.values() if each.stack.frames[-1].file == __file__]
    assert python
    assert all(each.op is None for each in python)


class Joined(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([torch.nn.functional.pixel_shuffle(torch.max_pool2d(x, 2).repeat(1, 4, 1, 1), 2), x], 1)


def test_a_guard_of_a_prim_is_told_of_the_op_that_the_model_has() -> None:
    """torch computes ``aten.cat`` with ``prims.cat``, which asks for equal sizes."""
    dims = {2: Dim("h", min=4, max=30), 3: Dim("w", min=4, max=30)}
    with recording() as stacks, pytest.raises(torch._dynamo.exc.UserError):
        torch.export.export(Joined(), (torch.randn(1, 3, 6, 10),), dynamic_shapes=(dims,))
    ops = {noted.op for noted in stacks._noted.values()}
    assert "aten.cat.default" in ops
    assert not any((op or "").startswith("prims.") for op in ops)
