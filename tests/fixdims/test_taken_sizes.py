"""The sizes that a declaration admits, over the names of what was asked."""

from __future__ import annotations

from trtdiag.fixdims.several_programs.admitted_sizes import placed
from trtdiag.fixdims.several_programs.coordinates import Coordinate
from trtdiag.symbolic import add, mul, to_text
from trtdiag.symbolic.expr import Sym
from trtdiag.symbolic.ranges import Range


def test_dims_that_share_a_declaration_state_their_sizes_once() -> None:
    size = add(mul(8, Sym("s0")), 5)
    shared = Coordinate("h", "h", {"left.shape[2]": (1, 0), "right.shape[2]": (1, 0)}, "left.shape[2]", Range(4, 2160))
    found = placed(dict.fromkeys(shared.lines, size), {"s0": Range(1, 20)}, [shared])
    assert found is not None
    assert [to_text(condition) for condition in found[1]] == ["h >= 13", "h <= 165", "h % 8 == 5"]


def test_dims_that_differ_from_what_was_shared_state_both() -> None:
    shared = Coordinate("h", "h", {"left.shape[2]": (1, 0), "right.shape[2]": (1, 0)}, "left.shape[2]", Range(4, 2160))
    sizes = {"left.shape[2]": mul(8, Sym("s0")), "right.shape[2]": Sym("s1")}
    found = placed(sizes, {"s0": Range(1, 20), "s1": Range(2, 50)}, [shared])
    assert found is not None
    texts = [to_text(condition) for condition in found[1]]
    assert texts == ["h >= 8", "h <= 160", "h % 8 == 0", "h >= 2", "h <= 50"]
