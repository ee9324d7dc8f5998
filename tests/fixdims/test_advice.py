"""Advice on changing the model: given where it helps, and true when followed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export
from torch.nn import functional as F

from tests.harness.rows import thinned
from trtdiag.dims.plan import DimDef, Leaf, LeafKind, Plan
from trtdiag.fixdims.advice import with_model_changes
from trtdiag.fixdims.changes import Noted, changes_between
from trtdiag.fixdims.fix import Alternative, Change, Reason
from trtdiag.graph.source import Frame, Stack
from trtdiag.symbolic.proof import Proof, ProofKind
from trtdiag.symbolic.ranges import Range

PROOF = Proof(ProofKind.PERIODIC)


def plan(*defs: DimDef, sizes: dict[str, int] | None = None, **leaves: Leaf) -> Plan:
    """Leaves by ``x_2`` for ``x.shape[2]``."""
    sites = {f"{key.rpartition('_')[0]}.shape[{key.rpartition('_')[2]}]": leaf for key, leaf in leaves.items()}
    return Plan(defs, sites, sizes or {})


def dim(root: str, scale: int = 1, offset: int = 0) -> Leaf:
    return Leaf(LeafKind.DIM, root, scale, offset, name=root.strip("_"))


def because(text: str, code: str, by: str = "a Python condition", number: int = 7) -> Reason:
    return Reason(text, Stack((Frame("net.py", number, "forward", code),)), by)


def advised(
    asked: Plan, final: Plan, *why: Reason, kind: str = "", ranks: dict[str, int] | None = None
) -> list[Alternative | None]:
    noted = {site: Noted(reasons=list(why), kind=kind) for site in final.leaves}
    changes = with_model_changes(changes_between(asked, final, noted, PROOF), asked, final, ranks)
    return [change.model_change for change in changes]


ASKED = plan(DimDef("h", Range(135, 2160)), x_2=dim("h"))


def only(*found: Any, **named: Any) -> Alternative | None:
    (one,) = advised(*found, **named)
    return one


class Rows(nn.Module):
    """Refuses sizes that are no multiple of 8 plus ``rest`` in the dims named."""

    def __init__(self, rest: int, *dims: int) -> None:
        super().__init__()
        self.rest, self.dims = rest, dims

    def forward(self, x: Tensor) -> Tensor:
        for index in self.dims:
            x = x.narrow(index, self.rest, x.shape[index] - self.rest)
            x = x.unflatten(index, (x.shape[index] // 8, 8)).sum(index + 1)
        return x


class Padded(nn.Module):
    """``model`` with the advised lines first in ``forward``."""

    def __init__(self, model: nn.Module, lines: str) -> None:
        super().__init__()
        self.model = model
        self.code = compile(lines, "<advice>", "exec")

    def forward(self, x: Tensor) -> Tensor:
        names: dict[str, Any] = {"F": F, "x": x}
        exec(self.code, names)
        padded: Tensor = self.model(names["x"])
        return padded


PADDINGS = {
    "images": (0, (2, 3), 4, "x = F.pad(x, (0, -x.shape[3] % 8, 0, -x.shape[2] % 8))"),
    "height": (0, (2,), 4, "x = F.pad(x, (0, 0, 0, -x.shape[2] % 8))"),
    "residue": (3, (1,), 3, "x = F.pad(x, (0, 0, 0, (3 - x.shape[1]) % 8))"),
    "last": (5, (1,), 2, "x = F.pad(x, (0, (5 - x.shape[1]) % 8))"),
    "batch": (0, (0,), 2, "x = F.pad(x, (0, 0, 0, -x.shape[0] % 8))"),
}


@pytest.mark.parametrize("name", PADDINGS)
@pytest.mark.parametrize("start", [40, 41])  # of 40 nothing is padded
@pytest.mark.slow  # quick: the text of the advice, below
def test_padding_works_when_followed_over_the_whole_asked_range(name: str, start: int) -> None:
    rest, dims, rank, line = PADDINGS[name]
    low, high = 17, 8 * 23 + rest
    asked = plan(*(DimDef(f"d{i}", Range(low, high)) for i in dims), **{f"x_{i}": dim(f"d{i}") for i in dims})
    roots = Range(-(-(low - rest) // 8), 23)
    final = plan(*(DimDef(f"_d{i}", roots) for i in dims), **{f"x_{i}": dim(f"_d{i}", 8, rest) for i in dims})
    found = advised(asked, final, ranks={"x": rank})
    assert len(found) == len(dims)
    (advice,) = {one.text.partition("\n")[2] for one in found if one is not None}
    assert advice == line
    for one in found:
        assert one is not None
        assert one.kept == (high - low + 1, high - low + 1)
        assert f"Dim.DYNAMIC(min={low}, max={high})" in one.note

    model = Padded(Rows(rest, *dims), advice)
    example = torch.randn([start + 5 * index if index in dims else 3 for index in range(rank)])
    spec = {"x": {index: Dim.DYNAMIC(min=low, max=high) for index in dims}}
    # Dim.DYNAMIC: torch cannot see that a padded size is a multiple and would refuse a plain Dim.
    module = export(model, (example,), dynamic_shapes=spec, strict=False).module()
    for size in (low, low + 1, 24, 31, 37, high - 1, high):
        x = torch.randn([size if index in dims else 3 for index in range(rank)])
        torch.testing.assert_close(module(x), model(x))  # the same operations: equal up to their rounding


def test_a_plain_dim_would_be_refused_after_padding() -> None:
    model = Padded(Rows(0, 0), "x = F.pad(x, (0, 0, 0, -x.shape[0] % 8))")
    with pytest.raises(Exception, match=r"Constraints violated|inconsistent"):
        export(model, (torch.randn(41, 3),), dynamic_shapes={"x": {0: Dim("n", min=17, max=184)}}, strict=False)


def test_padding_counts_what_it_really_keeps() -> None:
    # 161..167 would be padded to 168, which was never asked for; 1..8 to 8, which is refused.
    asked = plan(DimDef("n", Range(1, 167)), x_0=dim("n"))
    one = only(asked, plan(DimDef("_n", Range(2, 20)), x_0=dim("_n", 8)), ranks={"x": 1})
    assert one is not None
    assert one.kept == (152, 167)
    assert "Dim.DYNAMIC(min=9, max=160)" in one.note


def test_inputs_that_share_a_dim_are_padded_alike_and_names_may_be_nested() -> None:
    sites = ("batch['a'].shape[1]", "b[0].shape[0]")
    asked = Plan((DimDef("n", Range(2, 64)),), {site: dim("n") for site in sites})
    final = Plan((DimDef("_n", Range(1, 16)),), {site: dim("_n", 4) for site in sites})
    one = only(asked, final, ranks={"batch['a']": 3, "b[0]": 1})
    assert one is not None
    assert one.text.splitlines()[1:] == [
        "batch['a'] = F.pad(batch['a'], (0, 0, 0, -batch['a'].shape[1] % 4))",
        "b[0] = F.pad(b[0], (0, -b[0].shape[0] % 4))",
    ]


def test_without_ranks_padding_is_advised_in_words() -> None:
    one = only(ASKED, plan(DimDef("_h", Range(17, 270)), x_2=dim("_h", 8)))
    assert one is not None
    assert one.text == "pad h to a multiple of 8, first in forward"


def test_without_an_upper_end_nothing_is_counted_or_invented() -> None:
    asked = plan(DimDef("h", Range(2, None)), x_0=dim("h"))
    one = only(asked, plan(DimDef("_h", Range(1, None)), x_0=dim("_h", 8)), ranks={"x": 1})
    assert one is not None
    assert one.kept is None
    assert "Dim.DYNAMIC(min=2)" in one.note


NO_PADDING = {
    "another input follows": plan(DimDef("_h", Range(9, 99)), x_2=dim("_h", 8), mask_0=dim("_h", 4)),
    "one dim is the root": plan(DimDef("h", Range(9, 99)), x_2=dim("h", 8), mask_0=dim("h")),
    "a step of one": plan(DimDef("_h", Range(134, 2159)), x_2=dim("_h", 1, 1)),
    "nothing is left to win": plan(DimDef("_h", Range(17, 17)), x_2=dim("_h", 8)),
}


@pytest.mark.parametrize("name", NO_PADDING)
def test_no_padding_where_it_does_not_help(name: str) -> None:
    final = NO_PADDING[name]
    asked = ASKED
    if name == "nothing is left to win":
        asked = plan(DimDef("h", Range(136, 136)), x_2=dim("h"))
    found = advised(asked, final, ranks={"x": 4, "mask": 1})
    assert not any(one is not None and "pad" in one.text for one in found)


def test_an_integer_input_is_not_padded() -> None:
    asked = Plan((DimDef("n", Range(2, 64)),), {"n": dim("n")})
    assert only(asked, Plan((DimDef("_n", Range(1, 8)),), {"n": dim("_n", 8)}), ranks={"n": 0}) is None


SHORTER = plan(DimDef("h", Range(135, 512)), x_2=dim("h"))
STATIC = plan(x_2=Leaf(LeafKind.STATIC, value=144))
MORE = plan(DimDef("h", Range(145, 2160)), x_2=dim("h"))

LINES: dict[str, tuple[Plan, Reason, str | None]] = {
    "branch": (
        SHORTER,
        because("h <= 512", "if x.shape[2] > 512:"),
        "take the branch at net.py:7 out of Python (torch.where, torch.cond, or one path for all sizes): "
        "if x.shape[2] > 512:",
    ),
    "conditional expression": (
        SHORTER,
        because("h <= 512", "y = pool(x) if x.shape[2] > 512 else x"),
        "take the branch at net.py:7 out of Python (torch.where, torch.cond, or one path for all sizes): "
        "y = pool(x) if x.shape[2] > 512 else x",
    ),
    "assertion": (SHORTER, because("h <= 512", "assert x.shape[2] <= 512"), None),
    "table": (
        SHORTER,
        because("h <= 512", "y += table[: x.shape[2]]", "aten.slice.Tensor"),
        "give the table at net.py:7 rows enough for h = 2160, where it has them up to 512: y += table[: x.shape[2]]",
    ),
    "table below": (
        SHORTER,
        because("h < 513", "self.embedding(positions)", "aten.embedding.default"),
        "give the table at net.py:7 rows enough for h = 2160, where it has them up to 512: self.embedding(positions)",
    ),
    "slice to the end": (SHORTER, because("h <= 512", "y = x[x.shape[2] - 512 :]", "aten.slice.Tensor"), None),
    "slice for another op": (SHORTER, because("h <= 512", "y = f(x[:, :3])", "aten._fft_r2c.default"), None),
    "rows of cdist": (
        SHORTER,
        because("h <= 25", "near = torch.cdist(x[:, :3], y)", "aten.cdist.default"),
        'give torch.cdist at net.py:7 compute_mode="donot_use_mm_for_euclid_dist": by default it computes another way'
        " where there are more than 25 rows: near = torch.cdist(x[:, :3], y)",
    ),
    "length of max_pool1d": (
        STATIC,
        because("h == 144", "return self.pool(x)", "aten.max_pool1d.default"),
        "ask max_pool1d at net.py:7 for the indices, too (return_indices=True), and leave them: without them its kernel"
        " reads the length as a number: return self.pool(x)",
    ),
    "limit of an op": (SHORTER, because("h <= 512", "return self.fft(x)", "aten._fft_r2c.default"), None),
    "no line": (SHORTER, Reason("h <= 512", by="aten.slice.Tensor"), None),
    "least size": (
        plan(DimDef("h", Range(144, 2160)), x_2=dim("h")),
        because("h // 144 != 1", "x = self.conv(x)", "aten.conv2d.default"),
        None,
    ),
    "pinned by a comparison": (
        STATIC,
        because("h == 144", "if x.shape[2] == 144:"),
        "remove the comparison with 144 at net.py:7: if x.shape[2] == 144:",
    ),
    "pinned by an assertion": (STATIC, because("h == 144", "assert x.shape[2] == 144"), None),
    "pinned by a literal": (
        STATIC,
        because("h == 144", "x = x.view(1, 3, 144, -1)", "aten.view.default"),
        "write -1 or a size of the tensor in place of 144 at net.py:7: x = x.view(1, 3, 144, -1)",
    ),
    "another literal": (STATIC, because("h == 144", "x = x.view(1, 3, 1440)", "aten.view.default"), None),
    "a constant behind a name": (STATIC, because("h == 144", "x = x.view(1, 3, SIZE)", "aten.view.default"), None),
    "loop": (
        STATIC,
        because("h == 144", "for i in range(x.shape[2]):"),
        "write the Python loop over h at net.py:7 as one tensor operation: for i in range(x.shape[2]):",
    ),
}


@pytest.mark.parametrize("name", LINES)
def test_lines_of_the_model(name: str) -> None:
    final, reason, text = LINES[name]
    one = only(ASKED, final, reason)
    assert (None if one is None else one.text) == text
    if one is not None:
        assert one.kept == (2026, 2026)
        assert one.note == ""


def test_another_example_is_not_the_whole_answer_where_values_stay_lost() -> None:
    one = only(ASKED, MORE, because("h == 144", "if x.shape[2] == 144:"), kind="example")
    assert one is not None
    assert one.text.startswith("remove the comparison with 144")


def test_conditions_from_elsewhere_remain_and_are_named() -> None:
    branch = because("h <= 512", "if x.shape[2] > 512:")
    one = only(ASKED, SHORTER, branch, because("h != 600", "x = self.conv(x)", "aten.conv2d.default", 9))
    assert one is not None
    assert one.kept is None
    assert one.note == "the other conditions remain: h != 600"


@pytest.mark.parametrize("kind", ["hint", "bound"])
def test_nothing_is_advised_where_only_words_change(kind: str) -> None:
    hint = plan(x_2=Leaf(LeafKind.DYNAMIC, range=Range(135, 2160)))
    assert only(ASKED, hint, because("h <= 512", "if x.shape[2] > 512:"), kind=kind) is None


def test_a_line_is_advised_where_other_words_lose_sizes() -> None:
    narrower = plan(x_2=Leaf(LeafKind.DYNAMIC, range=Range(135, 512)))
    one = only(ASKED, narrower, because("h <= 512", "if x.shape[2] > 512:"), kind="hint")
    assert one is not None
    assert one.text.startswith("take the branch at net.py:7 out of Python")


def test_equal_inputs_lose_nothing_and_need_no_other_model() -> None:
    asked = plan(DimDef("a", Range(2, 9)), DimDef("b", Range(2, 9)), x_0=dim("a"), y_0=dim("b"))
    final = plan(DimDef("a", Range(2, 9)), x_0=dim("a"), y_0=dim("a"))
    assert advised(asked, final, because("a == b", "return x + y", "aten.add.Tensor"), kind="shared") == [None, None]


def test_an_input_whose_size_follows_from_another_can_be_made_inside() -> None:
    asked = plan(DimDef("t", Range(2, 9)), DimDef("m", Range(2, 18)), x_0=dim("t"), mask_0=dim("m"))
    final = plan(DimDef("t", Range(2, 9)), x_0=dim("t"), mask_0=dim("t", 2))
    root, one = advised(asked, final, because("m == 2*t", "return cat * mask", "aten.mul.Tensor"))
    assert root is None
    assert one is not None
    assert one.text == "make mask inside the model from x.shape[0], so that it is no input"
    alone = plan(DimDef("t", Range(2, 9)), mask_1=dim("t"), mask_0=dim("t", 2))
    both = plan(DimDef("t", Range(2, 9)), DimDef("m", Range(2, 18)), mask_1=dim("t"), mask_0=dim("m"))
    assert advised(both, alone) == [None, None]  # its own other dim: there is nothing to make it from


class Table(nn.Module):
    def __init__(self, rows: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(rows, 4))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table[: x.shape[1]]


class Literal(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, x: Tensor) -> Tensor:
        return x.view(3, self.size, 2, 2)


class Compared(nn.Module):
    def __init__(self, compare: bool) -> None:
        super().__init__()
        self.compare = compare

    def forward(self, x: Tensor) -> Tensor:
        if self.compare and x.shape[1] == 12:
            return x * 2
        return x + 1


class Branching(nn.Module):
    def __init__(self, python: bool) -> None:
        super().__init__()
        self.python = python

    def forward(self, x: Tensor) -> Tensor:
        if self.python:
            return x * 2 if x.shape[1] > 20 else x + 1
        return torch.where(torch.full((), x.shape[1]) > 20, x * 2, x + 1)


class Called(nn.Module):
    def __init__(self, call: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.call = call

    def forward(self, x: Tensor) -> Tensor:
        return self.call(x)


FOLLOWED: dict[str, tuple[Callable[[], nn.Module], Callable[[], nn.Module]]] = {
    "larger table": (lambda: Table(64), lambda: Table(100)),
    "no literal": (lambda: Literal(12), lambda: Literal(-1)),
    "no comparison": (lambda: Compared(True), lambda: Compared(False)),
    "no branch": (lambda: Branching(True), lambda: Branching(False)),
    "one way for distances": (
        lambda: Called(lambda x: torch.cdist(x, x + 1)),
        lambda: Called(lambda x: torch.cdist(x, x + 1, compute_mode="donot_use_mm_for_euclid_dist")),
    ),
    "indices of a pooling": (
        lambda: Called(lambda x: F.max_pool1d(x.mT, 3, 1, 1)),
        lambda: Called(lambda x: F.max_pool1d(x.mT, 3, 1, 1, return_indices=True)[0]),
    ),
}


def exported(model: nn.Module) -> ExportedProgram:
    spec = {"x": {1: Dim("t", min=2, max=100)}}
    return export(model, (torch.randn(3, 12, 4),), dynamic_shapes=spec, strict=False)


# Quick: the ends; what is advised of the others is quick below.
@thinned("name", FOLLOWED, every=9)
def test_changing_the_line_gives_the_whole_range(name: str) -> None:
    before, after = FOLLOWED[name]
    with pytest.raises(Exception, match=r"Constraints violated|specialized"):
        exported(before())
    model = after()
    module = exported(model).module()
    for size in (2, 12, 20, 21, 97, 100):
        x = torch.randn(3, size, 4)
        torch.testing.assert_close(module(x), model(x))  # the same operations: equal up to their rounding


def test_every_change_keeps_everything_else() -> None:
    asked, final = ASKED, plan(DimDef("_h", Range(17, 270)), x_2=dim("_h", 8))
    changes = changes_between(asked, final, {}, PROOF)
    (before,), (after,) = changes, with_model_changes(changes, asked, final)
    assert isinstance(after, Change)
    assert {**vars(before), "model_change": None} == {**vars(after), "model_change": None}
    assert with_model_changes((), asked, final) == ()
