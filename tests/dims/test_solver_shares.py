"""Which condition decides: by the sizes that it takes away, and those that only repeat another left out."""

from __future__ import annotations

import pytest

from trtdiag.dims.solver.choose import choose
from trtdiag.dims.solver.constraint_losses import decisive_first, share_held
from trtdiag.symbolic import parse_condition, to_text
from trtdiag.symbolic.expr import Condition, Sym
from trtdiag.symbolic.ranges import Range

BOX = {"h": Range(1, 61), "w": Range(1, 64)}


def read(*texts: str) -> list[Condition]:
    return [parse_condition(text, Sym) for text in texts]


def ordered(*texts: str) -> list[str]:
    return [to_text(condition) for condition in decisive_first(read(*texts), BOX)]


def test_the_condition_that_takes_most_away_stands_first() -> None:
    assert ordered("h*w != 1", "h != 1", "w != 1", "h*w % 4 == 0", "h*w >= 2") == ["h*w % 4 == 0", "h != 1", "w != 1"]
    assert ordered("h != 7", "w != 12", "h*w % 4 == 0") == ["h*w % 4 == 0", "h != 7", "w != 12"]


def test_what_repeats_another_and_what_always_holds_is_left_out() -> None:
    assert ordered("h % 8 == 0", "h % 4 == 0", "h >= 1") == ["h % 8 == 0"]
    assert ordered("h >= 1", "w >= 1") == ["h >= 1", "w >= 1"], "there is nothing else to name"


def test_what_a_sample_does_not_see_is_kept() -> None:
    wide = {"h": Range(1, 1 << 40)}
    told = decisive_first(read("h != 12345678901", "h % 2 == 0"), wide)
    assert [to_text(condition) for condition in told] == ["h % 2 == 0", "h != 12345678901"]


@pytest.mark.parametrize(
    ("text", "box", "share"),
    [
        ("h % 4 == 0", {"h": Range(1, 8)}, 0.25),
        ("h >= 1", {"h": Range(1, 1)}, 1.0),
        ("h % 4 == 0", {"h": Range(1, None)}, 0.25),
        ("h*w % 2 == 0", {"h": Range(1, 1 << 30), "w": Range(1, 1 << 30)}, 0.75),
        ("u0 <= h", {"h": Range(1, 8)}, 1.0),
    ],
)
def test_shares(text: str, box: dict[str, Range], share: float) -> None:
    # 4,096 sizes by chance: three standard deviations of a share near a half are 0.024.
    assert share_held(read(text)[0], box) == pytest.approx(share, abs=0.024)


def test_the_solver_names_the_decisive_one_first() -> None:
    conditions = read("h*w != 5", "h != 3", "h*w % 4 == 0")
    found = choose(conditions, {"h": Range(2, 61), "w": Range(2, 64)}, {"h": 7, "w": 12})
    assert to_text(found.narrowed_by["w"][0]) == "h*w % 4 == 0"
