"""The partition in every format: the strip, the engines, what stays with PyTorch, and what that costs."""

from __future__ import annotations

import json
import re
from functools import cache
from html import unescape
from io import StringIO

import jsonschema
import pytest
import torch
from rich.console import Console
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export

import trtdiag
from trtdiag.partition.facts import Cause
from trtdiag.report.drawing.segments import MOST_SEGMENTS, MOST_STEPS
from trtdiag.report.json_report import SCHEMA_PATH
from trtdiag.report.report import Report
from trtdiag.report.terminal import summary


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(5, 5)
        self.second = nn.Linear(5, 5)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.second(torch.relu(self.first(x)) * 2) + 1)


class Chain(nn.Module):
    """Blocks with cummax between, which no layer does."""

    def __init__(self, blocks: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(blocks))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks[:-1]:
            x = torch.cummax(block(x), 1).values
        return self.blocks[-1](x)


@cache
def exported_chain(blocks: int) -> ExportedProgram:
    shapes = {"x": {0: Dim("rows", min=1, max=13)}}
    return export(Chain(blocks), (torch.randn(3, 5),), dynamic_shapes=shapes)


def report_of(blocks: int, **options: object) -> Report:
    return trtdiag.analyze(exported_chain(blocks), **options)


@pytest.fixture(scope="module")
def three() -> Report:
    return report_of(3, keep_in_torch=["blocks.1.first"])


def section(report: Report, name: str = "partition") -> str:
    page = report.to_html()
    found = re.search(rf'<section id="{name}".*?</section>', page, re.DOTALL)
    assert found is not None
    return unescape(found[0])


def words(html: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


def test_the_strip_has_every_step_in_order(three: Report) -> None:
    html = section(three)
    strip = html[html.index('<figure class="strip">') :]
    strip = strip[: strip.index("</figure>")]
    labels = re.findall(r'<a class="box (\w+)" href="#step=\d+">.*?<text [^>]*>([^:<]+)', strip)
    facts = three.analysis.partition
    assert facts is not None
    assert labels == [
        ("torch", "PyTorch") if step.segment is None else ("engine", f"engine {step.segment}")
        for step in facts.partitioned.steps
    ]
    assert len(re.findall(r'class="edge"', strip)) == len(labels) - 1


def test_every_op_left_is_told_with_its_reason_and_line(three: Report) -> None:
    text = words(section(three, "splits"))
    facts = three.analysis.partition
    assert facts is not None
    assert {f.op for f in facts.partitioned.fallback if f.cause is Cause.KEPT} == {"aten.linear.default"}
    assert re.search(r"aten.linear.default 1 .* kept by you kept-in-torch blocks.1.first at", text)
    assert re.search(r"aten.cummax.default OPS501-1 2 3 → 2 .* has no converter for TensorRT no-converter", text)
    assert "test_report_partition.py:" in text


def test_each_engine_shows_what_crosses_and_leads_to_its_graph(three: Report) -> None:
    html = section(three)
    facts = three.analysis.partition
    assert facts is not None
    engines = re.findall(
        r'<details class="segment">.*?</details>\s*(?=<details class="segment">|<h3|</section|<p)', html, re.DOTALL
    )
    assert len(engines) == len(facts.partitioned.segments)
    first = words(engines[0])
    # 4 bytes and 5 columns: one row, the example's three, thirteen.
    assert re.search(r"in x f32\[x\.shape\[0\], 5\] float32 20 B 60 B 260 B", first)
    assert [f'href="#engine={at}"' in engine for at, engine in enumerate(engines)] == [True] * len(engines)


def test_ranking_and_json_agree(three: Report) -> None:
    body = json.loads(three.to_json())
    jsonschema.Draft202012Validator(json.loads(SCHEMA_PATH.read_text())).validate(body)
    costs = {cost["op"]: (cost["engines_before"], cost["engines_after"]) for cost in body["partition"]["costs"]}
    before, after = costs["aten.cummax.default"]
    assert f"2 {before} → {after}" in words(section(three, "splits"))
    assert f"With aten.cummax.default in engines, {before} engines would become {after}," in words(three.to_html())
    assert len(body["partition"]["segments"]) == before
    inside = sum(len(segment["ops"]) for segment in body["partition"]["segments"])
    left = sum(entry["computes"] for entry in body["partition"]["left_to_pytorch"])
    line = f"{inside} of {inside + left} ops in {before} engines, {left} stay in PyTorch"
    assert line in repr(three)
    assert line in three._repr_html_()
    written = StringIO()
    Console(width=120, file=written).print(summary(three.analysis, width=120))
    assert line in " ".join(written.getvalue().split())


@pytest.mark.slow  # quick: tests/report/test_similar_findings.py folds what is alike
def test_a_shattered_program_is_folded_and_says_so() -> None:
    report = report_of(MOST_STEPS // 2 + 2)
    html = section(report)
    assert f"The first {MOST_STEPS} of" in html
    assert html.count('<details class="segment">') == MOST_SEGMENTS
    assert f"{MOST_STEPS // 2 + 2 - MOST_SEGMENTS} more engines: see the JSON report" in html


def test_types_that_differ_in_engines_are_listed() -> None:
    class Index(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(x * 2) + torch.arange(x.shape[0])[:, None]

    shapes = {"x": {0: Dim("rows", min=1, max=13)}}
    program = export(Index(), (torch.randn(3, 5),), dynamic_shapes=shapes)
    assert "arange inner int64 int32" in words(section(trtdiag.analyze(program, target="8.6"), "types"))
    assert "Types in engines" not in section(trtdiag.analyze(program, target="11.4"), "types")


def test_names_cannot_break_out_of_the_section() -> None:
    report = report_of(2, keep_in_torch=["<script>alert(1)</script>"])
    assert "<script>alert(1)" not in report.to_html()
