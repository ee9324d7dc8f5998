"""Sizes that the user bounds: what is assumed of sizes from data, and greatest sizes of dims that are open."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, export

import trtdiag
from tests.compiling.programs import Asked
from tests.harness.rows import each
from trtdiag.dims.facts import Verdict
from trtdiag.engine.manifest import AssumedSize
from trtdiag.engine.manifest_text import manifest_from_text, manifest_to_text
from trtdiag.errors import DiagnosisError, ShapeOutOfRangeError
from trtdiag.runtime.compiled import CompiledProgram

# The engine sums in PyTorch's own order; a product of few terms may be fused differently.
CLOSE = {"rtol": 1e-5, "atol": 1e-6}
MOST = 29
X = torch.linspace(-1, 1, 20).reshape(4, 5)


class Spoken(nn.Module):
    """As many steps as a tensor says, and the rows that a mask takes."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = nn.Embedding(64, 5)
        self.mixed = nn.Linear(5, 5)

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        longest = lengths.max().item()
        steps = self.steps(torch.arange(longest) % 64)
        taken = x[x[:, 0] > 0]
        return torch.softmax(self.mixed(steps), -1) + x.mean(0), self.mixed(taken).sigmoid() * 2


def spoken() -> Asked:
    torch.manual_seed(0)
    shapes = {"x": {0: Dim("b", min=2, max=9)}, "lengths": {0: Dim("count", min=1, max=6)}}
    return Spoken().eval(), (X, torch.tensor([3, 5, 2])), {}, shapes


def compiled(asked: Asked | Any, **options: Any) -> CompiledProgram:
    return trtdiag.compile(asked, backend="reference", target="11.4", **options)


def ways(program: CompiledProgram, folder: Path) -> list[Callable[..., Any]]:
    """The program as it is, the file that it is saved in, and that file as torch reads it."""
    trtdiag.save(program, folder / "saved.pt2")
    return [program, trtdiag.load(folder / "saved.pt2"), torch.export.load(folder / "saved.pt2").module()]


def ops_inside(program: CompiledProgram) -> int:
    assert isinstance(program.report, trtdiag.Report)
    partition = program.report.analysis.partition
    assert partition is not None
    return sum(segment.work_ops for segment in partition.plan.partitioned.segments)


def positive(rows: int) -> Tensor:
    """Six rows, so many of which the mask takes."""
    return torch.cat([torch.full((rows, 5), 0.5), torch.full((6 - rows, 5), -0.5)])


@pytest.mark.slow  # quick: no run beyond what is assumed
def test_ops_behind_a_size_from_data_are_in_engines_and_a_larger_one_is_refused(tmp_path: Path) -> None:
    asked = spoken()
    without, program = compiled(asked), compiled(asked, assume={"item": MOST})
    assert ops_inside(program) > ops_inside(without)
    assert [list(each.assumed.values()) for each in program.manifests][-1][0].most == MOST
    for call in ways(program, tmp_path):
        for longest in (1, 13, MOST, 1):
            lengths = torch.tensor([1, longest])
            torch.testing.assert_close(call(X, lengths), asked[0](X, lengths), **CLOSE)
        for _ in range(2):  # sizes of inputs that were taken before decide nothing here
            with pytest.raises(ShapeOutOfRangeError) as refused:
                call(X, torch.tensor([1, MOST + 1]))
            told = str(refused.value)
            assert "item is 30, and the program was compiled with --assume 'item<=29'" in told
            assert "aten.item.default at test_assumed_sizes.py:" in told
            assert "compile with a greater bound in --assume" in told


@pytest.mark.parametrize("bounded", ["assumed", "checked"])
def test_steps_up_to_a_number_are_in_an_engine_without_int64(bounded: str, tmp_path: Path) -> None:
    """On 8.6 a range of int64 has to fit into int32, which it does where its end has a greatest value."""

    class Steps(nn.Module):
        def forward(self, x: Tensor, number: Tensor) -> Tensor:
            count = number.item()
            torch._check(count >= 1)
            if bounded == "checked":
                torch._check(count <= MOST)
            steps = torch.arange(count) * 2 + 1
            return torch.softmax(steps.float() * x.mean(), 0).sqrt() + steps

    asked = Steps().eval(), (X, torch.tensor(7)), {}, None
    options = {"backend": "reference", "target": "8.6"}
    assumed = {"assume": {"item": MOST}} if bounded == "assumed" else {}
    program = trtdiag.compile(asked, **options, **assumed)
    assert isinstance(program.report, trtdiag.Report)
    partition = program.report.analysis.partition
    assert partition is not None
    left = {fallback.op for fallback in partition.plan.partitioned.fallback}
    assert left - {"trtdiag.check_size.default"} == {"aten.item.default"}  # an assumed size is checked in PyTorch
    for call in ways(program, tmp_path):
        for count in (1, 2, 13, MOST):
            torch.testing.assert_close(call(X, torch.tensor(count)), asked[0](X, torch.tensor(count)), **CLOSE)
        # What was assumed is refused by name; what the model checks itself by torch or the engine, whichever is first.
        refused = ShapeOutOfRangeError if bounded == "assumed" else (ShapeOutOfRangeError, RuntimeError)
        with pytest.raises(refused, match="item<=29" if bounded == "assumed" else "29"):
            call(X, torch.tensor(MOST + 1))


