"""What to declare instead, for symbols whose declared range some guard breaks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trtdiag.capture.sites import Sites
from trtdiag.dims.facts import Constraint, DimSuggestion, Verdict
from trtdiag.dims.solved import Solved
from trtdiag.dims.spelling.dim_names import identifier
from trtdiag.symbolic import Progression, add, mul, progressions, substitute, to_text
from trtdiag.symbolic.expr import Expr, Sym
from trtdiag.symbolic.proof import Proof, ProofKind
from trtdiag.symbolic.ranges import Range

_MOST_ALTERNATIVES = 3


def suggestions(
    constraints: Sequence[Constraint], solved: Solved, hints: Mapping[str, int], sites: Sites
) -> tuple[DimSuggestion, ...]:
    """One suggestion for every symbol with broken guards of its own, as far as a Dim can say it."""
    found = []
    for symbol in dict.fromkeys(s for c in constraints if c.verdict is Verdict.BREAKS for s in c.symbols):
        own = [c for c in constraints if c.symbols == (symbol,) and c.verdict is not Verdict.HOLDS]
        broken = [c.condition for c in own if c.verdict is Verdict.BREAKS]
        if not broken:
            continue
        solution = solved.all(symbol, broken)
        if solution is None:
            continue
        ranked = progressions(solution.values, hints.get(symbol))
        unsure = [c for c in constraints if symbol in c.symbols and not c.follows and c not in own and _open(c)]
        proof = _proof(solution.proof, [c for c in own if c.verdict is Verdict.UNKNOWN] + unsure)
        made = _suggestion(symbol, ranked, solution.values.describe, solved.box[symbol], proof, sites)
        if made is not None:
            found.append(made)
    return tuple(found)


def _open(constraint: Constraint) -> bool:
    return constraint.verdict is not Verdict.HOLDS and len(constraint.symbols) > 1


def _proof(proof: Proof, others: Sequence[Constraint]) -> Proof:
    """The proof for the guards of this symbol alone, not called proven where a joint guard is still open."""
    if not others:
        return proof
    text = "; ".join(c.text for c in others[:2])
    return Proof(ProofKind.NONE, proof.checked, f"{proof.detail}; not covered: {text}".lstrip("; "))


def _suggestion(
    symbol: str, ranked: Sequence[Progression], describe: object, range_: Range, proof: Proof, sites: Sites
) -> DimSuggestion | None:
    if not ranked:
        return None
    best, asked = ranked[0], range_.count
    name = identifier(sites.name_of(symbol))
    code, root = _code(name, best)
    users = sites.sized_by(symbol)
    if users and not any(isinstance(dim.expr, Sym) for dim in users):
        code = code[:1]  # no input has this size itself: only sizes made of it are declared
    value: Expr | int = root if best.single is None else best.single
    spellings = [to_text(substitute(dim.expr, {symbol: value}), {"_root": f"_{name}"}) for dim in users]
    spelled = spellings[0] if spellings else name
    uses = tuple(f"# {dim.site}: {text}" for dim, text in zip(users, spellings, strict=True))
    kept = None if best.kept is None or asked is None else (best.kept, asked)
    others = tuple(_summary(sites.name_of(symbol), p, asked) for p in ranked[1 : 1 + _MOST_ALTERNATIVES])
    words = describe(sites.name_of(symbol)) if callable(describe) else ""
    alternatives = (*others, f"allowed by the guards: {words}")
    return DimSuggestion(
        (symbol,), (*code, *uses), spelled, _summary(sites.name_of(symbol), best, asked), kept, proof, alternatives
    )


def _code(name: str, best: Progression) -> tuple[tuple[str, ...], Expr]:
    if best.single is not None:
        return (), Sym("_root")
    bounds = _bounds(best.range)
    if best.step == 1:
        return (f'{name} = Dim("{name}"{bounds})',), Sym(name)
    root: Expr = Sym("_root")
    line = to_text(add(mul(best.step, root), best.offset), {"_root": f"_{name}"})
    return (f'_{name} = Dim("_{name}"{bounds})', f"{name} = {line}"), add(mul(best.step, root), best.offset)


def _bounds(range_: Range) -> str:
    low = "" if range_.min is None else f", min={range_.min}"
    return low if range_.max is None else f"{low}, max={range_.max}"


def _summary(name: str, progression: Progression, asked: int | None) -> str:
    share = ""
    if progression.kept is not None and asked is not None:
        share = f": keeps {progression.kept} of {asked} values"
    return f"{progression.describe(name)}{share}"
