"""The table of layers in a real browser: closed at first, sorted by its heads, inside the page."""

from __future__ import annotations

from dataclasses import replace

import pytest
from chromium import drive, needs_browser, open_page

from tests.compiling.programs import exported_mlp
from trtdiag.engine.built_layers import LayerInfo, LayerTensor
from trtdiag.graph.source import Frame
from trtdiag.network.network import Origin
from trtdiag.options import CompileOptions
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.report.report import Report
from trtdiag.runtime.engine_layers import ToldLayers

pytestmark = needs_browser

SORT = """
const table = document.querySelector("table.sortable");
const before = document.querySelector("details.layers").open;
document.querySelector("details.layers").open = true;
const column = (index) => [...table.tBodies[0].rows].map((row) => row.cells[index].textContent.trim());
const seen = [column(0)];
const press = (name) => {
  const head = [...table.tHead.rows[0].cells].find((cell) => cell.textContent === name);
  head.querySelector("button").click();
  seen.push(column(0), [head.getAttribute("aria-sort")]);
};
for (const name of ["#", "#", "ms", "ms", "precision"]) press(name);
const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
return { before, seen, wide, heads: table.querySelectorAll("[aria-sort]").length };
"""


@pytest.fixture(scope="module")
def report() -> Report:
    found = compile_in_stages(exported_mlp(), CompileOptions("11.4", "reference")).report
    times = (1.5, 1200.0, 0.25, 30.0)
    dtypes = ("int32", "float32", "float16", "bool")
    ops = (Origin("aten.relu.default", "relu", Frame("model.py", 7, "forward", "y = torch.relu(x)")),) * 5
    layers = tuple(
        LayerInfo(f"{'relu/Activation + ' * 9}{index}", "kind", ops, True, (), (LayerTensor("y", dtype, "", (2,)),),
                  "sm90_" * 20, time)
        for index, (time, dtype) in enumerate(zip(times, dtypes, strict=True))
    )  # fmt: skip
    facts = found.analysis.compilation
    assert facts is not None
    facts = replace(facts, engines=(replace(facts.engines[0], built=ToldLayers(layers)),))
    return replace(found, analysis=replace(found.analysis, compilation=facts))


def test_heads_sort_the_table(report: Report) -> None:
    assert open_page(report.to_html()).console == ()
    found = drive(report.to_html(), SORT)
    assert found["before"] is False
    assert found["seen"] == [
        ["1", "3", "0", "2"],  # by time
        ["0", "1", "2", "3"],
        ["ascending"],
        ["3", "2", "1", "0"],
        ["descending"],
        ["1", "3", "0", "2"],
        ["descending"],
        ["2", "0", "3", "1"],
        ["ascending"],
        ["3", "2", "1", "0"],
        ["ascending"],
    ]
    assert found["heads"] == 1
    assert found["wide"] <= 0