@pytest.mark.slow  # quick: no run beyond what is assumed gives a result
def test_a_count_that_an_engine_finds_is_held_to_what_was_assumed(tmp_path: Path) -> None:
    asked = spoken()
    program = compiled(asked, assume={"index": (1, 3), "item": 9})
    lengths = torch.tensor([2, 1])
    for call in ways(program, tmp_path):
        for rows in (1, 3):
            torch.testing.assert_close(call(positive(rows), lengths), asked[0](positive(rows), lengths), **CLOSE)
        for rows, bound in ((4, "greater"), (0, "smaller")):
            with pytest.raises(ShapeOutOfRangeError, match=rf"index.shape\[0\] is {rows}, .*'1<=index") as refused:
                call(positive(rows), lengths)
            assert f"a {bound} bound in --assume" in refused.value.fix


class Listed(nn.Module):
    """Two numbers of one list, and a size that is their sum."""

    def forward(self, x: Tensor, numbers: Tensor) -> tuple[Tensor, Tensor]:
        first, second = numbers.tolist()
        torch._check(first >= 0)
        torch._check(second >= 0)
        return torch.arange(first).float().sum() + torch.arange(second) * 2.0, torch.zeros(first + second) + x.sum()


class Scaled(nn.Module):
    """A number that is no size, and may be negative."""

    def forward(self, x: Tensor, number: Tensor) -> tuple[Tensor, Tensor]:
        factor = number.item()
        return x * factor + 1, x.relu() * factor


