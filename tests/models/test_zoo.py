"""Real architectures from end to end, each exported once.

A report for each, and no ERROR that a person could not explain; engines that agree at the corners of their ranges, and
no converter that writes nonsense; networks that every version of TensorRT has the layers for.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace
from functools import cached_property
from typing import Any

import pytest

from tests.engine.tensorrt_backend.written import write
from tests.models import zoo
from tests.models.expected_findings import ERRORS, REFUSED
from tests.models.library import needs_library
from trtdiag.options import CompileOptions
from trtdiag.pipeline.analyze import analyze
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.pipeline.plan_engines import convert_segments, plan_engines
from trtdiag.report.report import Report
from trtdiag.targets import TARGETS, get_target
from trtdiag.verification.limits import VerifyLimits

# In every test run, which has a U-Net in tests/examples: a CNN, a point cloud, and, where their libraries are, a
# decoder and a CNN of timm.
ANALYZED = ("tcn", "pointnet", "llm_gpt2_12l", "timm_efficientnet_b0")
COMPILED = ("tcn", "llm_gpt2_12l")
WRITTEN = ("tcn",)

# Models that are not one engine whole, with what stays in PyTorch: sizes or numbers that data decides, random ops,
# rotary angles in float64 while truncate_double is off, and
# convolutions of 2^31 elements at the maximum.
LEFT: dict[str, frozenset[str]] = {
    "flux_dit": frozenset({"double-precision"}),
    "rrdbnet": frozenset({"too-many-elements"}),
    "sampler_top_p": frozenset({"random"}),
}
# A point of a quick run: the original alone takes less than this.  What is skipped is told, not passed.
LIMITS = VerifyLimits(seconds=3.0, elements=1 << 29, total_s=0)
LARGE = {"mask2former_swin_t": 1 << 30}
"""Models of which the example has more elements, 634 million here."""


class Model:
    """A model of the zoo with what was found out about it, by the first test that asks."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.asked = zoo.build(name)

    @cached_property
    def report(self) -> Report:
        return analyze(self.asked)


@pytest.fixture(scope="module")
def model(request: pytest.FixtureRequest) -> Model:
    """With this scope pytest runs all tests of a model one after the other, then lets go of it."""
    with needs_library(request.param):
        return Model(request.param)


def models(quick: Collection[str], left_out: Collection[str] = ()) -> list[Any]:
    """Every model but some; all but ``quick`` are slow."""
    marks = {True: [pytest.mark.zoo], False: [pytest.mark.zoo, pytest.mark.slow]}
    return [pytest.param(name, marks=marks[name in quick]) for name in zoo.ZOO if name not in left_out]


@pytest.mark.parametrize("model", models(ANALYZED), indirect=True)
def test_model_gets_a_report(model: Model) -> None:
    name, report = model.name, model.report
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


@pytest.mark.parametrize("model", models(COMPILED, REFUSED), indirect=True)
def test_a_model_compiles_and_agrees(model: Model) -> None:
    name, program = model.name, model.report.analysis.program.exported
    # Some have ERROR findings, for sizes that they were asked to take and refuse: expected_findings.ERRORS.
    limits = replace(LIMITS, elements=LARGE.get(name, LIMITS.elements))
    assert program is not None
    found = compile_in_stages(program, CompileOptions(backend="reference", target="11.4", force=True), limits=limits)

    codes = {entry.limit.code for entry in found.plan.partitioned.fallback if entry.computes}
    assert codes - {"segment-too-small"} == LEFT.get(name, frozenset())
    assert found.verification is not None
    wrong = [result for result in found.verification.results if not result.passed and not result.skipped]
    assert not wrong
    assert found.verification.results[0].passed, found.verification.results[0].skipped  # the example
    if name not in LEFT:
        assert len(found.engines) == 1


# Quick: the version that differs most.
VERSIONS = [pytest.param(each.version, marks=[] if each.version == "8.6" else [pytest.mark.slow]) for each in TARGETS]


# A decorator each: of a table of both, pytest would take every row for a model of its own and export it again.
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("model", models(WRITTEN, REFUSED), indirect=True)
def test_the_networks_of_a_model_are_written(model: Model, version: str) -> None:
    """An EngineBuildError is a layer that cannot be written for the version."""
    facts = model.report.analysis
    assert facts.checked is not None
    options = CompileOptions(version, "reference")
    plan = plan_engines(facts.program, facts.checked, facts.dims, get_target(version), options)
    _, converted = convert_segments(plan)
    assert sum(len(write(one.network, version)[1].layers) for one in converted) > 0


def test_expectations_name_models_that_exist() -> None:
    assert set(REFUSED) | set(ERRORS) <= set(zoo.ZOO)
    assert set(ANALYZED) <= set(zoo.ZOO)
