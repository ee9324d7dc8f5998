"""GRD309."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from trtdiag.analysis.finding import Evidence, Fix, Hit, Place, Severity
from trtdiag.analysis.guard_groups import ASSERTION
from trtdiag.analysis.places import at_line, line_evidence
from trtdiag.analysis.rule import rule
from trtdiag.dims.declare import sizes_refused_by_rounding
from trtdiag.dims.facts import Constraint, DimSystem, Narrowed
from trtdiag.frontend.program import InputDim, Program, SourceKind
from trtdiag.graph.source import Frame
from trtdiag.symbolic.build import affine
from trtdiag.wording import identifier, shortened

_BRANCH = re.compile(r"\b(if|elif|while|and|or|min|max|range)\b")


@rule("GRD309", "range-narrowed-in-silence", Severity.WARNING)
def range_narrowed_in_silence(program: Program, dims: DimSystem) -> Iterator[Hit]:
    """A dim takes fewer sizes than asked for, and torch.export did not say so.

    Why:
        A named Dim that the model cannot keep is refused by torch.export.  Under Dim.AUTO and Dim.DYNAMIC
        the range is cut instead, without a word: a Python condition (`if w > 1024`) is decided by the
        example, and the program refuses every size that would take the other side.  An engine is then
        built for the part of the sizes that the example happened to lie in.  So it is with a derived Dim
        (`4*_w`), whose written range is cut.

        A largest size that an op asks for (a table of 512 positions) is told as a note: there is no other
        side to lose.  What assert and torch._check state is what the model's author wants, and is not
        reported, nor is a smallest size of a hint that an op needs.

        Sizes that are fractions of each other (5*_n beside 7*_n) an exported program compares in floats, and
        refuses some that the Dim takes, for floats are rounded.

        A saved program keeps the condition, but neither its line nor whether Python or an op asked for it;
        analyze the factory to see the line.

    Example:
        def forward(self, x):
            if x.shape[3] > 1024:            # an example of 80 caps x.shape[3] at 1024
                x = F.interpolate(x, scale_factor=0.5)

        export(m, (torch.randn(1, 3, 64, 80),), dynamic_shapes=({3: Dim.AUTO},))    # no error, 2..1024

    Fix safety:
        Manual: the model has to be written without the branch, with torch.cond, or exported once for each
        side.  A named Dim of the range that is left changes nothing but says it.

    Source:
        range_constraints and _guards_code of the program: torch writes no guard that the declared range
        implies; torch.export documentation, "Dim.AUTO".
    """
    yield from map(_rounded, sizes_refused_by_rounding(program.inputs, program.ranges))
    for found in dims.narrowed:
        frame = found.cause.origin.stack.best
        if frame is not None and ASSERTION.match(_written(frame)):
            continue
        branch, dim = _is_branch(found.cause, program), _derived(found, program)
        most = found.end == "max" and found.binding
        if branch or (most and (branch is None or dim is not None)):
            yield _hit(found, branch, Severity.WARNING, dim)
        elif most or (dim is not None and found.binding):
            yield _hit(found, branch, Severity.INFO, dim)


def _rounded(sizes: Mapping[str, int]) -> Hit:
    told = ", ".join(f"{site} = {size}" for site, size in sizes.items())
    return Hit(
        f"the program refuses {told}, which its Dim takes: torch compares sizes of one Dim by fractions, in floats,"
        " which are rounded",
        (Evidence(f"{told} is the first, and others may be refused, too", "the program's own check of its inputs"),),
        Place(),
        Fix("call it at other sizes, or without that check: program.module(check_guards=False)"),
        cause=f"rounded {' '.join(sizes)}",
        severity=Severity.WARNING,
    )


def _written(frame: Frame) -> str:
    return (frame.inside or frame).code


def _is_branch(cause: Constraint, program: Program) -> bool | None:
    """Whether Python decided it; ``None`` where that is not known.

    Of a program that was exported elsewhere torch notes the user's line for what ops ask as well: its text decides.
    """
    frame = cause.origin.stack.best
    if program.kind is SourceKind.FACTORY and program.export_s is not None:
        return cause.origin.branch
    return None if frame is None else _BRANCH.search(_written(frame)) is not None


def _derived(found: Narrowed, program: Program) -> InputDim | None:
    """The dim, where it is made of a named Dim."""
    dims = (dim for tensor in program.inputs for dim in tensor.dims)
    return next((dim for dim in dims if dim.site == found.site and dim.declared_root is not None), None)


def _hit(found: Narrowed, branch: bool | None, severity: Severity, derived: InputDim | None) -> Hit:
    cause = found.cause
    frame = cause.origin.stack.best
    said = f" ({found.declared})" if found.declared else ""
    most = f"at most {found.bound}" if found.end == "max" else f"at least {found.bound}"
    if branch:
        because = f"the Python condition{at_line(frame)} was decided once, for the side of {shortened(cause.text)}"
    elif branch is None:
        because = f"the program keeps the condition {shortened(cause.text)}, not the line that asked for it"
    else:
        because = f"{cause.origin.op or 'an op'}{at_line(frame)} needs {shortened(cause.text)}"
    facts = [
        Evidence(f"{found.site} could have been {found.asked}", found.declared or "no declared range implies it"),
        Evidence(f"{found.site} is {found.now} in the program", "range_constraints"),
        Evidence(f"guard {cause.text}", ", ".join(cause.origin.found_in) or "export"),
        *([Evidence(f"{found.site} = {found.hint}", "the example inputs")] if found.hint is not None else []),
        *line_evidence(frame),
    ]
    return Hit(
        f"{found.site}{said} takes {most}: {because}",
        tuple(facts),
        Place(node=cause.origin.node, frame=frame, op=cause.origin.op),
        _fix(found, branch, derived),
        cause=f"{found.site} {found.end} @ {frame or cause.text}",
        severity=severity,
    )


def _fix(found: Narrowed, branch: bool | None, derived: InputDim | None) -> Fix:
    name, now, made = identifier(found.site), found.now, None if derived is None else affine(derived.expr)
    if derived is not None and derived.declared_root is not None and made is not None:
        name, now = derived.declared_root, now.unscaled(*made[1:])
    ends = ", ".join(f"{end}={value}" for end, value in (("min", now.min), ("max", now.max)) if value)
    code = f'{name} = Dim("{name}", {ends})  # {found.site}: the sizes that this program takes'
    beyond = f"{found.bound + 1} or more" if found.end == "max" else f"{found.bound - 1} or less"
    title = (
        "write the line without the branch (torch.where, torch.cond), or export one program per side: "
        f"the other with an example of {beyond}"
    )
    if branch is None:
        title = "analyze the factory that makes the model to see the line; then write it without a branch, or declare"
        title += " the range that is left"
    elif not branch:
        title = f"say the range that is left, or change what limits {found.site}"
    return Fix(title, code=code)
