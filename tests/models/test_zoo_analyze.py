"""Real architectures from end to end: a report for each, and no ERROR that a person could not explain."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import pytest

from tests.models import zoo
from tests.models.expected_findings import ERRORS, REFUSED
from tests.models.library import needs_library
from trtdiag.pipeline.analyze import analyze
from trtdiag.report.report import Report

# In every test run, which has a U-Net in tests/examples: a CNN, a point cloud, and, where their libraries are, a
# decoder and a CNN of timm.
QUICK = ("tcn", "pointnet", "llm_gpt2_12l", "timm_efficientnet_b0")


def parameters() -> list[Any]:
    """Every model; all but QUICK are slow."""
    return [
        pytest.param(name, marks=[pytest.mark.zoo] if name in QUICK else [pytest.mark.zoo, pytest.mark.slow])
        for name in zoo.ZOO
    ]


@lru_cache(maxsize=1)
def report_of(name: str) -> Report:
    with needs_library(name):
        asked = zoo.build(name)
    return analyze(asked)


@pytest.mark.parametrize("name", parameters())
def test_model_gets_a_report(name: str) -> None:
    report = report_of(name)
    failure = report.analysis.program.failure
    rules = {finding.rule for finding in report.findings}

    assert (failure is not None) == (name in REFUSED)
    assert ("ART802" in rules) == (name in REFUSED)
    if name in REFUSED:
        assert failure is not None
        assert REFUSED[name] in failure.message
    assert {finding.rule for finding in report.errors} - {"ART802"} == set(ERRORS.get(name, {}))
    assert all(stage.state == "ok" for stage in report.analysis.stages if failure is None)

    assert json.loads(report.to_json())["findings"] is not None
    assert json.loads(report.to_sarif())["version"] == "2.1.0"
    assert report.to_html().rstrip().endswith("</html>")


def test_expectations_name_models_that_exist() -> None:
    assert set(REFUSED) | set(ERRORS) <= set(zoo.ZOO)
    assert set(QUICK) <= set(zoo.ZOO)
