"""What splits the engines, inputs and symbols, the bar, operator coverage: each beside the facts it is made from."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache, partial

import jsonschema
import pytest
import torch
from sample_analysis import EMPTY_DIMS, HOSTILE_NAMES, Net, clean_analysis, dim_system, exported_net
from test_report_comparison import report_of as report_of_blocks
from test_report_partition import report_of, section, words
from torch import Tensor, nn
from torch.export import Dim, export

import trtdiag
from tests.harness.rows import thinned
from trtdiag.analysis.coverage import no_work, op_coverage
from trtdiag.analysis.fallbacks import MINIMUMS, FallbackGroup, LeftOp
from trtdiag.analysis.finding import Place
from trtdiag.graph.limit import Limit
from trtdiag.graph.node_kinds import NodeKind
from trtdiag.graph.source import Frame
from trtdiag.options import CompileOptions, PartitionOptions
from trtdiag.report import view_strip
from trtdiag.report.json_report import SCHEMA_PATH
from trtdiag.report.report import Report
from trtdiag.report.saved_page import read_page
from trtdiag.report.settings import reproduce_command, settings_of
from trtdiag.report.view_inputs import inputs_view
from trtdiag.report.view_sizes import residue_words, residues
from trtdiag.report.view_strip import strip_view
from trtdiag.shapes.opt_sizes import EngineSizes
from trtdiag.symbolic import Range, ValueSet


@pytest.fixture(scope="module")
def blocks() -> Report:
    return report_of_blocks(3)


def facts_of(report: Report):
    assert report.analysis.partition is not None
    return report.analysis.partition


of_five = cache(partial(report_of, 5))


# Quick: one that leaves some segments and drops others.
@pytest.mark.parametrize("least", [3, *(pytest.param(least, marks=pytest.mark.slow) for least in (0, 1, 7))])
@pytest.mark.slow  # quick: reports compared, in test_report_comparison.py
def test_the_table_of_minimums_is_what_the_partitioner_gives(least: int) -> None:
    asked = of_five(min_segment_ops=least)
    for number, answer in facts_of(asked).minimums:
        parts = facts_of(of_five(min_segment_ops=number)).partitioned
        assert answer.segments_after == len(parts.segments)
        assert answer.ops_after == sum(len(segment.ops) for segment in parts.segments)
    assert [number for number, _ in facts_of(asked).minimums] == sorted({*MINIMUMS, least})
    assert re.search(rf"\b{least} \d+ \d+ \d+ as now", words(section(asked, "splits")))


def test_all_causes_together_are_a_counterfactual_of_their_own(blocks: Report) -> None:
    facts = facts_of(blocks)
    alone = [group.cost.segments_after for group in facts.groups if group.cost is not None]
    assert facts.together is not None
    assert facts.together.segments_after == 1 < min(alone)
    assert f"{facts.together.segments_before} engines would become 1, with" in words(section(blocks, "splits"))
    body = json.loads(blocks.to_json())["partition"]
    assert body["together"]["engines_after"] == 1
    assert [each["min_segment_ops"] for each in body["minimums"]] == sorted(MINIMUMS)


def test_a_finding_says_what_it_costs() -> None:
    report = report_of(3)
    view = next(found for found in report.rendering.view["findings"] if found["rule"] == "OPS501")
    (group,) = facts_of(report).groups
    assert view["impact"].startswith(f"Costs {group.engines_saved} engines, keeps 2 ops out of engines, ")
    body = next(found for found in json.loads(report.to_json())["findings"] if found["rule"] == "OPS501")
    assert body["impact"] == {"engines": 2, "ops": 2, "crossing_bytes": group.crossing.opt}


def test_a_whole_program_is_told_as_one() -> None:
    report = trtdiag.analyze(exported_net(2), target="11.4")
    text = words(section(report, "splits"))
    assert re.search(r"Nothing splits the program: (\d+) of \1 ops in 1 engine\.", text)
    assert "With another least number of ops" not in text
    assert report.rendering.view["verdict"]["headline"].endswith("planned as 1 engine")


def test_a_program_of_which_nothing_goes_into_engines_says_so() -> None:
    report = trtdiag.analyze(exported_net(2), target="11.4", keep_in_torch=["aten"])
    assert re.search(r"Nothing goes into an engine: all \d+ ops stay in PyTorch", words(section(report, "splits")))
    assert report.rendering.view["verdict"]["headline"].endswith("nothing goes into an engine")


def test_one_op_that_stays_is_told_as_one() -> None:
    report = trtdiag.analyze((torch.nn.Dropout(), (torch.randn(3, 5),), {}, None), target="11.4")
    assert "Nothing goes into an engine: its one op stays in PyTorch" in words(section(report, "splits"))


def test_coverage_counts_every_call_once(blocks: Report) -> None:
    facts = facts_of(blocks)
    found = op_coverage(facts)
    assert sum(each.calls for each in found) == len(facts.partitioned.plan.graph.ops)
    assert sum(each.in_engines for each in found) == sum(len(s.ops) for s in facts.partitioned.segments)
    left = [fallback for fallback in facts.partitioned.fallback if fallback.computes]
    assert sum(each.in_pytorch for each in found) == len(left)
    assert all(sum(times for *_, times in each.reasons) == each.in_pytorch for each in found)
    text = words(section(blocks, "coverage"))
    assert re.search(r"aten.cummax.default 3 · 3 · .* \[no-converter\]", text)
    body = json.loads(blocks.to_json())
    jsonschema.Draft202012Validator(json.loads(SCHEMA_PATH.read_text())).validate(body)
    assert sum(each["calls"] for each in body["partition"]["coverage"]) == len(facts.partitioned.plan.graph.ops)


@pytest.mark.slow  # quick: test_a_whole_program_is_told_as_one
def test_asserts_and_no_ops_are_no_fallback() -> None:
    class Noisy(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            torch._check(x.shape[0] * 3 > 1)
            y = torch.dropout(x, 0.5, False).detach()
            return y.to(torch.float32) + y.reshape(x.shape[0] * 5, -1).sum()

    program = export(Noisy(), (torch.randn(3, 5),), dynamic_shapes={"x": {0: Dim("rows", min=1, max=13)}})
    report = trtdiag.analyze(program, target="11.4")
    assert report.analysis.checked is not None
    kinds = {each.kind for each in no_work(report.analysis.checked)}
    assert {NodeKind.NO_OP, NodeKind.ASSERT, NodeKind.SHAPE} & kinds
    left = {fallback.op for fallback in facts_of(report).partitioned.fallback if fallback.computes}
    assert left.isdisjoint(each.op for each in no_work(report.analysis.checked))
    assert "none of them is counted as a fallback" in words(section(report, "no-work"))


def widths(report: Report) -> list[tuple[str, float]]:
    view = strip_view(facts_of(report))
    assert view is not None
    return [
        (piece["kind"], float(piece["width"].rstrip("%")) * 12) for piece in view["pieces"]
    ]  # of a bar of 1,200 pixels


@pytest.mark.slow  # quick: the bar is full and no piece is too thin
@pytest.mark.parametrize("most", [20, pytest.param(view_strip.MOST_PIECES, marks=pytest.mark.slow)])
def test_what_the_bar_has_no_room_for_is_counted(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_strip, "MOST_PIECES", most)
    report = report_of(most // 2 + 4, min_segment_ops=1)
    view = strip_view(facts_of(report))
    assert view is not None
    assert len(view["pieces"]) == most
    assert view["badges"][0] == f"{most // 2 + 4} engines"
    assert view["note"] == "7 more steps not drawn."


# The quick run has a bar with all the pieces that one has room for above, where that room is small.
@pytest.mark.parametrize("count", [1, 2, pytest.param(61, marks=pytest.mark.slow)])
def test_the_bar_is_full_and_no_piece_is_too_thin(count: int) -> None:
    report = report_of(count, min_segment_ops=1)
    found = widths(report)
    assert sum(width for _, width in found) == pytest.approx(1200, abs=0.12 * len(found))  # two decimals of a percent
    assert min(width for _, width in found) >= 3 - 0.1
    assert [kind for kind, _ in found] == ["engine" if at % 2 == 0 else "torch" for at in range(2 * count - 1)]
    text = words(section(report))
    if count > 1:
        assert f"{count - 1} stretch{'es' * (count > 2)} of PyTorch, {count - 1} op{'s' * (count > 2)}" in text


@pytest.mark.slow  # quick: test_a_whole_program_is_told_as_one
def test_symbols_stand_with_origin_profile_guards_and_verdict() -> None:
    dims = {"x": {0: Dim("batch", min=1, max=7), 1: Dim("seq", min=2, max=31)}}
    report = trtdiag.analyze((Net(2), (torch.randn(2, 5, 8),), {}, dims), target="11.4")
    view = report.rendering.view["inputs"]
    profiles = EngineSizes(report.analysis.program).profiles()
    assert view["inputs"] is not None
    assert view["inputs"]["rows"][0][0] == "x"
    assert view["inputs"]["rows"][0][1] == "float32[batch, seq, 8]"
    rows = {row["name"]: row for row in view["rows"]}
    assert rows["batch"]["origin"] == "x.shape[0]"
    assert rows["batch"]["range"] == "1..7"
    assert rows["seq"]["profile"] == "2 / 5 / 31"
    assert {(p.min, p.opt, p.max) for p in profiles.values()} == {(1, 2, 7), (2, 5, 31)}
    assert all(row["verdict"] == "ok" for row in view["rows"])
    body = json.loads(report.to_json())
    assert {each["name"]: each["profile"] for each in body["symbols"]} == {
        "batch": {"min": 1, "opt": 2, "max": 7},
        "seq": {"min": 2, "opt": 5, "max": 31},
    }


def test_pinned_dims_and_broken_symbols_stand_in_the_same_table() -> None:
    view = inputs_view(replace(clean_analysis(), dims=dim_system(), symbols=None))
    assert [(row["origin"], row["verdict"]) for row in view["rows"]] == [("y.shape[2]", "specialised to 4")]
    page = Report(replace(clean_analysis(), dims=dim_system())).to_html()
    assert words(page).count("specialised to 4") == 1


@pytest.mark.slow  # quick: test_the_sizes_stand_in_one_table
def test_a_derived_dim_has_an_example_too() -> None:
    module = nn.Conv2d(3, 2, 4, stride=4).eval()
    exported = export(module, (torch.randn(1, 3, 12, 8),), dynamic_shapes=({2: 4 * Dim("rows", min=1, max=7)},))
    inputs = trtdiag.analyze(exported).rendering.view["inputs"]["inputs"]
    assert inputs is not None
    ((name, shape, example),) = inputs["rows"]
    assert (name, shape, example) == ("input", "float32[1, 3, input.shape[2], 8]", "[1, 3, 12, 8]")


@pytest.mark.slow  # quick: a derived dim has an example, here
def test_derived_sizes_stand_by_their_numbers() -> None:
    x = torch.randn(1, 3, 96, 8)
    net = nn.Sequential(*[nn.Sequential(nn.Conv2d(3, 3, 2, stride=2), *[nn.ReLU()] * n) for n in (1, 3, 2)]).eval()
    rows = trtdiag.analyze(export(net, (x,), dynamic_shapes=({2: 8 * Dim("r", min=2, max=12)},))).rendering.view[
        "inputs"
    ]
    (symbol,) = rows["rows"]
    assert symbol["expressions"] == "input.shape[2] // 2, input.shape[2] // 4"  # also where the others are used more


def test_a_symbol_without_end_has_no_maximum() -> None:
    program = export(nn.Linear(5, 5), (torch.randn(3, 5),), dynamic_shapes={"input": {0: Dim("rows", min=2)}})
    (row,) = trtdiag.analyze(program).rendering.view["inputs"]["rows"]
    assert (row["profile"], row["verdict"]) == ("2 / 3 / no maximum", "no upper bound")


def test_a_page_without_symbols_says_so() -> None:
    assert "every size is fixed" in words(Report(clean_analysis(dims=EMPTY_DIMS)).to_html())


def test_settings_are_told_with_what_was_changed() -> None:
    report = report_of(2, min_segment_ops=3, keep_in_torch=["blocks.0"])
    told = {name: (value, usual) for name, value, usual in settings_of(report.analysis.options)}
    assert told["min_segment_ops"] == (3, 5)
    assert told["keep_in_torch"] == (("blocks.0",), ())
    text = words(section(report, "environment"))
    assert "min_segment_ops 3 set" in text
    assert "truncate_double no default" in text
    assert reproduce_command(report.analysis).endswith("min_segment_ops=3, keep_in_torch=('blocks.0',))")


def test_the_command_asks_for_the_same_again() -> None:
    options = CompileOptions(
        target="11.4",
        opt=(("h", 640),),
        assume=(("item", None, 9), ("index", 1, 3)),
        max_sizes=(("h", 720),),
        verify=False,
        partition=PartitionOptions(keep_in_torch=("aten.cat", "a b")),
    )
    command = reproduce_command(clean_analysis(options=options, target="11.4"))
    assert command == (
        "trtdiag analyze model.pt2 --target 11.4 --assume 'item<=9' --assume '1<=index<=3' --max h=720 --opt h=640"
        " --no-verify --keep-in-torch aten.cat --keep-in-torch 'a b'"
    )


def test_a_notebook_shows_verdict_findings_and_the_overview() -> None:
    report = report_of(3)
    html = report._repr_html_()
    assert html.count("flex:") == 5
    for text in ("1 warning", "OPS501", "With aten.cummax.default in engines, 3 engines would become 1", "engine 2"):
        assert text in html
    assert "new, 0 fixed" in report.compare(report)._repr_html_()
    assert "0 new, 0 fixed, 2 unchanged findings, compared with the report on" in repr(report.compare(report))
    assert "display:flex" not in Report(clean_analysis())._repr_html_()


def test_what_the_user_keeps_is_told_with_what_it_costs() -> None:
    report = trtdiag.analyze(exported_net(), target="11.4", min_segment_ops=1, keep_in_torch=["aten.layer_norm"])
    facts = facts_of(report)
    (kept,) = facts.kept
    assert kept.cost is not None
    assert kept.cost.segments_after == 1
    assert facts.groups == ()
    assert facts.together == replace(kept.cost, op="all of them")
    (row,) = report.rendering.view["splits"]["rows"]
    assert (row["reason"], row["engines"], row["finding"]) == (
        "kept by you",
        f"{len(facts.partitioned.segments)} → 1",
        "",
    )


# Quick: the ends and each third; all are quick in test_report_html.py.
@thinned("name", HOSTILE_NAMES, ids=range(len(HOSTILE_NAMES)), every=3)
def test_hostile_names_stay_text_in_every_section(blocks: Report, name: str) -> None:
    def renamed(group: FallbackGroup) -> FallbackGroup:
        place = Place(name, name, Frame(name, 1, name, name), name)
        left = tuple(LeftOp(name, Limit("odd", name, name), place) for _ in group.left)
        return replace(group, op=name, code=name, left=left)

    facts = facts_of(blocks)
    hostile = replace(facts, groups=tuple(map(renamed, facts.groups)), kept=tuple(map(renamed, facts.groups)))
    named = replace(blocks.analysis.program, names={"s77": name}, label=name)
    report = Report(replace(blocks.analysis, partition=hostile, program=named), layout="builtin")
    page = report.to_html()
    page.encode("utf-8")
    assert "<script>alert(1)" not in page
    assert "<img" not in page
    assert not set(page) & {"\x1b", "\x07", "\x00", "\u202e"}
    assert read_page(json.loads(report.to_json())["page"])["splits"] == report.rendering.view["splits"]
    assert "<img" not in report._repr_html_()


@pytest.mark.slow  # quick: test_what_the_user_keeps_is_told_with_what_it_costs
def test_what_to_do_about_engines_that_the_user_split_names_what_is_kept() -> None:
    program = export(nn.Sequential(*[nn.Linear(5, 5), nn.ReLU()] * 5), (torch.randn(3, 5),))
    report = trtdiag.analyze(program, min_segment_ops=1, keep_in_torch=["aten.relu"])
    fix = report.rendering.view["verdict"]["fix"]
    assert fix is not None
    assert fix["title"] == "let aten.relu.default into engines: that you keep it in PyTorch costs most"
    assert [each.fact for each in report.findings[0].evidence[1:]] == [
        "aten.relu.default (5 calls): without it 1 engine"
    ]


def test_the_sizes_stand_in_one_table() -> None:
    """Asked, allowed with its pattern, what to declare and what that keeps, and what engines are built for."""

    class Halves(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.view(x.shape[0] // 3, 3, x.shape[1]).sum(0)

    rows = Dim("rows", min=1, max=40)
    report = trtdiag.analyze((Halves(), (torch.randn(12, 5),), {}, {"x": {0: rows}}), target="11.4")
    (row,) = report.rendering.view["dims"]["rows"]
    assert (row["site"], row["name"], row["range"]) == ("x.shape[0]", "rows", "1..40")
    assert row["residues"] == "multiples of 3"
    assert row["kept"] == "6..39 in steps of 3"  # torch takes a single row of three for a fixed size
    assert row["state"] == "breaks"
    assert report.rendering.view["dims"]["declare"].rstrip().endswith("}")
    assert 'id="declare"' in report.to_html()


def test_a_size_that_the_data_decide_stands_with_the_others() -> None:
    class Picked(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x[x > 0] * 2

    report = trtdiag.analyze(export(Picked(), (torch.randn(7),), dynamic_shapes={"x": {0: Dim("n", min=2, max=90)}}))
    told = [(row["site"], row["label"]) for row in report.rendering.view["dims"]["rows"]]
    assert told == [("x.shape[0]", "ok"), ("index: aten.index.Tensor", "the data decide it")]


@pytest.mark.parametrize(
    ("period", "remainders", "words"),
    [
        (8, [0], "multiples of 8"),
        (8, [3], "3 more than multiples of 8"),
        (6, [0, 1], "multiples of 6, or 1 more than multiples of 6"),
        (7, [2, 3], "2 or 3 more than multiples of 7"),
        (1, [0], ""),
        (9, [0, 1, 3, 4, 7], ""),
    ],
)
def test_patterns_of_sizes_are_told_as_multiples(period: int, remainders: list[int], words: str) -> None:
    values = ValueSet.residues(period, remainders, Range(11, 300))
    assert residue_words(values) == words
    if words:
        found = residues(values)
        assert found is not None
        assert all((value % found[0] in found[1]) == (value in values) for value in range(11, 300))
