"""Inputs and symbols in one table: where each comes from, its ranges, its guards, and what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from trtdiag.analysis.result import Analysis
from trtdiag.dims.facts import Constraint, Pinned, Verdict
from trtdiag.frontend.program import InputTensor
from trtdiag.grouping import grouped
from trtdiag.report.drawing.shape_words import ShapeWords
from trtdiag.report.page import Part, folding_table
from trtdiag.report.source_context import short_place
from trtdiag.report.view_guards import guards_view
from trtdiag.report.view_sizes import MARKED, SHOWN_SITES, STATES, Kept, kept_words, profile_text
from trtdiag.shapes.facts import SymbolFacts
from trtdiag.shapes.profile import DimProfile
from trtdiag.symbolic import Range, evaluate, free_symbols
from trtdiag.symbolic.size_names import Home, home_of
from trtdiag.wording import amount, dtype_text, listed, one_line

_SHOWN_GUARDS = 3
_SHOWN_EXPRESSIONS = 4
_MOST_ROWS = 60
_ORDER = (Verdict.BREAKS, Verdict.UNKNOWN, Verdict.HOLDS)
# The state of a symbol is that of its worst dim; for each what the page says.
_WORST = ("breaks", "pinned", "unbounded", "unread", "undecided", "related", "ok", "static")
_VERDICTS = {
    **STATES,
    "related": "tied to other dims",
    "outside": "profile is narrower than the range",
}


def inputs_view(analysis: Analysis) -> Part:
    """The section of the page; what a page has no room for is counted."""
    dims = analysis.dims
    pinned = [_pinned(pin) for pin in dims.pinned]
    symbols = () if analysis.symbols is None else analysis.symbols.symbols
    guards = grouped((symbol, constraint) for constraint in dims.constraints for symbol in constraint.symbols)
    states = grouped((row.symbol, row.state) for row in dims.rows)
    rows = [
        _symbol(
            facts,
            guards.get(facts.symbol, ()),
            states.get(facts.symbol, ()),
            analysis.profiles.get(facts.symbol),
            home_of(analysis.program.words, facts.symbol),
        )
        for facts in symbols
    ]
    every = pinned + sorted(rows, key=lambda row: row["state"] == "ok")
    return {
        "inputs": _inputs(analysis),
        "rows": every[:_MOST_ROWS],
        "note": _note(analysis, len(every)),
        "guards": guards_view(dims),
    }


def _note(analysis: Analysis, rows: int) -> str:
    if analysis.symbols is None:
        return "Symbols are not available: there is no graph."
    if not rows:
        return "The program has no symbols: every size is fixed."
    return f"{rows - _MOST_ROWS:,} more are in the JSON report." if rows > _MOST_ROWS else ""


def _inputs(analysis: Analysis) -> Part | None:
    words = ShapeWords(analysis)
    rows = [
        (one_line(each.name), _shape(each, words), _examples(each, analysis.program.hints))
        for each in analysis.program.inputs
    ]
    if not any(example for _, _, example in rows):  # a saved program may have none
        return folding_table(("input", "shape"), [row[:2] for row in rows], ("code", "code"))
    return folding_table(("input", "shape", "example"), rows, ("code", "code", "code"))


def _shape(tensor: InputTensor, words: ShapeWords) -> str:
    dtype = "a number" if tensor.dtype is None else dtype_text(tensor.dtype)
    if tensor.dtype is None and not tensor.dims:
        return dtype
    return one_line(f"{dtype}[{', '.join(words.size(dim.expr) for dim in tensor.dims)}]", 400)


def _examples(tensor: InputTensor, hints: Mapping[str, int]) -> str:
    if not tensor.dims or not all(free_symbols(dim.expr) <= hints.keys() for dim in tensor.dims):
        return ""
    return f"[{', '.join(str(evaluate(dim.expr, hints)) for dim in tensor.dims)}]"


def _pinned(pin: Pinned) -> Part:
    frame = pin.origin.stack.best
    where = "" if frame is None or str(frame) in pin.why else short_place(frame)
    return {
        "name": one_line(pin.declared),
        "origin": one_line(pin.site),
        "born": "",
        "range": f"{pin.value}",
        "profile": f"{pin.value} / {pin.value} / {pin.value}",
        "expressions": "",
        "guards": [{"text": one_line(pin.why, 400), "verdict": "breaks", "where": where}],
        "more_guards": "",
        "uses": "",
        "state": "pinned",
        "verdict": f"specialised to {pin.value}",
    }


def _symbol(
    facts: SymbolFacts,
    guards: Sequence[Constraint],
    states: Collection[str],
    profile: DimProfile | None,
    home: Home | None,
) -> Part:
    """The row; a symbol that nobody named is shown as the dim that is made of it."""
    state = _state(facts, guards, states, profile)
    ordered = sorted(guards, key=lambda guard: _ORDER.index(guard.verdict))
    hidden = len(guards) - _SHOWN_GUARDS
    born, name = facts.born_by or "", facts.name
    if home is not None:
        name = home.site
        if profile is not None:
            most = None if profile.max is None else home.size(profile.max)
            profile = DimProfile(home.size(profile.min), home.size(profile.opt), most)
    return {
        "name": one_line(name),
        "origin": one_line(listed([site for site in facts.origins if site != born], SHOWN_SITES), 400),
        "born": one_line(born + (f" at {facts.born_at}" if facts.born_at and born else "")),
        "range": "none" if facts.range is None else _range(facts.range, home),
        "profile": profile_text(profile),
        "expressions": _derived([text for text in facts.expressions if text != name]),
        "guards": [_guard(guard) for guard in ordered[:_SHOWN_GUARDS]],
        "more_guards": f"{amount(hidden, 'more guard')}, below" if hidden > 0 else "",
        "uses": f"{facts.uses:,}",
        "state": "unbounded" if state == "outside" else MARKED.get(state, state),
        "verdict": _VERDICTS.get(state, state),
    }


def _range(range_: Range, home: Home | None) -> str:
    if home is None:
        return str(range_)
    ends = home.range(range_)
    return kept_words(Kept(ends.min or 0, ends.max, home.scale))


def _derived(expressions: Sequence[str]) -> str:
    """The most frequent ones, by their numbers: ``h // 2, h // 4, h // 16 and 3 more``."""
    shown = sorted(expressions[:_SHOWN_EXPRESSIONS], key=lambda text: [int(each) for each in re.findall(r"\d+", text)])
    texts = [one_line(text, 80) for text in (*shown, *expressions[_SHOWN_EXPRESSIONS:])]
    return listed(texts, _SHOWN_EXPRESSIONS)


def _state(
    facts: SymbolFacts, guards: Sequence[Constraint], states: Collection[str], profile: DimProfile | None
) -> str:
    worst = next((state for state in _WORST if state in states), "ok")
    if worst != "ok" and worst != "static":
        return worst
    if any(guard.verdict is Verdict.BREAKS and not guard.only_at_zero for guard in guards):
        return "breaks"
    if facts.range is None or not facts.range.bounded:
        return "unbounded"
    if any(guard.verdict is Verdict.UNKNOWN for guard in guards):
        return "undecided"
    if profile is not None and Range(profile.min, profile.max) != facts.range:
        return "outside"
    return "ok"


def _guard(guard: Constraint) -> Part:
    frame = guard.origin.stack.best
    source = short_place(frame) if frame is not None else one_line(guard.origin.op or "")
    return {"text": one_line(guard.text, 200), "verdict": guard.verdict.value, "where": source}
