"""What a plan changes against what was asked, with reasons and losses, for a person to read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from trtdiag.dims.compare_plans import changed, kept_of, lost_words, sharing_with, spelled, values_of
from trtdiag.dims.declare import dim_names
from trtdiag.dims.facts import GuardOrigin
from trtdiag.dims.plan import Leaf, LeafKind, Plan
from trtdiag.dims.solver_input import LOWEST_HINTED, asked_range
from trtdiag.fixdims.fix import OP, PYTHON, Alternative, Change, Reason
from trtdiag.symbolic import Proof, Range, ValueSet, allowed, check, free_symbols
from trtdiag.symbolic.expr import Condition
from trtdiag.symbolic.proof import ProofKind


@dataclass
class Noted:
    """What was learnt about one site on the way: filled round by round, read once at the end."""

    reasons: list[Reason] = field(default_factory=list)
    staying: list[Alternative] = field(default_factory=list)  # with the example as it is
    alternatives: list[Alternative] = field(default_factory=list)
    allowed: str = ""
    exact: Alternative | None = None  # the allowed set, where no single Dim says it
    kind: str = ""
    proof: Proof | None = None

    def because(self, reasons: Sequence[Reason]) -> None:
        """Add reasons, each once."""
        for reason in reasons:
            if all((reason.text, reason.by) != (known.text, known.by) for known in self.reasons):
                self.reasons.append(reason)


def changes_between(
    asked: Plan, final: Plan, noted: Mapping[str, Noted], proof: Proof, worked_out: Collection[str] = ()
) -> tuple[Change, ...]:
    """One change for each group of dims that change alike, in the order of the inputs.

    Args:
        asked: What was declared.
        final: What is suggested.
        noted: What was learnt, by site.
        proof: Of the suggestion.
        worked_out: Sites whose size follows from others, and so has their ends.
    """
    names = dim_names(asked)
    groups: dict[tuple[object, ...], list[str]] = {}
    for site, before in asked.leaves.items():
        after = final.leaves.get(site, before)
        if site in final.sizes or changed(site, asked, final):
            key = (before.root or site, before.scale, before.offset, spelled(after, final), final.sizes.get(site))
            groups.setdefault(key, []).append(site)
    changes = tuple(_change(sites, asked, final, names, noted, proof) for sites in groups.values())
    told = {site for change in changes for site in change.sites} | set(worked_out)
    return (*changes, *_unbounded(asked, final, names, told, proof))


def _unbounded(asked: Plan, final: Plan, names: Mapping[str, str], told: set[str], proof: Proof) -> Iterator[Change]:
    """Dims without a largest size: TensorRT builds an engine for sizes up to one, and only the user knows it."""
    groups: dict[str, list[str]] = {}
    for site, leaf in final.leaves.items():
        hinted = leaf.kind is LeafKind.DYNAMIC or (leaf.kind is LeafKind.AUTO and leaf == asked.leaves.get(site))
        if site not in told and (leaf.kind is LeafKind.DIM or hinted) and asked_range(leaf, final).max is None:
            groups.setdefault(leaf.root or site, []).append(site)
    why = Reason("no largest size is asked for, and TensorRT builds an engine for sizes up to one", by="TensorRT")
    for sites in groups.values():
        leaf = final.leaves[sites[0]]
        yield Change(
            sites=tuple(sites),
            name=names.get(sites[0], sites[0]),
            before=spelled(leaf, final),
            after=f"{spelled(leaf, final)} with max= the largest size that you will run",
            kind="bound",
            why=(why,),
            proof=proof,
        )


def _change(
    sites: Sequence[str],
    asked: Plan,
    final: Plan,
    names: Mapping[str, str],
    noted: Mapping[str, Noted],
    proof: Proof,
) -> Change:
    first = sites[0]
    before, after = asked.leaves[first], final.leaves.get(first, asked.leaves[first])
    known = [noted[site] for site in sites if site in noted]
    gathered = Noted()
    for note in known:
        gathered.because(note.reasons)
        gathered.staying.extend(a for a in note.staying if a not in gathered.staying)
        gathered.alternatives.extend(a for a in note.alternatives if a not in gathered.alternatives)
    requested, admitted = values_of(before, asked), _in_program(after, values_of(after, final))
    kept = kept_of(requested, admitted)
    allowed = next((note.allowed for note in known if note.allowed), "")
    name = names[first]
    if admitted is not None and allowed.partition(": ")[0] == admitted.describe(name):
        allowed = ""
    kind = next((note.kind for note in known if note.kind), "") or _kind(first, asked, final)
    return Change(
        sites=tuple(sites),
        name=name,
        before=spelled(before, asked),
        after=_after(after, final, first),
        kind=kind,
        why=tuple(gathered.reasons),
        kept=kept,
        lost=lost_words(requested, admitted, name),
        allowed=allowed,
        alternatives=(*gathered.staying, *gathered.alternatives, *_exact(known, allowed)),
        proof=next((note.proof for note in known if note.proof is not None), proof),
    )


def _in_program(leaf: Leaf, values: ValueSet | None) -> ValueSet | None:
    """What an exported program says it takes: torch (2.13) writes 2 for a hint's least size of 0 or 1."""
    if values is None or leaf.kind not in (LeafKind.AUTO, LeafKind.DYNAMIC):
        return values
    return values.within(values.range.intersect(Range(LOWEST_HINTED, None)))


