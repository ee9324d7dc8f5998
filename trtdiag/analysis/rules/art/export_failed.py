"""ART802."""

from __future__ import annotations

from collections.abc import Iterator

from trtdiag.analysis.finding import Applicability, Evidence, Fix, Hit, Place, Severity
from trtdiag.analysis.guard_groups import conflict_cause, groups
from trtdiag.analysis.related_dims import related_dims
from trtdiag.analysis.rules import line_evidence, rule
from trtdiag.dims.facts import DimSystem, Verdict
from trtdiag.frontend.failed_export import told_of_model
from trtdiag.frontend.program import ExportFailure, Program
from trtdiag.wording import amount

# What torch.export says when dynamic_shapes and the model's guards do not agree; the last two are its solver's crashes.
_ABOUT_DIMS = ("Constraints violated", "ConstraintViolation", "Expected an equality constraint", "The inequality, ")

_MOST_LINES = 8

_CHANGE_DIMS = "change dynamic_shapes as the findings about guards and dims say; trtdiag fix-dims tries it out"
_CHANGE_LINE = "change the line that torch names, then export again; trtdiag fix-dims names the checks that it needs"
_NO_LINE = (
    "there is no line that torch names: trtdiag fix-dims tells whether the inputs, dynamic_shapes or the model are at"
    " fault"
)
_OTHER_WORDS = (
    "every guard holds for these sizes, and torch cannot see it: declare them in words that it does not compare"
)
_DEFER = Fix(
    "torch.export could not prove guards that hold: let the program check them when it runs",
    Applicability.SAFE,
    "torch.export.export(..., prefer_deferred_runtime_asserts_over_guards=True)  # torch 2.9 or later",
)


@rule("ART802", "export-failed", Severity.ERROR)
def export_failed(program: Program, dims: DimSystem) -> Iterator[Hit]:
    """torch.export refused the model with the dynamic_shapes that were asked for.

    Why:
        There is no program of what you asked for.  Where the refusal is about sizes, the model is exported
        once more without the declared ranges, so that the graph and all guards can be looked at; the
        other findings are about that graph, and the finding that this one is shown under says what to
        change.  Sometimes torch cannot prove a guard that does hold: then the export passes with the
        same sizes as Dim.DYNAMIC, or with the checks left to run time.  Where the refusal is about
        something else (an op without a fake kernel, data-dependent Python, an unsupported construct),
        torch's message is the whole diagnosis.

    Example:
        export(m, (torch.randn(1, 3, 64, 64),), dynamic_shapes={"x": {2: Dim("h", max=512)}})
        # Constraints violated (h)! ... guard (h % 8) == 0

    Fix safety:
        Manual.  The findings about guards and dims carry the corrected declaration where there is one.
        Leaving checks to run time is safe: the same inputs give the same results.

    Source:
        The exception of torch.export.export, line by line in the evidence.
    """
    failure = program.failure
    if failure is None:
        return
    roots = _roots(program, dims) if _about_dims(failure) else []
    lines = told_of_model(failure.message)
    facts = [Evidence(line, failure.error_type) for line in lines[:_MOST_LINES]]
    if len(lines) > _MOST_LINES:
        facts.append(Evidence(amount(len(lines) - _MOST_LINES, "more line"), failure.error_type))
    if not lines:
        facts.append(Evidence("no message", failure.error_type))
    facts.append(Evidence(failure.relaxed or "no graph could be obtained", "how the analysis went on"))
    facts += line_evidence(failure.stack.best)
    if not roots and _about_dims(failure) and _all_hold(dims):
        facts.append(Evidence("every guard that was read holds over the declared ranges", "the guards table"))
        fix = _DEFER if dims.declaration is None else Fix(_OTHER_WORDS, Applicability.SAFE, dims.declaration.code)
    else:
        fix = Fix(_CHANGE_DIMS if roots else _NO_LINE if failure.stack.best is None else _CHANGE_LINE)
    yield Hit(
        f"torch.export failed: {lines[0] if lines else failure.error_type}",
        tuple(facts),
        Place(frame=failure.stack.best),
        fix,
        cause="export",
        because_of=roots[0] if roots else "",
    )


def _all_hold(dims: DimSystem) -> bool:
    return bool(dims.constraints) and not dims.unparsed and all(c.verdict is Verdict.HOLDS for c in dims.constraints)


def _about_dims(failure: ExportFailure) -> bool:
    """Whether the declared dims are to blame: torch says so, or the export passed once they were relaxed."""
    return failure.relaxed is not None or any(
        mark in failure.message or mark in failure.error_type for mark in _ABOUT_DIMS
    )


def _roots(program: Program, dims: DimSystem) -> list[str]:
    """The keys of the findings that explain a refusal about sizes, the strongest first."""
    keys = [f"GRD304:{conflict_cause(conflict)}" for conflict in dims.conflicts]
    breaking = [g for g in groups(dims, Verdict.BREAKS) if not g.by_data and not g.only_at_zero]
    keys += [f"GRD301:{group.cause}" for group in breaking]
    keys += [f"GRD302:{' == '.join(tie.sites)}" for tie in dims.tied]
    keys += [f"GRD307:{related.dim.site}" for related in related_dims(program)]
    keys += [f"SYM202:{pin.site}" for pin in dims.pinned]
    return keys
