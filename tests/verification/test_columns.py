"""Outputs whose columns have magnitudes of their own: boxes of hundreds of pixels beside scores of at most 1."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, export

from trtdiag.frontend.capture import capture
from trtdiag.verification import columns as columns_module
from trtdiag.verification.columns import Columns, columns_of, fixed_dims, largest_of, parts
from trtdiag.verification.compare import FLOAT32, compare
from trtdiag.verification.numeric_sensitivity import Movement
from trtdiag.verification.run import Comparison


class Detector(nn.Module):
    """Boxes and scores of (B, 3, N) points in one tensor (B, 6, N), and the scores alone."""

    def __init__(self, off: float = 0.0) -> None:
        super().__init__()
        self.off = off

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        scores = x[:, :2].sigmoid() + self.off
        return torch.cat([x.tanh() * 320 + 320, x[:, 2:].sigmoid(), scores], 1), scores[:, 0]


def detections(rows: int = 2, points: int = 7) -> Tensor:
    return Detector()(torch.randn(rows, 3, points, generator=torch.Generator().manual_seed(1)))[0]


def columns(magnitudes: Tensor, fixed: Sequence[int]) -> Columns:
    return columns_of(largest_of(magnitudes.shape, fixed, lambda at: magnitudes[at]))


def test_columns_are_those_of_the_fixed_dim_that_differ_most() -> None:
    found = columns(detections().abs(), (1, 2))
    assert (found.dim, found.sizes.shape) == (1, (6,))
    assert found.name(4, 3) == "[:, 4, :]"
    assert columns(detections().abs(), ()).dim is None
    assert columns(detections().abs(), (0, 2)).dim is None
    assert columns(torch.zeros(3, 5), (1,)).dim is None
    assert columns(torch.ones(7), (0,)).dim is None


def test_a_column_counts_for_a_thousandth_of_the_whole_at_least() -> None:
    found = columns(torch.tensor([[640.0, 1.0, 1e-6, 0.0]]).expand(7, 4), (1,))
    assert found.sizes.tolist() == pytest.approx([640.0, 1.0, 0.64, 0.64])


@pytest.mark.parametrize("rows", [1, 2, 3, 8, 31])
def test_columns_that_are_alike_are_one(rows: int) -> None:
    """Logits of a thousand classes: of few rows some column is next to 0 in all, by chance."""
    for seed in range(40):
        logits = torch.randn(rows, 1000, generator=torch.Generator().manual_seed(seed)).abs()
        assert columns(logits, (1,)).dim is None
    boxes = torch.tensor([[640.0, 480.0, 0.9, 0.1]]).expand(rows, 4)
    assert (columns(boxes, (1,)).dim == 1) == (rows > 1)  # of one row nobody knows


@pytest.mark.parametrize(
    ("column", "by", "passed"), [(4, 5e-4, False), (4, 5e-5, True), (0, 5e-2, True), (1, 0.1, False)]
)
def test_each_column_is_held_to_its_own_magnitude(column: int, by: float, passed: bool) -> None:
    expected = detections()
    actual = expected.clone()
    actual[1, column, 3] += by
    found = compare("boxes", expected, actual, FLOAT32, (1,))
    assert found.passed is passed
    assert found.column == ("" if passed else f"[:, {column}, :]")
    if not passed:
        size = float(expected[:, column].abs().max())
        assert found.allowed == pytest.approx(FLOAT32.absolute + FLOAT32.relative * size)
        assert found.max_abs == pytest.approx(by, rel=1e-3)  # float32 adds it to hundreds
    assert compare("boxes", expected, actual, FLOAT32).passed is (by < 0.064)


def test_what_the_original_does_not_keep_is_let_off_in_its_column_alone() -> None:
    expected = detections()
    off = expected.clone()
    off[0, 4, 0] += 2e-3
    outputs = [compare("boxes", expected, off, FLOAT32, (1,))]
    for column, passed in ((0, False), (4, True)):
        moved = expected.clone()
        moved[0, column, 0] += 1e-3
        movement = Movement(outputs, [expected], [off], FLOAT32, [(1,)])
        movement.add([moved])
        (judged,) = movement.judged()
        assert judged.passed is passed
        assert judged.column == "[:, 4, :]"


def test_scores_that_are_wrong_beside_boxes_differ() -> None:
    shapes = {"x": {0: Dim("batch", min=1, max=3), 2: Dim("points", min=1, max=13)}}
    program = export(Detector(), (torch.randn(2, 3, 7),), dynamic_shapes=shapes)
    assert fixed_dims(program) == [(1,), ()]
    for off, passed in ((0.0, True), (2e-3, False)):
        found = Comparison(capture(program), Detector(off), ()).run()
        assert found.passed is passed
    wrong = [output for result in found.results for output in result.outputs if not output.passed]
    assert {output.column for output in wrong} <= {"", "[:, 4, :]", "[:, 5, :]"}
    assert any(output.column for output in wrong)


@pytest.mark.parametrize("most", [1, 5, 24, 1000])
@pytest.mark.parametrize("shape", [(), (1,), (7,), (2, 13), (5, 1, 3), (1, 3, 5, 2)])
def test_parts_are_small_and_hold_each_element_once(
    shape: tuple[int, ...], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns_module, "MOST_AT_ONCE", most)
    count = torch.zeros(shape)
    for at in parts(shape):
        assert 0 < count[at].numel() <= most
        count[at] += 1
    assert bool((count == 1).all())


@pytest.mark.parametrize(("wrong", "column"), [(None, ""), ((0, 4, 0), "[:, 4, :]"), ((1, 2, 5), "")])
def test_a_tensor_that_is_compared_in_parts_is_judged_as_a_whole(
    wrong: tuple[int, ...] | None, column: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With NaNs and infinities on both sides, on one side, and in a part of its own."""
    expected = detections()
    expected[0, 0, 1], expected[1, 3, 6] = float("nan"), float("inf")
    actual = expected.clone()
    if wrong is not None:
        actual[wrong] += 2e-3
    at_once = compare("boxes", expected, actual, FLOAT32, (1, 2))
    actual[0, 5, 2] = float("nan")
    broken = compare("boxes", expected, actual, FLOAT32, (1, 2))
    assert (broken.passed, broken.why) == (False, "1 elements are not finite on one side only")
    monkeypatch.setattr(columns_module, "MOST_AT_ONCE", 5)
    assert compare("boxes", expected, actual, FLOAT32, (1, 2)) == broken
    actual[0, 5, 2] = expected[0, 5, 2]
    assert compare("boxes", expected, actual, FLOAT32, (1, 2)) == at_once
    assert at_once.column == column
    assert at_once.passed is (not column)
