"""The decode loops of the example: tokens as eager's, and of caches only new elements are written."""

from __future__ import annotations

import re

import pytest

from examples import generate
from tests.models.torchvision_ops import declare_missing_ops

ROW = generate.WIDTH * 4
"""The bytes of one step of one cache of the decoder's own code."""
SLOW = pytest.mark.slow  # 200 steps by both ways, each beside eager


def lines(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[tuple[int, int, int]]:
    """Of each way to run: bytes that a step writes outside of engines, those into caches, and copies of a cache."""
    assert generate.main(arguments) == 0
    told = capsys.readouterr().out
    assert told.count("equal to eager's") == 2
    assert "NOT" not in told
    found = re.findall(r"a step writes ([\d,]+) bytes, ([\d,]+) of them into caches; copies of a cache: (\d+)", told)
    return [(int(all_of.replace(",", "")), int(into.replace(",", "")), int(copies)) for all_of, into, copies in found]


@pytest.mark.slow  # quick: the target that writes in place, below; tests/runtime/test_row_writes.py
@pytest.mark.parametrize("steps", [12, 200])
def test_own_code_on_a_target_without_a_layer_for_caches(steps: int, capsys: pytest.CaptureFixture[str]) -> None:
    called, loaded = lines(capsys, "own", "--target", "8.6", "--steps", str(steps))
    assert called[1:] == loaded[1:] == (4 * ROW, 0)
    assert called[0] < 2 * 4 * ROW  # beside these the position, as int32


@pytest.mark.parametrize("steps", [12, pytest.param(200, marks=SLOW)])
@pytest.mark.slow  # quick: caches in tests/runtime/test_loaded_caches.py
def test_own_code_on_a_target_that_writes_in_place(steps: int, capsys: pytest.CaptureFixture[str]) -> None:
    called, loaded = lines(capsys, "own", "--target", "11.4", "--steps", str(steps))
    assert called == (0, 0, 0)
    assert loaded[1:] == (0, 0)


@pytest.mark.zoo
@pytest.mark.slow  # an export by transformers, and 200 steps by both ways
@pytest.mark.parametrize("target", ["8.6", "11.4"])
def test_the_static_cache_of_transformers(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("transformers")
    declare_missing_ops()
    called, loaded = lines(capsys, "static-cache", "--target", target)
    assert called[2] == loaded[2] == 0
    if target == "8.6":
        assert called[1] == loaded[1] == 4 * ROW // 2
