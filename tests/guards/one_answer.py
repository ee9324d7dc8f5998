"""Whether ``analyze`` and ``fix_dims`` declare the same sizes."""

from __future__ import annotations

from trtdiag.analysis.finding import Finding
from trtdiag.dims.compare_plans import sharing, values_of
from trtdiag.dims.plan import Plan
from trtdiag.dims.suggestion import asked_of
from trtdiag.fixdims.fix import Fix, Outcome
from trtdiag.report.report import Report


def sizes(plan: Plan) -> tuple[dict[str, str], set[frozenset[str]]]:
    """What a plan admits at each dim, and which dims are one: a Dim and a hint of the same range admit the same."""
    admitted = {site: str(values_of(leaf, plan)) for site, leaf in plan.leaves.items()}
    return admitted, {sites for sites in sharing(plan) if len(sites) > 1}


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
        assert all("fix-dims" in finding.fix.title for finding in report.findings if declares(finding))


def declares(finding: Finding) -> bool:
    return finding.rule == "GRD301" and finding.fix is not None and "dynamic_shapes = " in finding.fix.code
