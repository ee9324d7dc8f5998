"""Findings that differ in names or numbers alone are told once, with a count and the other names."""

from __future__ import annotations

import io
from dataclasses import replace
from html import escape
from pathlib import Path

import pytest
import torch
from rich.console import Console
from sample_analysis import FRAME, finding
from torch import Tensor, nn
from torch.export import Dim, export

import trtdiag
from trtdiag.analysis.finding import Evidence, Finding, Fix, Place, Severity
from trtdiag.report.report import Report
from trtdiag.report.similar_findings import differing_words, similar_findings
from trtdiag.report.terminal import print_summary
from trtdiag.report.verdict import cause_trees
from trtdiag.report.view_findings import finding_views

GUARD = "guard {0} == 2*({0} // 2) breaks the range of {0}: {0} = 200 works, {0} = 201 fails"


def unbounded(number: int, site: str, severity: Severity = Severity.ERROR) -> Finding:
    fix = Fix(f"declare the largest {site} that you will run", code=f"LARGEST = {number}")
    return finding(number, "SYM201", severity, f"{site} has no upper bound (2 or more)", fix=fix)


def told(*findings: Finding) -> list[tuple[str, int, tuple[str, ...]]]:
    return [(found.finding.id, len(found.trees), found.others) for found in similar_findings(cause_trees(findings))]


def printed(report: trtdiag.Report, width: int = 80, *source: str) -> str:
    out = io.StringIO()
    print_summary(report.analysis, Console(file=out, width=width), source=source)
    return out.getvalue()


def test_names_are_told_beside_the_first() -> None:
    assert told(unbounded(1, "x.shape[0]"), unbounded(2, "y.shape[0]"), unbounded(3, "z[1].shape[7]")) == [
        ("SYM201-1", 3, ("y.shape[0]", "z[1].shape[7]"))
    ]


def test_of_expressions_only_the_name_is_told() -> None:
    h, w = (finding(at, "GRD301", Severity.ERROR, GUARD.format(name)) for at, name in ((1, "h"), (2, "w")))
    assert told(h, w) == [("GRD301-1", 2, ("w",))]


def test_equal_messages_are_one_without_other_names() -> None:
    same = [finding(at, "A", Severity.ERROR, "a guard breaks") for at in (1, 2)]
    assert told(*same) == [("A-1", 2, ())]


@pytest.mark.parametrize(
    "other",
    [
        unbounded(2, "y.shape[0]", Severity.WARNING),
        finding(2, "SYM202", Severity.ERROR, "x.shape[0] has no upper bound (2 or more)"),
        finding(2, "SYM201", Severity.ERROR, "y.shape[0] has no upper bound (2 or more)"),  # and no fix
        finding(2, "SYM201", Severity.ERROR, "batch and height are declared apart"),
        finding(2, "SYM201", Severity.ERROR, "every word of these is another"),
    ],
    ids=["severity", "rule", "fix", "length", "words"],
)
def test_what_says_something_else_stands_alone(other: Finding) -> None:
    assert [count for _, count, _ in told(unbounded(1, "x.shape[0]"), other)] == [1, 1]


@pytest.mark.parametrize("count", [300, pytest.param(3_000, marks=pytest.mark.slow)])
def test_many_unlike_findings_stand_alone(count: int) -> None:
    many = [finding(at, "A", Severity.ERROR, f"{at} a{at} b{at} and c{at}") for at in range(count)]
    assert len(told(*many)) == count


def test_names_without_end_and_hidden_characters_are_spelled_out() -> None:
    program = export(nn.ReLU(), (torch.randn(5, 3),), dynamic_shapes=({0: Dim("batch", min=1, max=9)},))
    text = printed(trtdiag.analyze(program), 80, "a\x1b[31m\nb.pt2")
    assert "\x1b" not in text
    assert "next: trtdiag compile 'a" in text


def test_what_they_cause_is_kept_together() -> None:
    first, second = unbounded(1, "x.shape[0]"), unbounded(2, "y.shape[0]")
    caused = [finding(at, "OPS502", Severity.WARNING, f"op {at} stays", root=f"SYM201-{at}") for at in (1, 2)]
    (found,) = similar_findings(cause_trees([first, second, *caused]))
    assert [tree.finding.id for tree in found.caused] == ["OPS502-1", "OPS502-2"]