def _exact(known: Sequence[Noted], allowed: str) -> tuple[Alternative, ...]:
    """The allowed set as the last alternative; left out where the suggestion is all of it."""
    exact = next((note.exact for note in known if note.exact is not None), None)
    return (exact,) if exact is not None and allowed else ()


def _after(leaf: Leaf, plan: Plan, site: str) -> str:
    size = plan.sizes.get(site)
    return spelled(leaf, plan) + (f", with an example of size {size}" if size is not None else "")


def _kind(site: str, asked: Plan, final: Plan) -> str:
    before = asked.leaves[site]
    after = final.leaves.get(site, before)
    if after.kind is not LeafKind.DIM:
        return {LeafKind.STATIC: "static", LeafKind.AUTO: "related", LeafKind.DYNAMIC: "hint"}[after.kind]
    if (after.scale, after.offset) != (before.scale, before.offset):
        users = [leaf for leaf in final.leaves.values() if leaf.root == after.root]
        return "related" if any((leaf.scale, leaf.offset) == (1, 0) for leaf in users) else "multiple"
    return "shared" if sharing_with(site, final) - sharing_with(site, asked) else "range"


def reason(text: str, origin: GuardOrigin | None, counterexample: str = "") -> Reason:
    """A condition with its origin as a reason."""
    if origin is None:
        return Reason(text, by="the asked range", counterexample=counterexample)
    by = origin.op or (PYTHON if origin.branch else OP if origin.branch is False else "")
    return Reason(text, origin.stack, by, counterexample)


def smallest_broken(
    condition: Condition, box: Mapping[str, Range], limit_s: float, alone_s: float = 5.0
) -> Mapping[str, int] | None:
    """The smallest sizes in ``box`` that break a condition; ``None`` where none do, empty where that is not known.

    Args:
        condition: All of its symbols are in ``box``.
        box: The asked sizes.
        limit_s: For a condition on several symbols.
        alone_s: For one on a single symbol.
    """
    symbols = free_symbols(condition)
    if len(symbols) != 1:
        result = check(condition, {s: box[s] for s in symbols}, limit_s=limit_s)
        return None if result.verdict == "holds" else result.counterexample or {}
    (symbol,) = symbols
    solution = allowed((condition,), symbol, box[symbol], alone_s)
    if not solution.proof.proven:
        return {}
    least = solution.values.complement().min
    return None if least is None else {symbol: least}


NO_PROOF = Proof(ProofKind.NONE, 0, "nothing was shown")
