"""The report as Markdown: what a reviewer needs, nothing in it is markup that a name brought along."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from sample_analysis import HOSTILE_NAMES, analysis, clean_analysis, finding, program
from test_report_partition import report_of

from trtdiag.analysis.finding import Applicability, Evidence, Fix, Place, Severity
from trtdiag.frontend.program import ExportFailure
from trtdiag.graph.source import Frame
from trtdiag.report.report import Report


def test_it_says_verdict_findings_fixes_and_what_was_not_checked() -> None:
    text = Report(analysis()).to_markdown()
    assert text.startswith("### ❌ dtypes failed: 1 error, 2 warnings, 1 note\n")
    for part in (
        "First cause: **GRD301-1** a guard breaks the declared range of h: h = 136 works, h = 137 fails, at",
        "\nWhat to do: Declare h as a multiple of 8\n",
        "`~/model.py:41` in encoder.layers.\\* (32 times)",
        '```python\n_h = Dim("_h", min=17, max=270)\nh = 8 * _h\n```',
        "- dtypes failed: no such target",
        "- values of user inputs: int64 indices may lie outside their tables",
        "trtdiag analyze model.pt2 --target 8.6",
    ):
        assert part in text, part
    assert [line.count("GRD301-1") for line in text.splitlines() if line.startswith("| ")].count(1) == 1


def test_it_names_what_splits_the_engines() -> None:
    report = report_of(3)
    text = report.to_markdown()
    assert "- With aten.cummax.default in engines, 3 engines would become 1, with " in text
    assert re.search(r"^\| `aten.cummax.default` \| 2 \| 3 → 1 \|", text, re.MULTILINE)


def test_tables_stand_by_themselves() -> None:
    lines = Report(analysis()).to_markdown().splitlines()
    first = [at for at, line in enumerate(lines) if line.startswith("|---")]
    assert first
    # Right behind a list a table would be text of the list's last entry.
    assert [lines[at - 2] for at in first] == [""] * len(first)


def test_an_option_is_no_python() -> None:
    fix = Fix("make smaller engines", Applicability.SAFE, "--min-segment-ops 1")
    found = finding(1, "PRT602", Severity.INFO, "2 ops are in too small a group", fix=fix)
    text = Report(clean_analysis(findings=(found,))).to_markdown()
    assert "```\n--min-segment-ops 1\n```" in text


def test_it_claims_nothing_without_findings() -> None:
    text = Report(clean_analysis()).to_markdown()
    assert "No findings. This covers only what was checked." in text


def test_a_refused_export_is_told() -> None:
    failure = ExportFailure("UserError", "Constraints violated (h)!", None)
    text = Report(clean_analysis(program=program(failure=failure))).to_markdown()
    assert "torch.export refused the program as asked, with UserError. There is no graph." in text


def test_hundreds_of_findings_fit_into_a_comment() -> None:
    many = tuple(finding(at, f"A{at}", Severity.ERROR, f"message {at} " * 40) for at in range(1, 501))
    text = Report(analysis(findings=many)).to_markdown()
    assert "and 475 more" in text
    alike = tuple(finding(at, "A", Severity.ERROR, f"message {at} " * 40) for at in range(1, 501))
    assert "**A-1** x500 |" in Report(analysis(findings=alike)).to_markdown().replace("\\", "")
    assert len(text) < 65_536  # the most that a comment on GitHub holds


def test_lines_are_those_of_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    place = Place("n", "n", Frame(f"{tmp_path}/pack/net.py", 7), None)
    made = finding(1, "A", Severity.ERROR, f"made at {tmp_path}/pack/net.py:7", places=(place,))
    text = Report(analysis(findings=(made,))).to_markdown()
    assert str(tmp_path) not in text.replace("\\", "")
    assert "`pack/net.py:7`" in text


@pytest.mark.parametrize(
    "name", [*HOSTILE_NAMES, "@everyone", "```\n# heading", "| a | b |", "[x](http://a.example)", "<details>"]
)
def test_names_bring_no_markup(name: str) -> None:
    hostile = finding(
        1,
        "MET101",
        Severity.ERROR,
        name,
        evidence=(Evidence(name, name),),
        places=(Place(name, name, Frame(name, 1, name, name), name), Place(name, name, None, None)),
        fix=Fix(name, Applicability.SAFE, name),
    )
    made = analysis(findings=(hostile,), not_checked=(name,), program=program(label=name))
    text = Report(made).to_markdown()
    text.encode("utf-8")
    assert not set(text) & {"\x1b", "\x07", "\x00", "\u202e"}
    outside = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    outside = re.sub(r"(?<!\\)`[^`\n]*`", "", outside)
    assert not re.search(r"(?<!\\)<(?!/?(details|summary)>)", outside)
    assert not re.search(r"(?<!\\)[@\[]", outside)
    rows = [line for line in outside.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {5}
    assert len(re.findall(r"^<details>", outside, re.MULTILINE)) == 3
