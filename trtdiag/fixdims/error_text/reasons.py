"""Why each dim of a text changes: its conditions in the user's names, what they allow, and what else could be said."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from time import thread_time

from trtdiag.dims.compare_plans import LEAST_SHARE, counted_words
from trtdiag.dims.plan import LeafKind, Plan
from trtdiag.dims.solver.choose import Chosen
from trtdiag.dims.torch_text.facts import TextGuard
from trtdiag.fixdims.changes import Noted, smallest_broken
from trtdiag.fixdims.error_text.system import TextSystem, over
from trtdiag.fixdims.fix import Alternative, Reason
from trtdiag.symbolic import Range, Sym, free_symbols, to_text
from trtdiag.symbolic.expr import Compare, Condition, Num, Relation

_WITNESS_LIMIT_S = 0.5
_WITNESSES_LIMIT_S = 5.0
_MOST_REASONS = 40


def noted(system: TextSystem, box: Mapping[str, Range], chosen: Chosen, final: Plan) -> dict[str, Noted]:
    """Site -> its reasons, causes first, the allowed set and the alternatives.

    Counterexamples are looked for during the first seconds only; later reasons go without.
    """
    found: dict[str, Noted] = {}
    broken = _Broken(box)
    for symbol, sites in system.sites.items():
        note = _note(symbol, system, box, chosen, broken)
        pin = system.pinned.get(symbol)
        if pin is not None:
            _pinned(note, symbol, pin)
        elif final.leaves[sites[0]].kind is LeafKind.STATIC:
            _static(note, symbol, system)
        found.update(dict.fromkeys(sites, note))
    return found


def reason_of(condition: Condition, system: TextSystem, box: Mapping[str, Range]) -> Reason:
    """One condition as a reason, with the smallest asked sizes that break it."""
    return _reason(condition, system, _Broken(box))


def _reason(condition: Condition, system: TextSystem, broken: _Broken) -> Reason:
    guard = system.conditions[condition]
    by = "torch's suggestion" if condition in system.hinted else ""
    sizes = ", ".join(f"{symbol} = {value}" for symbol, value in broken.sizes(condition).items())
    text = (
        f"{_subject(condition)} needs an upper bound: {guard.text}"
        if condition in system.unbounded
        else to_text(condition)
    )
    return Reason(text, guard.stack, by, sizes)


def _subject(condition: Condition) -> str:
    return ", ".join(sorted(free_symbols(condition)))


def _note(symbol: str, system: TextSystem, box: Mapping[str, Range], chosen: Chosen, broken: _Broken) -> Noted:
    note = Noted()
    own = over(symbol, system.conditions)[:_MOST_REASONS]
    reasons = [_reason(condition, system, broken) for condition in own]
    # A guard that every asked size satisfies is no cause; it is told where there is nothing else to tell.
    causes = [reason for reason in reasons if reason.counterexample]
    unclear = [r for r, c in zip(reasons, own, strict=True) if not r.counterexample and len(free_symbols(c)) > 1]
    note.because([*causes, *unclear] or reasons)
    if not reasons and symbol in system.always:
        note.because([Reason(system.always[symbol].text, system.always[symbol].stack)])
    solution = chosen.allowed.get(symbol)
    if solution is not None and solution.proof.proven and not solution.values.is_full:
        note.allowed = counted_words(solution.values, symbol)
    if any(condition in system.unbounded for condition in own):
        note.alternatives.append(
            Alternative(
                "any smaller max", None, "the largest size that you need is a better bound than int64's maximum"
            )
        )
    asked = box[symbol].count
    best = chosen.sets.get(symbol)
    for other in chosen.alternatives.get(symbol, ()):
        if best is not None and best.kept is not None and (other.kept or 0) * LEAST_SHARE < best.kept:
            continue
        kept = None if other.kept is None or asked is None else (other.kept, asked)
        note.alternatives.append(Alternative(other.describe(symbol), kept))
    return note


def _pinned(note: Noted, symbol: str, guard: TextGuard) -> None:
    """The example has size 0 or 1, and torch took that for a constant."""
    value = next((size for size in (0, 1) if guard.text.rstrip(")").endswith(str(size))), 1)
    text = f"the example has {symbol} = {value}, and torch.export takes 0 and 1 for constants"
    note.kind = "example"
    note.reasons.insert(0, Reason(text, guard.stack, "torch.export"))
    note.alternatives.append(
        Alternative(f"{symbol} = {value}, static", None, "where no other size is needed, or where the model pins it")
    )


def _static(note: Noted, symbol: str, system: TextSystem) -> None:
    """Torch took one size; what would have to change for more."""
    for condition in over(symbol, system.conditions):
        guard = system.conditions[condition]
        match condition:
            case Compare(Relation.EQ, Sym(), Num(value)) if guard.kind == "specialised" and value in (0, 1):
                why = "torch.export takes 0 and 1 of an example for constants"
                note.alternatives.append(Alternative(f"export with an example of {symbol} >= 2", None, why))
            case Compare(Relation.EQ, Sym(), Num()) if guard.kind in ("constant", "specialised", "guard"):
                frame = guard.stack.best
                where = f" at {frame}" if frame is not None else ""
                why = "the code that was traced takes one size only, or compares the size with another static one"
                note.alternatives.append(Alternative(f"keep {symbol} dynamic and change the model{where}", None, why))
            case _:
                continue
        return


class _Broken:
    """Finds the smallest asked sizes that break a condition, as long as there is time."""

    def __init__(self, box: Mapping[str, Range]) -> None:
        self._box = box
        self.sizes = cache(self._sizes)
        self._end = thread_time() + _WITNESSES_LIMIT_S

    def _sizes(self, condition: Condition) -> Mapping[str, int]:
        """Empty where there are none, none was found, or the time is over."""
        box = {symbol: self._box.get(symbol, Range(1, None)) for symbol in free_symbols(condition)}
        late, limit_s = thread_time() > self._end, _WITNESS_LIMIT_S
        return {} if late else smallest_broken(condition, box, limit_s, limit_s) or {}
