"""The layers of built engines on the page and in JSON."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape

import jsonschema
import pytest
from sample_analysis import FRAME, HOSTILE_NAMES

from tests.compiling.programs import exported_mlp
from trtdiag.engine.built_layers import LayerInfo, LayerTensor
from trtdiag.network.network import Origin
from trtdiag.options import CompileOptions
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.report.json_report import SCHEMA_PATH
from trtdiag.report.report import Report
from trtdiag.report.shown_paths import place
from trtdiag.report.view_engine_layers import MOST_ROWS
from trtdiag.runtime.engine_layers import ToldLayers

HALF = LayerTensor("a", "float16", "Channel major FP16 format", (4, 7))
FLOAT = LayerTensor("b", "float32", "Row major linear FP32", (-1, 7))


def origin(node: str) -> Origin:
    return Origin(f"aten.{node}.default", node, FRAME)


def layers() -> tuple[LayerInfo, ...]:
    fused = (origin("linear"), origin("relu"))
    several = tuple(map(origin, ("view", "linear_1", "mul", "add", "sub")))
    moving = "Reformatting CopyNode for Input Tensor 0 to linear"
    product, myelin = "linear/MatrixMultiply + relu/Activation", "{ForeignNode[view/Shuffle...mul/ElementWise]}"
    return (
        LayerInfo(moving, "Reformat", (), True, (FLOAT,), (HALF,), "", 0.5),
        LayerInfo(product, "gemm", fused, True, (HALF,), (HALF,), "sm90_xmma_gemm", 2.25),
        LayerInfo(myelin, "Myelin", several, False, (HALF,), (FLOAT,), "0x3e8", 1.25),
    )


@pytest.fixture(scope="module")
def plain() -> Report:
    return compile_in_stages(exported_mlp(), CompileOptions("11.4", "reference")).report


def having(report: Report, told: ToldLayers) -> Report:
    facts = report.analysis.compilation
    assert facts is not None
    facts = replace(facts, engines=tuple(replace(engine, built=told) for engine in facts.engines))
    return replace(report, analysis=replace(report.analysis, compilation=facts))


def section(report: Report) -> str:
    found = re.search(r'<section id="compiled".*?</section>', report.to_html(), re.DOTALL)
    assert found is not None
    return found[0]


def words(html: str) -> str:
    return unescape(" ".join(re.sub(r"<[^>]*>", " ", html).split()))


def rows(html: str) -> list[list[str]]:
    (table,) = re.findall(r'<table class="sortable">(.*?)</table>', html, re.DOTALL)
    lines = re.findall(r"<tr.*?</tr>", table, re.DOTALL)
    return [[words(cell) for cell in re.findall(r"<t[dh].*?</t[dh]>", line, re.DOTALL)] for line in lines]


def told(report: Report) -> dict[str, object]:
    body = json.loads(report.to_json())
    jsonschema.Draft202012Validator(json.loads(SCHEMA_PATH.read_text())).validate(body)
    found: dict[str, object] = body["compiled"]["engines"][0]["built"]
    return found


def test_what_takes_longest_stands_first_with_its_ops_and_lines(plain: Report) -> None:
    html = section(having(plain, ToldLayers(layers())))
    heads, *table = rows(html)
    assert heads == ["#", "ms", "share", "ops", "module", "line", "precision", "layer"]
    assert [(row[0], row[1], row[2]) for row in table] == [
        ("1", "2.250", "56.2%"),
        ("2", "1.250", "31.2%"),
        ("0", "0.5000", "12.5%"),
    ]
    product, derived, moving = table
    assert product[3:7] == ["linear, relu", "first", f"model.py:{FRAME.line}", "float16"]
    assert f"linear aten.linear.default in first {place(FRAME)} relu aten.relu.default {place(FRAME)}" in product[7]
    assert product[7].startswith("gemm 2 ops ")
    assert "linear/MatrixMultiply + relu/Activation" in product[7]
    assert "tactic sm90_xmma_gemm" in product[7]
    assert f'title="{FRAME}"' in html
    assert derived[3] == "view, linear_1, mul, add, sub"
    assert "5 ops, derived" in derived[7]
    assert "The engine does not name all of them" in derived[7]
    assert moving[3:7] == ["none", "", "", "float32 → float16"]
    assert html.count("does not name all of them") == 1
    text = words(html)
    assert "Layers as built: 3 layers, 4.000 ms" in text
    assert "2 layers fused from several ops, 1 layer without an op: to move or prepare data." in text
    assert "Layers without an op take 12%." in text
    assert re.search(r'<details class="layers"><summary>', html)  # closed until one asks


def test_without_times_the_order_is_that_of_execution(plain: Report) -> None:
    untimed = tuple(replace(layer, time_ms=None) for layer in layers())
    html = section(having(plain, ToldLayers(untimed, "they could not be timed: no memory")))
    heads, *table = rows(html)
    assert heads == ["#", "ops", "module", "line", "precision", "layer"]
    assert [row[0] for row in table] == ["0", "1", "2"]
    assert "Its layers have no times: they could not be timed: no memory." in words(html)
    assert "of the time" not in words(html)


def test_json_has_all_of_it_in_the_order_of_execution(plain: Report) -> None:
    found = told(having(plain, ToldLayers(layers())))
    assert found["why"] is None
    first, second, third = found["layers"]  # type: ignore[misc]
    assert (first["ops"], first["time_ms"], first["tactic"]) == ([], 0.5, None)
    assert [op["node"] for op in second["ops"]] == ["linear", "relu"]
    assert second["ops"][0]["module_path"] == "first"
    assert second["ops"][0]["source"]["line"] == FRAME.line
    assert (second["named"], third["named"]) == (True, False)
    assert third["outputs"] == [{"name": "b", "dtype": "float32", "format": "Row major linear FP32", "shape": [-1, 7]}]
    strange = replace(layers()[0], time_ms=float("nan"))
    assert told(having(plain, ToldLayers((strange,))))["layers"][0]["time_ms"] is None  # type: ignore[index]


def test_a_backend_without_layers_says_why(plain: Report) -> None:
    assert told(plain) == {"layers": [], "why": None}
    assert "layers are not told" not in words(section(plain))
    why = "the backend 'tensorrt-rtx' tells none"
    asked = having(plain, ToldLayers(why=why))
    assert told(asked) == {"layers": [], "why": why}
    assert f"Its layers are not told: {why}." in words(section(asked))


@pytest.mark.slow  # quick: what takes longest stands first
def test_many_layers_are_cut_in_the_page_alone(plain: Report) -> None:
    many = tuple(replace(layers()[1], name=f"layer {index}", time_ms=index + 1.0) for index in range(MOST_ROWS + 7))
    report = having(plain, ToldLayers(many))
    assert len(rows(section(report))) == 1 + MOST_ROWS
    assert "7 more layers: see the JSON report" in words(section(report))
    assert len(told(report)["layers"]) == MOST_ROWS + 7  # type: ignore[arg-type]
    assert f"The slowest 5 take {sum(range(403, 408)) / sum(range(1, 408)):.0%} of the time" in words(section(report))


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_hostile_names_stay_text(name: str, plain: Report) -> None:
    tensor = LayerTensor(name, name, name, ())
    layer = LayerInfo(name, name, (Origin(name, name, FRAME),), True, (tensor,), (tensor,), name, 1.0)
    report = having(plain, ToldLayers((layer,), name))
    page = report.to_html()
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "\u202e" not in page
    told(report)
