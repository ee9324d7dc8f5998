"""GRD301."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from trtdiag.analysis.accepted_sizes import derived_dims, working_sizes
from trtdiag.analysis.corrected_dims import corrected_dims, correction_evidence
from trtdiag.analysis.finding import Evidence, Fix, Hit, Place, Severity
from trtdiag.analysis.guard_groups import (
    GuardGroup,
    conflict_cause,
    groups,
    guard_evidence,
)
from trtdiag.analysis.rule import rule
from trtdiag.dims.facts import DimSystem, Verdict
from trtdiag.frontend.program import Program
from trtdiag.symbolic import free_symbols
from trtdiag.wording import amount, joined, shortened, values_text


@rule("GRD301", "guard-breaks-range", Severity.ERROR)
def guard_breaks_range(program: Program, dims: DimSystem) -> Iterator[Hit]:
    """A guard does not hold for every value of the declared range.

    Why:
        While torch.export runs the model once, every size comparison, reshape and slice that depends on
        a dynamic dim is recorded as a guard.  The program is right only where all guards hold.  When a
        guard does not hold over the whole declared range, torch.export refuses the Dim ("Constraints
        violated"); where it does not notice (Dim.AUTO, derived dims, guards over two dims) the program
        refuses such inputs at run time, and an engine, which has no guards, gives wrong results or fails.

        The finding names the smallest size that breaks the guard and one next to it that works, the exact
        set of sizes that are allowed, and how that was proved.  Guards of the same sizes and the same
        source line are one finding.

        A guard over a size that is computed from data is a warning: no declaration can satisfy it, the
        data must.  The program checks it at run time, an engine does not.  So is one over an integer that is
        an input: it has no Dim, and a call of the compiled program with another is refused by name.  A guard
        that breaks only at size 0, in a range whose start was never written down (a Dim without min), is INFO.

        Some guards no op needs: torch before 2.13 asks whether a pooling's windows divide its input, and
        the program then refuses sizes that do not.  The evidence says so where torch's own line is known;
        a later torch exports the same model without them.

    Example:
        h = Dim("h", min=135, max=2160)         # the encoder halves (h - 1)//4 - 1: it must be even
        # allowed: h % 8 in {0, 5, 6, 7}; a Dim can say one of these residues
        _h = Dim("_h", min=17, max=270)
        dynamic_shapes={"x": {2: 8 * _h}}

    Fix safety:
        Unsafe when it narrows the range: sizes that you asked for are no longer accepted.  Pad the input
        to the next allowed size where you need them.  Safe when every requested value is kept.

    Source:
        ExportedProgram._guards_code, the ShapeEnv and _assert_scalar nodes; torch.export, "Constraints
        violated"; pytorch issues 124507, 144852, 136216; pytorch pull request 183774.
    """
    numbers = {each.name: free_symbols(each.number) for each in program.inputs if each.number is not None}
    for group in groups(dims, Verdict.BREAKS):
        spoken = [name for name, symbols in numbers.items() if not symbols.isdisjoint(group.symbols)]
        if group.lead.follows:  # a branch of its own that another guard's fix mends: GRD303 names it
            continue
        working = working_sizes(program, dims, group.lead)
        yield Hit(
            _message(group, working),
            guard_evidence(group, working) + _context(program, dims, group),
            Place(node=group.lead.origin.node, frame=group.frame, op=group.lead.origin.op),
            _of_numbers(spoken) if spoken else None if group.by_data else corrected_dims(dims, group.symbols),
            cause=group.cause,
            because_of=_root(group, dims),
            severity=_severity(group, spoken),
            order=group.lead.share,
        )


def _of_numbers(names: Sequence[str]) -> Fix:
    return Fix(f"give {joined(names)} the values that work, as Dim.DYNAMIC(min=..., max=...); calls refuse all others")


def _severity(group: GuardGroup, numbers: Sequence[str]) -> Severity:
    if group.by_data:
        return Severity.WARNING
    if group.only_at_zero:
        return Severity.INFO
    return Severity.WARNING if numbers else Severity.ERROR


def _root(group: GuardGroup, dims: DimSystem) -> str:
    """A contradiction among the guards of these sizes, else the Python condition that made the guard."""
    for conflict in dims.conflicts:
        if {symbol for constraint in conflict.constraints for symbol in constraint.symbols} >= set(group.symbols):
            return f"GRD304:{conflict_cause(conflict)}"
    return f"GRD303:{group.cause}" if group.branch else ""


def _message(group: GuardGroup, working: Mapping[str, int]) -> str:
    lead = group.lead
    if group.by_data:
        return f"guard {shortened(lead.text)} depends on data; the program checks it when it runs, an engine does not"
    names = " and ".join(lead.counterexample) or " and ".join(lead.symbols)
    message = f"guard {shortened(lead.text)} breaks the declared range of {names}"
    tried = [f"{values_text(working)} works"] * bool(working)
    tried += [f"{values_text(lead.counterexample)} fails"] * bool(lead.counterexample)
    if tried:
        message += f": {', '.join(tried)}"
    if len(group.constraints) > 1:
        message += f" (with {amount(len(group.constraints) - 1, 'more guard')})"
    return message


def _context(program: Program, dims: DimSystem, group: GuardGroup) -> tuple[Evidence, ...]:
    facts = [Evidence(derived, "the program's inputs") for derived in derived_dims(program, group.symbols)]
    if not group.by_data:
        facts += correction_evidence(dims, group.symbols)
    if program.failure is not None:
        facts.append(Evidence("torch.export refused these dynamic_shapes", program.failure.error_type))
    return tuple(facts)