class Halves(nn.Module):
    def forward(self, first_picture: Tensor, second_picture: Tensor) -> Tensor:
        return first_picture.relu() + second_picture.reshape(first_picture.shape)


def test_the_summary_of_a_program_at_80_columns() -> None:
    shapes = {"first_picture": {0: Dim.AUTO, 1: Dim.AUTO}, "second_picture": {0: Dim.AUTO, 1: Dim.AUTO}}
    program = export(Halves(), (torch.randn(5, 7), torch.randn(5, 7)), dynamic_shapes=shapes)
    lines = printed(trtdiag.analyze(program), 80, "my model.pt2").splitlines()
    (head,) = [line for line in lines if line.startswith("error SYM201")]
    assert head.startswith("error SYM201 x2  first_picture.shape[0] has no upper bound")
    assert "  also: first_picture.shape[1]" in lines
    assert "  fix: say the largest first_picture.shape[0] that you will run:" in lines
    assert "       --max 'first_picture.shape[0]=LARGEST', or declare it" in lines  # to copy, and so not broken
    assert "next: trtdiag fix-dims 'my model.pt2'" in lines
    assert "not checked: numerics: nothing was run on data" in lines
    assert [line for line in lines if line != line.rstrip()] == []
    assert max(map(len, lines)) <= 80


class Pairs(nn.Module):
    def forward(self, picture: Tensor) -> Tensor:
        return picture.reshape(-1, 2, picture.shape[1]).sum(1)


