"""``analyze`` and ``fix_dims`` declare the same sizes; what only an export shows, ``analyze`` does not call proven."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

import trtdiag
from tests.guards import cases
from tests.guards.fix_exceptions import TOO_SLOW
from tests.models.library import live_cases, needs_library
from trtdiag.dims.compare_plans import sharing, values_of
from trtdiag.dims.plan import Plan
from trtdiag.dims.suggestion import asked_of
from trtdiag.fixdims.fix import Fix, Outcome
from trtdiag.report.report import Report

# What torch is left to work out, and what the program then refuses at the ends of its ranges.
QUICK = ("strided_pair",)


def sizes(plan: Plan) -> tuple[dict[str, str], set[frozenset[str]]]:
    """What a plan admits at each dim, and which dims are one: a Dim and a hint of the same range admit the same."""
    admitted = {site: str(values_of(leaf, plan)) for site, leaf in plan.leaves.items()}
    return admitted, {sites for sites in sharing(plan) if len(sites) > 1}


DETECTORS = [name for name, case in cases.CASES.items() if case.family == "detectors"]


def check_one_answer(report: Report, fix: Fix) -> None:
    declaration = report.analysis.dims.declaration
    plan = asked_of(report.analysis.program).plan if declaration is None else declaration.plan
    proven = declaration is not None and declaration.proof.proven
    if fix.plan.sizes:  # the answer is about another example, with which the program is another
        return
    if fix.outcome is Outcome.IMPOSSIBLE:
        assert not proven
    elif sizes(plan) == sizes(fix.plan):
        assert not proven or fix.proven
    else:  # an export with the new dims, or a run of it, has shown more
        assert fix.confirmation.rounds > 1
        assert not proven
        assert all("fix-dims" in finding.fix.title for finding in report.findings if _declares(finding))


def _declares(finding: Any) -> bool:
    return finding.rule == "GRD301" and finding.fix is not None and "dynamic_shapes = " in finding.fix.code


@pytest.mark.parametrize("name", live_cases(QUICK))
@pytest.mark.slow  # quick: live cases in test_live_cases.py, texts in tests/fixdims/test_from_text_exports.py
def test_live_case(name: str) -> None:
    if name in TOO_SLOW:
        pytest.skip(f"no answer to compare: {TOO_SLOW[name]}")
    with needs_library(name):
        made = cases.build(name)
    module, args, kwargs, dynamic_shapes = made
    check_one_answer(trtdiag.analyze(made), trtdiag.fix_dims(module, args, kwargs, dynamic_shapes=dynamic_shapes))


class Fours(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.flatten(1).reshape(x.shape[0], -1, 4).sum(-1)


def fours() -> tuple[Any, ...]:
    dims = {1: Dim("h", min=2, max=61), 2: Dim("w", min=2, max=64)}
    return Fours(), (torch.randn(2, 7, 12),), {}, {"x": dims}


@pytest.mark.slow  # the quick run has a sum and a pair in test_live_case
def test_a_product_of_two_sizes_gets_the_fix_that_fix_dims_gives() -> None:
    report = trtdiag.analyze(fours())
    (finding,) = [finding for finding in report.findings if finding.rule == "GRD301"]
    assert finding.fix is not None
    assert finding.fix.code + "\n" == trtdiag.fix_dims(fours()).code
    assert "w = 4 * _w" in finding.fix.code
    assert finding.fix.title == "declare x.shape[2] as 4*_w (w % 4 == 0: keeps 16 of 63 values)"
    (row,) = [row for row in report.analysis.dims.rows if row.suggested]
    assert (row.site, row.suggested) == ("x.shape[2]", "4*_w")


def test_sizes_that_the_program_refuses_are_not_proposed() -> None:
    report = trtdiag.analyze(cases.build("iss172561_sum_const"))
    declaration = report.analysis.dims.declaration
    assert declaration is not None
    assert declaration.refused.startswith("x_dim = 1, y_dim = 31: ")
    assert not declaration.proof.proven
    assert not any(suggestion.proof.proven for suggestion in report.analysis.dims.suggestions)
    assert not any("dynamic_shapes = " in f.fix.code for f in report.findings if f.fix is not None)


@pytest.mark.slow  # the quick run has a file in test_fix_dims_sources.py, and live programs above
def test_a_saved_program_gets_the_same_answer_from_both(tmp_path: Path) -> None:
    module, args, _, dynamic_shapes = fours()
    path = tmp_path / "fours.pt2"
    torch.export.save(torch.export.export(module, args, dynamic_shapes=dynamic_shapes), path)
    report, fix = trtdiag.analyze(path), trtdiag.fix_dims(str(path))
    declaration = report.analysis.dims.declaration
    assert declaration is not None
    assert sizes(declaration.plan) == sizes(fix.plan)
    assert declaration.proof.proven
    assert declaration.points > 1
    assert not declaration.refused


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) for name in DETECTORS])
def test_a_detector_runs_at_the_least_and_the_greatest_sizes_that_either_command_declares(name: str) -> None:
    made = module, args, kwargs, dynamic_shapes = cases.build(name)
    report = trtdiag.analyze(made)
    code = next(
        f.fix.code for f in report.findings if f.fix is not None and _declares(f) and "not proven" not in f.fix.title
    )
    names: dict[str, Any] = {}
    exec(code, names)  # what a user would paste
    fix = trtdiag.fix_dims(module, args, kwargs, dynamic_shapes=dynamic_shapes)
    assert fix.proven
    for declared in (names["dynamic_shapes"], fix.dynamic_shapes):
        program = torch.export.export(module, args, dynamic_shapes=declared, strict=False).module()
        ((height, width),) = ((dims[2], dims[3]) for dims in declared)
        for sizes in ((1, height.min, width.min), (2, height.min, width.max), (1, height.max, width.max)):
            batch, *picture = sizes
            program(torch.randn(batch, 3, *picture))
