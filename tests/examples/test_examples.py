"""The examples from end to end: they say of their models what is true."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import torch

from examples import captioner, raft_like, two_linears, unet
from tests.harness.forked_runs import run_forked
from trtdiag.analysis.finding import Severity
from trtdiag.dims.facts import DimRow
from trtdiag.pipeline.analyze import analyze
from trtdiag.report.report import Report
from trtdiag.symbolic.ranges import Range

ROOT = Path(__file__).resolve().parent.parent.parent


def row(report: Report, site: str) -> DimRow:
    (found,) = (row for row in report.analysis.dims.rows if row.site == site)
    return found


def ranges_of(report: Report, op: str) -> list[list[Range]]:
    """The sizes of every output of an op in graph order."""
    shapes, exported = report.analysis.shapes, report.analysis.program.exported
    assert shapes is not None
    assert exported is not None
    nodes = [node.name for node in exported.graph.nodes if str(node.target) == op]
    return [[size.range for size in shapes.tensors[name][0].dims] for name in nodes]


def test_two_linears_have_exact_ranges_and_no_finding() -> None:
    report = analyze(two_linears.build())
    assert row(report, "x.shape[0]").range == Range(1, 10)
    assert row(report, "x.shape[1]").range == Range(0, 512)
    assert ranges_of(report, "aten.linear.default") == [
        [Range(1, 10), Range(0, 512), Range(32, 32)],
        [Range(1, 10), Range(0, 512), Range(4, 4)],
    ]
    assert ranges_of(report, "aten.flatten.using_ints") == [[Range(0, 5120), Range(4, 4)]]
    assert report.findings == ()


@lru_cache(maxsize=1)
def raft_report() -> Report:
    return analyze(raft_like.build())


@pytest.mark.slow  # 7 s; the quick run solves its guard in tests/symbolic and in test_choose_cases.py
def test_raft_like_names_counterexample_residues_and_dim() -> None:
    report = raft_report()
    heights = [height for height in range(135, 2161) if ((height - 1) // 4 - 1) % 2 == 0]

    failure = report.analysis.program.failure
    assert failure is not None
    assert "(((-1) + (((-1) + L['image1'].size()[2]) // 4)) % 2) == 0" in failure.message
    (guard,) = (c for c in report.analysis.dims.constraints if c.counterexample and "h" in c.text)
    assert guard.counterexample == {"h": 137}
    assert guard.witness == {"h": 136}
    assert guard.kept == (len(heights), 2026)
    assert guard.proof.proven
    assert row(report, "image1.shape[2]").allowed == "h % 8 in {0, 5..7}"
    assert row(report, "image1.shape[2]").suggested == "8*_h"


@pytest.mark.slow
def test_raft_like_exports_with_what_is_suggested() -> None:
    model, args, kwargs, _ = raft_like.build()
    report = raft_report()
    scope: dict[str, Any] = {"Dim": torch.export.Dim}
    for suggestion in report.analysis.dims.suggestions:
        exec("\n".join(suggestion.code), scope)
    frame = {index: eval(row(report, f"image1.shape[{index}]").suggested, scope) for index in (2, 3)}
    exported = torch.export.export(model, args, kwargs, dynamic_shapes={"image1": frame, "image2": frame})
    checked = analyze(exported)
    assert not [finding for finding in checked.findings if finding.rule.startswith("GRD")]


def pooling_asks_to_divide() -> bool:
    """Whether this torch exports the U-Net with a guard for each pooling: before 2.13 the program refuses 202."""
    module, args, kwargs, shapes = unet.build()
    program = torch.export.export(module, args, kwargs, dynamic_shapes=shapes).module()
    try:
        program(torch.rand(1, 3, 202, 202))
    except (AssertionError, RuntimeError) as error:
        assert "Guard failed" in str(error)  # noqa: PT017 - any other failure is not what is asked here
        return True
    return False


@pytest.mark.slow  # quick: two linears; what divides by poolings in tests/dims and tests/pipeline
def test_unet_is_clean_as_built_and_corrected_where_naive() -> None:
    built, naive = analyze(unet.build()), analyze(unet.naive())
    if pooling_asks_to_divide():
        # A fact of torch before 2.13: the guards are real, none of the model's, and the finding says whose they are.
        assert [finding.rule for finding in built.errors] == ["GRD301", "GRD301"]
        for finding in built.errors:
            assert any("a pooling's windows divide its input" in evidence.fact for evidence in finding.evidence)
        assert row(built, "x.shape[2]").suggested == "4*_h"
        divisor = 4
    else:
        assert built.errors == ()
        divisor = 2
    assert row(naive, "x.shape[2]").allowed == f"h % {divisor} == 0"
    assert row(naive, "x.shape[2]").suggested == f"{divisor}*_h"


@pytest.mark.slow  # 4 s; the quick run reads saved files alone in tests/pipeline/test_pipeline_seeds.py
def test_captioner_from_the_saved_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    demo = "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    done = run_forked(demo, str(ROOT / "examples" / "demo.py"), str(path), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    report = analyze(path)
    rules = {finding.rule for finding in report.findings}
    assert {"SYM201", "GRD301", "TYP402"} <= rules
    assert row(report, "image.shape[0]").range == Range(2, None)
    assert row(report, "image.shape[2]").range.max == 512  # the side of the branch that the example took
    broken = [c for c in report.analysis.dims.constraints if c.counterexample]
    assert {tuple(c.counterexample) for c in broken} >= {("image.shape[2]",), ("image.shape[3]",)}
    assert {finding.severity for finding in report.findings if finding.rule == "SYM201"} == {Severity.ERROR}


def test_captioner_runs_at_every_size_it_allows() -> None:
    model = captioner.build()[0]
    for height, width in ((16, 16), (18, 34), (512, 16)):
        image, text = torch.rand(3, 3, height, width), torch.ones(3, 128, dtype=torch.int64)
        assert model(image, text, text).shape == (3, 128, 500)