class Chain(nn.Module):
    """Counts of counts, of which one does not leave the engine."""

    def forward(self, x: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
        taken = x[x[:, 0] > 0]
        return taken[taken[:, 1] > 0].relu() * 2 + columns, (taken * 3).sum(0)


ROWS = torch.tensor([[1.0, 1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])


@each(
    "row",
    [
        (Listed(), {"item": 9, "item_1": 5}, ([9, 5], [0, 0]), {(10, 5): "item is 10", (9, 6): "item_1 is 6"}),
        (Scaled(), {"item": (-4, 9)}, (9, -4), {10: "item is 10", -5: "item is -5"}),
        (Chain(), {"index": 3, "index_1": 2}, ([1.0, 1.0],), {(1.0, 7.0): r"index.shape\[0\] is 4"}),
    ],
    ids=lambda row: type(row[0]).__name__,
)
def test_no_run_beyond_what_is_assumed_gives_a_result(
    row: tuple[nn.Module, dict[str, Any], Any, dict[Any, str]],
) -> None:
    model, assume, within, beyond = row
    example = ROWS, torch.tensor(within[0])
    program = compiled(export(model, example), assume=assume, min_segment_ops=1, verify=False)
    for call in (program, program.module()):
        for given in within:
            expected = model(ROWS, torch.tensor(given))
            for got, wanted in zip(call(ROWS, torch.tensor(given)), expected, strict=True):
                torch.testing.assert_close(got, wanted, **CLOSE)
        for given, told in beyond.items():
            rows = ROWS.abs() if isinstance(model, Chain) else ROWS
            with pytest.raises(ShapeOutOfRangeError, match=told):
                call(rows, torch.tensor(given))


@pytest.mark.slow  # quick: no run beyond what is assumed
def test_an_assumption_goes_by_symbol_value_node_and_line() -> None:
    program = spoken()
    lines = Path(__file__).read_text().splitlines()
    first = lines.index("        longest = lengths.max().item()") + 1
    for name in ("u0", "item", f"{Path(__file__).name}:{first}"):
        report = trtdiag.analyze(program, assume={name: MOST}, target="11.4")
        (said,) = [each.message for each in report.findings if each.rule == "SYM207"]
        assert said.startswith("item is assumed to be 0..29, not proven: ")
    report = trtdiag.analyze(program, assume=[("item", None, 29), ("u0", 3, None)], target="11.4")
    assert [bound.range.min for bound in report.analysis.program.bounds] == [3]


@pytest.mark.slow  # quick: an assumption goes by symbol, value, node and line
def test_what_the_program_says_itself_has_no_effect() -> None:
    asked = spoken()
    with pytest.warns(trtdiag.OptionWarning) as told:
        report = trtdiag.analyze(asked, assume={"index": 9}, max_sizes={"count": 6}, target="11.4")
    assert [str(each.message) for each in told] == [
        "max_sizes='count' has no effect: it is 1..6 without it",
        "assume='index.shape[0]' has no effect: it is 0..9 without it",
    ]
    assert [finding for finding in report.findings if finding.rule == "SYM207"] == []


def test_what_is_assumed_proves_nothing() -> None:
    class Within(nn.Module):
        def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
            longest = lengths.max().item()
            torch._check(longest <= x.shape[0])
            return torch.arange(longest) * 2 + x.sum()

    shapes = {"x": {0: Dim("b", min=3, max=9)}, "lengths": None}
    program = export(Within(), (torch.randn(4), torch.tensor([3, 2])), dynamic_shapes=shapes)
    verdicts = []
    for options in ({}, {"assume": {"item": 3}}):
        found = trtdiag.analyze(program, target="11.4", **options).analysis
        verdicts.append([(each.condition, each.verdict) for each in found.dims.constraints])
    assert any(verdict is not Verdict.HOLDS for _, verdict in verdicts[0])
    assert verdicts[0] == verdicts[1]


@pytest.mark.slow  # quick: no run beyond what is assumed gives a result
def test_a_program_that_is_exported_again_still_refuses() -> None:
    asked = spoken()
    program = compiled(asked, assume={"item": MOST})
    again = export(program.module(), (X, torch.tensor([3, 5, 2])))
    lengths = torch.tensor([3, MOST, 2])
    torch.testing.assert_close(again.module()(X, lengths), asked[0](X, lengths), **CLOSE)
    with pytest.raises((ShapeOutOfRangeError, RuntimeError), match=r"<= 29|item is 30"):
        again.module()(X, torch.tensor([3, 30, 2]))


@pytest.mark.slow  # quick: a manifest says what is assumed
def test_engines_that_are_rebuilt_keep_what_was_assumed() -> None:
    program = compiled(spoken(), assume={"item": MOST, "index": 3}, portable=True)
    again = trtdiag.rebuild(program, backend="reference")
    assert [each.assumed for each in again.manifests] == [each.assumed for each in program.manifests]
    with pytest.raises(ShapeOutOfRangeError, match="index"):
        again(positive(4), torch.tensor([2, 1]))


@pytest.mark.slow  # quick: ops behind a size from data, whose manifests say it
def test_a_manifest_says_what_is_assumed_and_nothing_where_nothing_is() -> None:
    manifest = compiled(spoken(), assume={"item": MOST}).manifests[-1]
    assert manifest_from_text(manifest_to_text(manifest)) == manifest
    (said,) = manifest.assumed.values()
    assert said == AssumedSize("item", None, MOST, said.place)
    assert "assumed" not in manifest_to_text(compiled(spoken()).manifests[0])


class Open(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.cat([x, y], 1).relu().sum(1) * 2


def opened() -> Asked:
    """``x`` is [b, t] and ``y`` is [b, 2*t + 1]; neither ``b`` nor ``t`` has an end."""
    b, t = Dim("b", min=1), Dim("t", min=2)
    shapes = {"x": {0: b, 1: t}, "y": {0: b, 1: 2 * t + 1}}
    return Open(), (torch.randn(3, 5), torch.randn(3, 11)), {}, shapes


@pytest.mark.slow  # quick: several profiles lie inside of a maximum
def test_dims_that_are_open_get_a_maximum(tmp_path: Path) -> None:
    with pytest.raises(DiagnosisError, match="SYM201"):
        compiled(opened())
    program = compiled(opened(), max_sizes={"b": 7, "y.shape[1]": 28})  # 2*t + 1 is 27 at most
    assert isinstance(program.report, trtdiag.Report)
    facts = program.report.analysis.compilation
    assert facts is not None
    assert facts.verification is not None
    assert facts.verification.passed
    names = program.report.analysis.program.names
    seen = [{names[symbol]: size for symbol, size in each.point.sizes.items()} for each in facts.verification.results]
    assert {"b": 7, "t": 13} in seen
    assert [[size.max for size in port.profile] for port in program.manifests[0].inputs] == [[7, 13], [7, 27]]
    for call in ways(program, tmp_path):
        for b, t in ((1, 2), (7, 13)):
            x, y = torch.randn(b, t), torch.randn(b, 2 * t + 1)
            torch.testing.assert_close(call(x, y), Open()(x, y), **CLOSE)
        for b, t, place in ((8, 13, r"x.(shape|size\(\))\[0\]"), (7, 14, r"x.(shape|size\(\))\[1\]")):
            # torch's own guards are assertions.
            with pytest.raises((ShapeOutOfRangeError, AssertionError), match=place):
                call(torch.randn(b, t), torch.randn(b, 2 * t + 1))
    again = trtdiag.load(tmp_path / "saved.pt2")
    assert again.options is not None
    assert again.options.max_sizes == (("b", 7), ("y.shape[1]", 28))
    with pytest.raises(ShapeOutOfRangeError) as refused:
        again(torch.randn(8, 2), torch.randn(8, 5))
    assert "--max b=7" in refused.value.fix
    assert trtdiag.verify(again, opened()).passed


def test_several_profiles_lie_inside_of_a_maximum() -> None:
    sizes = {"small": {"t": 2}, "large": {"t": (3, 8, 12)}}
    program = compiled(opened(), max_sizes={"b": 3, "t": 12}, profiles=sizes)
    assert [each.name for each in program.manifests[0].profiles] == ["small", "large"]
    x, y = torch.randn(3, 12), torch.randn(3, 25)
    torch.testing.assert_close(program(x, y), Open()(x, y), **CLOSE)
