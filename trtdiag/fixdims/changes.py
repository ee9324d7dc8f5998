"""What a plan changes against what was asked, with reasons and losses, for a person to read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from trtdiag.dims.asked_ranges import asked_range
from trtdiag.dims.declare import dim_names
from trtdiag.dims.facts import GuardOrigin
from trtdiag.dims.plan import Leaf, LeafKind, Plan
from trtdiag.fixdims.fix import Alternative, Change, Reason
from trtdiag.symbolic import Proof, Range, ValueSet
from trtdiag.symbolic.proof import ProofKind

MOST_STEP = 1 << 20
"""A set of multiples of more is not counted: it takes a mask of that length."""


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
    together, apart = _sharing(final), _sharing(asked)
    for site, before in asked.leaves.items():
        after = final.leaves.get(site, before)
        rejoined = next((s for s in together if site in s), None) != next((s for s in apart if site in s), None)
        if not same(before, asked, after, final) or site in final.sizes or rejoined:
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
            kept=None,
            lost="",
            allowed="",
            alternatives=(),
            model_change=None,
            proof=proof,
        )


def same(before: Leaf, asked: Plan, after: Leaf, final: Plan) -> bool:
    """Whether two declarations of one dim say the same, whatever their Dims are called."""
    if before.kind is not after.kind:
        return False
    if before.kind is not LeafKind.DIM:
        return before == after
    return (before.scale, before.offset, asked_range(before, asked)) == (
        after.scale,
        after.offset,
        asked_range(after, final),
    )


def same_plan(one: Plan, other: Plan) -> bool:
    """Whether two plans declare the same sizes in the same words, names aside."""
    if one.leaves.keys() != other.leaves.keys() or dict(one.sizes) != dict(other.sizes):
        return False
    if not all(same(leaf, one, other.leaves[site], other) for site, leaf in one.leaves.items()):
        return False
    return _sharing(one) == _sharing(other)


def _sharing(plan: Plan) -> set[frozenset[str]]:
    roots: dict[str, set[str]] = {}
    for site, leaf in plan.leaves.items():
        if leaf.kind is LeafKind.DIM:
            roots.setdefault(leaf.root, set()).add(site)
    return {frozenset(sites) for sites in roots.values()}


def values_of(leaf: Leaf, plan: Plan) -> ValueSet | None:
    """The sizes that a leaf admits; ``None`` where others determine them, or where its step is beyond all sizes."""
    range_ = asked_range(leaf, plan)
    if (leaf.kind is LeafKind.AUTO and leaf.range == Range()) or leaf.scale > MOST_STEP:
        return None
    if leaf.kind is LeafKind.DIM and leaf.scale > 1:
        return ValueSet.residues(leaf.scale, [leaf.offset], range_)
    return ValueSet.full(range_)


def spelled(leaf: Leaf, plan: Plan) -> str:
    """A leaf in one line: ``8*_h, _h: 17..270``, ``h: 2..64``, ``16``, ``Dim.DYNAMIC(min=9, max=64)``."""
    match leaf.kind:
        case LeafKind.STATIC:
            return str(leaf.value)
        case LeafKind.DIM:
            ends = _ends(plan.range_of(leaf.root))
            line = _line(leaf)
            if line == leaf.root:
                return f"{leaf.root}{ends}"
            return f"{line}{', ' + leaf.root + ends if ends else ''}"
        case _:
            bounds = [f"{k}={v}" for k, v in (("min", leaf.range.min), ("max", leaf.range.max)) if v is not None]
            return f"Dim.{leaf.kind.name}" + (f"({', '.join(bounds)})" if bounds else "")


def _line(leaf: Leaf) -> str:
    text = leaf.root if leaf.scale == 1 else f"{leaf.scale}*{leaf.root}"
    return text if leaf.offset == 0 else f"{text} {'+' if leaf.offset > 0 else '-'} {abs(leaf.offset)}"


def _ends(range_: Range) -> str:
    if range_ == Range():
        return ""
    if range_.max is None:
        return f" >= {range_.min}"
    return f" <= {range_.max}" if range_.min is None else f": {range_.min}..{range_.max}"


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
    requested, admitted = values_of(before, asked), values_of(after, final)
    kept = _kept(requested, admitted)
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
        lost=_lost(requested, admitted, name),
        allowed=allowed,
        alternatives=(*gathered.staying, *gathered.alternatives, *_exact(known, allowed)),
        model_change=None,
        proof=next((note.proof for note in known if note.proof is not None), proof),
    )


def _exact(known: Sequence[Noted], allowed: str) -> tuple[Alternative, ...]:
    """The allowed set as the last alternative; left out where the suggestion is all of it."""
    exact = next((note.exact for note in known if note.exact is not None), None)
    return (exact,) if exact is not None and allowed else ()


def _after(leaf: Leaf, plan: Plan, site: str) -> str:
    size = plan.sizes.get(site)
    return spelled(leaf, plan) + (f", with an example of size {size}" if size is not None else "")


def _kept(requested: ValueSet | None, admitted: ValueSet | None) -> tuple[int, int] | None:
    if requested is None or admitted is None or requested.count is None:
        return None
    return (requested.intersect(admitted).count or 0, requested.count)


def _lost(requested: ValueSet | None, admitted: ValueSet | None, name: str) -> str:
    if requested is None or admitted is None:
        return ""
    stays = ValueSet(requested.range, admitted.stretches)
    gone = requested.intersect(stays.complement())
    if gone.is_empty:
        return ""
    said, rest = gone.describe(name), f"all but {stays.describe(name)}"
    words = said if len(gone.stretches) == 1 or len(said) <= len(rest) else rest
    return words if gone.count is None else f"{words}: {gone.count} values"


def _kind(site: str, asked: Plan, final: Plan) -> str:
    before = asked.leaves[site]
    after = final.leaves.get(site, before)
    if after.kind is not LeafKind.DIM:
        return {LeafKind.STATIC: "static", LeafKind.AUTO: "related", LeafKind.DYNAMIC: "hint"}[after.kind]
    if (after.scale, after.offset) != (before.scale, before.offset):
        users = [leaf for leaf in final.leaves.values() if leaf.root == after.root]
        return "related" if any((leaf.scale, leaf.offset) == (1, 0) for leaf in users) else "multiple"
    together = next((sites for sites in _sharing(final) if site in sites), frozenset())
    apart = next((sites for sites in _sharing(asked) if site in sites), frozenset())
    return "shared" if together - apart else "range"


def reason(text: str, origin: GuardOrigin | None, counterexample: str = "") -> Reason:
    """A condition with its origin as a reason."""
    if origin is None:
        return Reason(text, by="the asked range", counterexample=counterexample)
    by = origin.op or ("a Python condition" if origin.branch else "an op" if origin.branch is False else "")
    return Reason(text, origin.stack, by, counterexample)


NO_PROOF = Proof(ProofKind.NONE, 0, "nothing was shown")