class OfPowers(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.relu() if x.shape[0] & (x.shape[0] - 1) == 0 else x


def test_what_is_not_proven_is_not_told_as_what_to_declare() -> None:
    report = trtdiag.analyze((OfPowers(), (torch.randn(8, 3),), {}, {"x": {0: Dim("n", min=2, max=64)}}))
    lines = printed(report).splitlines()
    at = lines.index("What to declare, as far as is known (a condition was not read; trtdiag fix-dims")
    assert lines[at + 1] == "  tries it out):"
    assert "What to declare:" not in lines
    doubt = "# as far as is known: a condition was not read; trtdiag fix-dims tries it out"
    assert doubt in report.to_html()
    assert doubt in report._repr_html_()


@pytest.mark.slow  # quick: a picture is saved, in test_browser_charts.py
def test_code_to_copy_is_whole_however_narrow_the_terminal() -> None:
    shapes = {"picture": {0: Dim("height_of_the_picture", min=4, max=40)}}
    report = trtdiag.analyze((Pairs(), (torch.randn(8, 3),), {}, shapes))
    declaration = report.analysis.dims.declaration
    assert declaration is not None
    code = declaration.code.strip()
    assert max(map(len, code.splitlines())) > 40
    assert f"What to declare:\n\n{code}\n\n" in printed(report, width=24)
    assert f"<summary>What to declare</summary>\n\n```python\n{code}\n```\n" in report.to_markdown()


@pytest.mark.parametrize("width", [40, 59, 75, 76, 120])
def test_of_a_line_of_code_without_room_nothing_is_shown(width: int) -> None:
    place = f"package/{'long_' * 8}name.py"
    found = finding(1, "A", Severity.ERROR, "one", places=(Place("view", "", replace(FRAME, file=place)),))
    report = trtdiag.analyze(export(nn.Linear(3, 4), (torch.randn(5, 3),)))
    shown = printed(Report(replace(report.analysis, findings=(found,))), width)
    lines = [line.strip() for line in shown.splitlines()]
    assert not any(line.split()[-1:] == ["…"] for line in lines)
    assert ("y = x" in shown) == (width - 2 - len(f"{place}:41") - 2 >= 16)


def test_what_to_do_next_where_the_dims_hold() -> None:
    program = export(nn.Linear(3, 4), (torch.randn(5, 3),), dynamic_shapes=({0: Dim("batch", min=1, max=9)},))
    report = trtdiag.analyze(program)
    assert "next: trtdiag compile model.pt2" in printed(report, 80, "model.pt2").splitlines()
    assert "next:" not in printed(report)


def test_the_next_command_has_the_options_that_this_one_had() -> None:
    program = export(nn.Linear(3, 4), (torch.randn(5, 3),), dynamic_shapes=({0: Dim("batch", min=1)},))
    given = {"target": "10.16", "truncate_double": True, "keep_in_torch": ["aten.softmax.int"], "ignore": ["SYM"]}
    bounded = trtdiag.analyze(program, max_sizes={"input.shape[0]": 64}, **given)
    words = "--target 10.16 --truncate-double --max 'input.shape[0]=64' --keep-in-torch aten.softmax.int"
    assert f"next: trtdiag compile model.pt2 {words}" in printed(bounded, 80, "model.pt2").splitlines()
    unbounded = trtdiag.analyze(program, **given)
    assert "next: trtdiag fix-dims model.pt2" in printed(unbounded, 80, "model.pt2").splitlines()  # it has none of them


def test_the_others_are_at_lines_below_the_working_directory() -> None:
    made = [
        finding(at, "A", Severity.ERROR, f"{n} has no upper bound and is made at {Path.cwd()}/net.py:{at}")
        for at, n in ((1, "rows"), (2, "columns"))
    ]
    assert told(*made) == [("A-1", 2, ("columns at net.py:2",))]


def test_a_notebook_has_the_fixes_and_what_to_declare() -> None:
    shapes = {"picture": {0: Dim("height_of_the_picture", min=4, max=40)}}
    report = trtdiag.analyze((Pairs(), (torch.randn(8, 3),), {}, shapes))
    html = report._repr_html_()
    declaration = report.analysis.dims.declaration
    assert declaration is not None
    assert f">{escape(declaration.code.rstrip(), quote=False)}</pre>" in html.replace("&#34;", '"')
    fixes = {finding.fix.title for finding in report.findings if finding.fix is not None}
    assert fixes
    assert all(f"<b>fix:</b> {escape(title, quote=False)}" in html.replace("&#34;", '"') for title in fixes)


def test_what_to_declare_says_where_a_largest_size_is_wanted() -> None:
    class Attend(nn.Module):
        def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return torch.nn.functional.scaled_dot_product_attention(q, k, v)

    named = Dim("tokens", max=64)
    shapes = {"q": {2: named}, "k": {2: Dim.DYNAMIC}, "v": {2: Dim.DYNAMIC}}
    args = tuple(torch.randn(1, 2, size, 8) for size in (5, 7, 7))
    text = printed(trtdiag.analyze((Attend(), args, {}, shapes)))
    assert "  # give it max=: TensorRT builds for sizes up to one\n" in text, "the engine of k and v has no end"
    assert text.count("give it max=") == 1
    assert 'tokens = Dim("tokens", ' in text


def test_a_notebook_cuts_no_sentence() -> None:
    long = "it sums over " + " and ".join(f"past_keys[{at}].shape[2] + input_ids.shape[1]" for at in range(9))
    assert len(long) > 300
    report = trtdiag.analyze((nn.Linear(3, 2), (torch.randn(4, 3),)))
    told = replace(report, analysis=replace(report.analysis, findings=(finding(1, "A", Severity.ERROR, long),)))
    assert long in told._repr_html_()
    assert long in repr(told)


def test_other_operators_are_another_condition() -> None:
    assert differing_words("guard h == 2*(h // 2) breaks h", "guard h // 8 != 1 breaks h") is None
    assert differing_words("h % 8 == 0 breaks h", "w % 8 == 0 breaks w") == ["w"]
    assert differing_words("needs a == b", "needs a != b") is None


def test_what_stands_above_is_not_said_again_in_a_card() -> None:
    """The source line is no evidence below its own source, and a place that findings share stands once."""
    line, fact = Evidence(FRAME.code, str(FRAME)), Evidence("h = 137 breaks it", "tried")
    pair = [
        finding(at, "GRD301", Severity.ERROR, GUARD.format(name), evidence=(line, fact))
        for at, name in ((1, "h"), (2, "w"))
    ]
    (view,) = finding_views(tuple(pair))
    assert view["source"] is not None
    assert [each["fact"] for each in view["evidence"]] == ["h = 137 breaks it"]
    assert len(view["places"]) == 1
