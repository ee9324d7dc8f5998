"""The errors of programs that are not compiled: their findings, or what torch refuses of the sizes asked for."""

from __future__ import annotations

from collections import Counter

from torch.export import ExportedProgram

from trtdiag.analysis.finding import Finding, Severity
from trtdiag.errors import DiagnosisError, InternalError, PlatformError, TrtdiagError, UserError
from trtdiag.fixdims.fix import Fix, Outcome
from trtdiag.fixdims.interrupted_exports import FAILS_ITSELF
from trtdiag.fixdims.run import fix_dims
from trtdiag.frontend.module_inputs import ModuleInputs
from trtdiag.options import CompileOptions
from trtdiag.report.fix_words import fix_verdict
from trtdiag.report.report import Report
from trtdiag.wording import amount, one_line

MOST_NAMED = 5
"""Findings that an error names; the report has all."""
_MOST_CHANGES = 5
_LONGEST_CHARS = 200


def refuse_errors(report: Report, *, force: bool) -> None:
    """Nothing, where a program may be compiled.

    Args:
        report: What its diagnosis found.
        force: Whether it is compiled in spite of ERROR findings.

    Raises:
        DiagnosisError: ``errors-found``.
    """
    found: list[Finding] = [finding for finding in report.findings if finding.severity is Severity.ERROR]
    if not found or force:
        return
    counts = Counter((finding.rule, finding.title) for finding in found)
    named = list(counts.items())[:MOST_NAMED]
    told = "; ".join(
        f"{rule}{f' x{count:,}' if count > 1 else ''}: {title.rstrip('.')}" for (rule, title), count in named
    )
    rest = len(found) - sum(count for _, count in named)
    more = f"; and {rest} more" if rest else ""
    error = DiagnosisError(
        f"the program has {len(found)} finding{'s' * (len(found) != 1)} of severity ERROR",
        because=told + more,
        fix="mend them (`trtdiag explain` says how, `trtdiag fix-dims` corrects dims), or go on with --force",
        reference="errors-found",
    )
    error.report = report
    raise error


def without_graph(report: Report) -> TrtdiagError:
    """The error for a program without a graph."""
    failure = report.analysis.program.failure
    if failure is None:
        return InternalError(
            "there is no graph to compile",
            because="the program has none, and no failure was noted",
            fix="please report this with the program",
            reference="compile-without-graph",
        )
    lines = failure.message.strip().splitlines() or [failure.error_type]
    error = DiagnosisError(
        "there is no program to compile",
        because=f"torch.export refuses it: {lines[0]}",
        fix="mend the export first; trtdiag analyze says where, trtdiag fix-dims corrects dims",
        reference="compile-without-graph",
    )
    error.report = report
    return error


def refuse_without_weights(exported: ExportedProgram) -> None:
    """Nothing, where some weight has values: of a program on several devices ``refuse_on_other_devices`` tells.

    Raises:
        UserError: ``program-without-weights``.
    """
    empty = [name for name, weight in exported.state_dict.items() if weight.is_meta]
    if empty and len(empty) == len(exported.state_dict):
        raise UserError(
            "a program without weights cannot be compiled",
            because=f"{amount(len(empty), 'weight')} of it are on the meta device, for example {empty[0]}",
            fix="give the model with its weights; analyze and fix-dims need none",
            reference="program-without-weights",
        )


def with_proposal(error: DiagnosisError, asked: ModuleInputs) -> DiagnosisError:
    """The error of a compilation, with what fix-dims proposes where it was the export that failed.

    Args:
        error: Why the module is not compiled.
        asked: The module with the sizes that were asked for.
    """
    report = error.report
    if not isinstance(report, Report) or report.analysis.program.failure is None:
        return error
    recipe = asked.recipe()
    try:
        fix = fix_dims(recipe.module, recipe.args, recipe.kwargs or None, dynamic_shapes=recipe.dynamic_shapes)
    except TrtdiagError:  # what torch said of the export is the error, not why nothing better is known
        return error
    made = DiagnosisError(
        f"torch.export refuses {type(asked.module).__name__} with these inputs",
        because=one_line(report.verdict, _LONGEST_CHARS),
        fix=_proposal(fix),
        reference="inputs-refused",
    )
    made.report = report
    return made


def _proposal(fix: Fix) -> str:
    verdict = one_line(fix_verdict(fix).text, _LONGEST_CHARS)
    itself = next((note for note in fix.notes if note.startswith(FAILS_ITSELF)), None)
    if itself is not None:
        return f"give other inputs, or change the model: {one_line(itself, _LONGEST_CHARS)}"
    if fix.outcome is not Outcome.CHANGED:
        return f"change the model or the sizes; fix-dims says: {verdict}"
    changes = [f"{change.before} -> {change.after}" for change in fix.changes]  # both begin with the dim's name
    more = [f"{len(changes) - _MOST_CHANGES} more"] if len(changes) > _MOST_CHANGES else []
    told = "; ".join(one_line(change, _LONGEST_CHARS) for change in (*changes[:_MOST_CHANGES], *more))
    how = "fix = trtdiag.fix_dims(module, inputs=inputs), then trtdiag.compile(fix.program)"
    return f"fix-dims proposes {told}; to take that: {how}"


def nothing_to_time(why: str) -> PlatformError:
    """The error where the fastest way is asked for and nothing runs here.

    Args:
        why: Why engines cannot run here, in words.
    """
    return PlatformError(
        "optimize='latency' cannot choose the fastest way here",
        because=f"it times engines, and they do not run: {why}",
        fix="compile on the machine that is going to run the program, or without optimize",
        reference="optimize-elsewhere",
    )


def refuse_other_weights(options: CompileOptions) -> None:
    """Pass options that do not ask for engines of other weights and for code that has none to give.

    Raises:
        UserError: ``wrong-option``.
    """
    if options.refittable or options.engine_weights != "inside":
        raise UserError(
            "optimize='latency' and engines that take other weights do not go together",
            because="code of AOTInductor keeps the weights that it was compiled with",
            fix="leave out one of them: optimize, or refittable and engine_weights",
            reference="wrong-option",
        )
