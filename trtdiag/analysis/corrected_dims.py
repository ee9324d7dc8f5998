"""What to declare instead, as a fix with its proof."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trtdiag.analysis.finding import Applicability, Evidence, Fix
from trtdiag.analysis.guard_groups import proof_text
from trtdiag.dims.facts import DimSuggestion, DimSystem
from trtdiag.dims.plan import LeafKind
from trtdiag.grouping import grouped
from trtdiag.symbolic.ranges import Range
from trtdiag.wording import amount, joined, listed

_JOINT = "declare one of these dims from the other, make one of them static, or change the line"
_TRY_OUT = "trtdiag fix-dims tries it out"
_MOST_SITES = 4
_EVERY_SIZE = "all"
"""How a set says that it leaves nothing out; nobody asks what is kept then."""


def corrected_dims(dims: DimSystem, symbols: tuple[str, ...]) -> Fix | None:
    """The fix that declares the suggested Dims of these symbols; ``None`` where there is no suggestion.

    Its code is the declaration of the whole program: dims that are tied to each other are only right together.  It is
    SAFE only where every requested value is kept: anything narrower takes inputs away.  Where the program was seen to
    refuse some of the sizes, there is nothing to declare yet; a relation gets Dims only where they are shown to satisfy
    it.
    """
    suggestions, declaration = _suggestions(dims, symbols), dims.declaration
    if not suggestions:
        return None
    said = "; ".join(dict.fromkeys(s.summary for s in suggestions))
    if declaration is not None and declaration.refused:
        title = f"the guards allow {said}, and the program refuses some of these: trtdiag fix-dims finds what it takes"
        return Fix(title)
    proven = all(suggestion.proof.proven for suggestion in suggestions)
    if len(symbols) > 1 and not proven:
        title = f"{_JOINT}; {_TRY_OUT}"
        return Fix(title)
    complete = all(s.kept is not None and s.kept[0] == s.kept[1] and s.proof.proven for s in dims.suggestions)
    kept = "" if {s.summary for s in suggestions} == {_EVERY_SIZE} else f" ({said})"
    return Fix(
        f"declare {_spelled(suggestions)}{kept}{'' if proven else f'; it is not proven, and {_TRY_OUT}'}",
        Applicability.SAFE if complete else Applicability.UNSAFE,
        _code(dims, suggestions),
    )


def _spelled(suggestions: Sequence[DimSuggestion]) -> str:
    """``x.shape[2] as 8*_h``; ``x.shape[0] and y.shape[0] with one Dim``."""
    sites = grouped((each.spelled, site) for each in suggestions for site in each.sites)
    if not sites:
        return ", ".join(dict.fromkeys(each.spelled for each in suggestions))
    if len(sites) == 1 and len(suggestions) > 1:
        (places,) = sites.values()
        if all(spelled.isidentifier() for spelled in sites) and len(places) <= _MOST_SITES:
            return f"{joined(places)} with one Dim"
    return ", ".join(f"{listed(places, _MOST_SITES)} as {spelled}" for spelled, places in sites.items())


def _code(dims: DimSystem, suggestions: list[DimSuggestion]) -> str:
    """The declaration of the whole program, else the Dims of these suggestions and where they go."""
    if dims.declaration is not None:
        return dims.declaration.code.rstrip("\n")
    covered = {symbol for suggestion in suggestions for symbol in suggestion.symbols}
    lines = [line for suggestion in suggestions for line in suggestion.code]
    lines += [f"# {row.site}: {row.suggested}" for row in dims.rows if row.symbol in covered and row.suggested]
    return "\n".join(dict.fromkeys(lines))


def _declared_together(dims: DimSystem, sites: Sequence[str]) -> tuple[str, Range] | None:
    """The declaration of the whole program and the range of the one Dim that it makes these dims of.

    ``None`` where it makes them of none, or where there is no declaration that the program is known to take.
    """
    declaration = dims.declaration
    if declaration is None or declaration.refused:
        return None
    leaves = [declaration.plan.leaves.get(site) for site in sites]
    roots = {leaf.root for leaf in leaves if leaf is not None and leaf.kind is LeafKind.DIM}
    if len(roots) != 1 or any(leaf is None or leaf.kind is not LeafKind.DIM for leaf in leaves):
        return None
    return declaration.code.rstrip("\n"), declaration.plan.range_of(roots.pop())


def one_dim(dims: DimSystem, name: str, asked: Range, sites: Mapping[str, str]) -> tuple[str, Range]:
    """Code that declares these dims with one Dim, the whole program's where that is known, and the range it keeps.

    Args:
        dims: The dims of the program.
        name: Of the Dim.
        asked: The range that all of them allow.
        sites: Each dim, and what to declare there.
    """
    ends = "".join(f", {end}={value}" for end, value in (("min", asked.min), ("max", asked.max)) if value is not None)
    lines = [f'{name} = Dim("{name}"{ends})', *(f"# {site}: {told}" for site, told in sites.items())]
    return _declared_together(dims, list(sites)) or ("\n".join(lines), asked)


def left_to_torch(dims: DimSystem, site: str, size: str) -> Fix | None:
    """The fix that lets torch work a size out from others, where the declaration does that."""
    declaration = dims.declaration
    leaf = None if declaration is None else declaration.plan.leaves.get(site)
    if declaration is None or leaf is None or leaf.kind is not LeafKind.AUTO:
        return None
    title = f"no Dim can say {size}: declare {site} as Dim.AUTO, which torch can work out; {_TRY_OUT}"
    return Fix(title, Applicability.MANUAL, "" if declaration.refused else declaration.code.rstrip("\n"))


def correction_evidence(dims: DimSystem, symbols: tuple[str, ...]) -> tuple[Evidence, ...]:
    """Whether the suggested Dims satisfy the guards, with the proof, and what else could be said."""
    suggestions, declaration = _suggestions(dims, symbols), dims.declaration
    facts = []
    for suggestion in suggestions:
        claim = "satisfies every guard" if suggestion.proof.proven else "is not proven"
        facts.append(Evidence(f"{suggestion.spelled} {claim}", proof_text(suggestion.proof)))
        others = [words for words in suggestion.alternatives if not words.startswith("allowed by the guards")]
        facts += [Evidence(f"instead: {words}", "another Dim") for words in others]
    if declaration is None or not suggestions:
        return tuple(facts)
    if declaration.points and not declaration.refused:
        at = f"at {amount(declaration.points, 'size')}, the smallest and largest among them"
        facts.append(Evidence("the program takes what is declared", f"run on shapes {at}"))
    elif declaration.unrun:
        facts.append(Evidence(f"solved and not run: {declaration.unrun}", "trtdiag fix-dims tries it out"))
    return tuple(facts)


def _suggestions(dims: DimSystem, symbols: tuple[str, ...]) -> list[DimSuggestion]:
    return [suggestion for suggestion in dims.suggestions if set(suggestion.symbols) & set(symbols)]
