"""From what an error text says to dims with ranges, and conditions on them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from trtdiag.dims.plan import DimDef, Leaf, LeafKind, Plan
from trtdiag.dims.torch_text.conditions import FLOAT_WHY
from trtdiag.dims.torch_text.facts import ExportErrorText, TextGuard
from trtdiag.fixdims.error_text.suggested import Suggested, read_suggested
from trtdiag.fixdims.error_text.symbols import SYMBOL, Symbols, site_of, split
from trtdiag.fixdims.fix import UnreadCondition
from trtdiag.frontend.program import InputDim, InputTensor
from trtdiag.grouping import grouped
from trtdiag.symbolic import Relation, all_of, compare, conjuncts, free_symbols, substitute
from trtdiag.symbolic.expr import Compare, Condition, Num, Sym, Truth
from trtdiag.symbolic.ranges import INT64_MAX, Range

MOST_CONDITIONS = 500
"""So many go to the solver, the others are named as unread; the most in one export of 99 live cases were 83."""

_BEYOND = f"only {MOST_CONDITIONS} of one text are solved"
_CUT = "the width of a terminal or a log may have broken a sentence there; paste it unwrapped"
_NO_DIM = re.compile(r"\.stride\(|\.storage_offset\(|L\['self'\]")


@dataclass(frozen=True)
class NamedDim(InputDim):
    """A dim of which the text gives the name and not the place."""

    @property
    def site(self) -> str:
        """Its name."""
        return self.input


@dataclass
class TextSystem:
    """Dims and conditions of one text; a dim's symbol is the user's ``Dim`` name where known, else its site.

    Attributes:
        symbols: What the text calls them.
        suggested: torch's own suggestion.
        sites: Symbol -> its sites (``x.shape[2]``), or its own name where the text gives no place.
        asked: Symbol -> the declared range, as far as the text says it.
        named: Symbols that are names of a ``Dim``.
        conditions: Each condition with the guard that states it.
        always: Symbols with a guard that says nothing, but that torch could not see to hold.
        pinned: Symbols that torch took for constants 0 or 1 because of the example.
        constants: Symbol -> the one size that a statement gives it.
        examples: Symbol -> the example's size, as far as the text says it.
        unread: What could not be read.
        hinted: Conditions that are taken from torch's suggestion, as no guard is stated.
        checks: Data-dependent conditions.
        unbounded: Conditions that ask for an upper bound, any one: they come from int64's maximum.
    """

    symbols: Symbols
    suggested: Suggested
    sites: dict[str, tuple[str, ...]] = field(default_factory=dict)
    asked: dict[str, Range] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)
    conditions: dict[Condition, TextGuard] = field(default_factory=dict)
    always: dict[str, TextGuard] = field(default_factory=dict)
    pinned: dict[str, TextGuard] = field(default_factory=dict)
    constants: dict[str, int] = field(default_factory=dict)
    examples: dict[str, int] = field(default_factory=dict)
    unread: list[UnreadCondition] = field(default_factory=list)
    hinted: set[Condition] = field(default_factory=set)
    checks: dict[TextGuard, None] = field(default_factory=dict)
    unbounded: set[Condition] = field(default_factory=set)

    def place(self, symbol: str, source: str) -> None:
        """Note where ``symbol`` is used, as far as ``source`` says it."""
        source = self.symbols.sources.get(source, source)
        site = site_of(source)
        if split(site)[1] is None and not source.startswith("L["):
            site = symbol
        places = dict.fromkeys((*self.sites.get(symbol, ()), site))
        if len(places) > 1:
            places.pop(symbol, None)
        self.sites[symbol] = tuple(places)
        if symbol.isidentifier() and symbol in self.symbols.known and not SYMBOL.match(symbol):
            self.named.add(symbol)

    def ask(self, symbol: str, range_: Range) -> None:
        """Note the declared range of a symbol."""
        self.asked[symbol] = self.asked.get(symbol, Range()).intersect(range_)

    def suppose(self, condition: Condition, guard: TextGuard) -> None:
        """Take a condition from torch's suggestion or its solver, as no guard is stated."""
        value = _constant(condition)
        if value is not None and value[1] in (0, 1):
            self.pinned.setdefault(value[0], guard)
        else:
            self.conditions.setdefault(condition, guard)
            self.hinted.add(condition)

    @property
    def told(self) -> set[str]:
        """The symbols of which something is known."""
        return {name for condition in self.conditions for name in free_symbols(condition)} | self.pinned.keys()

    def plan(self) -> Plan:
        """What was asked: a ``Dim`` where the text names one, else a hint."""
        defs = tuple(DimDef(name, self.asked.get(name, Range())) for name in self.sites if name in self.named)
        leaves: dict[str, Leaf] = {}
        for symbol, sites in self.sites.items():
            hint = Leaf(LeafKind.DYNAMIC, range=self.asked.get(symbol, Range()))
            leaf = Leaf(LeafKind.DIM, symbol) if symbol in self.named else hint
            leaves.update(dict.fromkeys(sites, leaf))
        return Plan(defs, leaves)

    def inputs(self) -> list[InputTensor]:
        """The inputs that the text names, every dim with its symbol for a size."""
        placed = ((symbol, site, *split(site)) for symbol, sites in self.sites.items() for site in sites)
        dims = grouped(
            (owner, NamedDim(site, 0, Sym(symbol)) if index is None else InputDim(owner, index, Sym(symbol)))
            for symbol, site, owner, index in placed
        )
        return [
            InputTensor(owner, owner, None, tuple(sorted(found, key=lambda dim: dim.index)))
            for owner, found in dims.items()
        ]


def system_of_text(read: ExportErrorText) -> TextSystem:
    """Dims, ranges and conditions of a text; a statement that finds no place here is in ``unread``."""
    system = TextSystem(Symbols(read), read_suggested(read.suggestions))
    symbols = system.symbols
    for entry in read.created:
        symbol = symbols.of(entry.symbol)
        system.examples[symbol] = entry.example
        system.ask(symbol, Range(None if entry.range.min == 2 else entry.range.min, entry.range.max))
        system.place(symbol, entry.source)
    for guard in read.guards:
        _take(system, guard)
    for solved in read.solved:
        symbol = symbols.of(solved.source) if solved.source else next(iter(system.sites), "")
        if symbol in system.sites and (solved.source or len(system.sites) == 1):
            system.examples.setdefault(symbol, solved.value)
            if solved.value in (0, 1):
                equal = compare(Relation.EQ, Sym(symbol), solved.value)
                system.pinned.setdefault(symbol, TextGuard(f"{symbol} == {solved.value}", equal, ""))
    system.unread += [UnreadCondition(text, "the sentence is not whole, or not known") for text in read.unread]
    system.unread += [UnreadCondition(cut.text, f"line {cut.line} may be cut: {_CUT}") for cut in read.cuts]
    _hint(system)
    _settle(system, read)
    _limit(system)
    return system


def _take(system: TextSystem, guard: TextGuard) -> None:
    """Put one statement where it belongs."""
    of_data = guard.kind in ("data-dependent", "asserted")
    if of_data and (guard.condition is not None or guard.why == FLOAT_WHY):
        system.checks[guard] = None
        return
    sources = sorted(free_symbols(guard.condition)) if guard.condition is not None else []
    if guard.condition is None or any(_NO_DIM.search(source) for source in sources):
        system.unread.append(UnreadCondition(guard.text, guard.why or "it is about no size of an input"))
        return
    symbol_of = system.symbols.of
    condition = substitute(guard.condition, {source: Sym(symbol_of(source)) for source in sources})
    for source in (*sources, *(source for source, _ in guard.names)):
        system.place(symbol_of(source), source)
    if guard.names and guard.asked != Range():
        system.ask(symbol_of(guard.names[0][0]), guard.asked)
    if guard.kind == "guard":
        condition = _without_stand_ins(condition)
    value = _constant(condition)
    if value is not None and value[1] in (0, 1) and guard.kind in ("constant", "guard", "equal"):
        system.pinned.setdefault(value[0], guard)
    elif condition == Truth(True):
        subjects = sources or [source for source, _ in guard.names]
        system.always.update({symbol_of(source): guard for source in subjects})
    else:
        system.conditions.setdefault(condition, guard)
        match condition:  # what ``_without_stand_ins`` makes of ``size != 9223372036854775807``
            case Compare(Relation.LE, Sym(), Num(most)) if most in (INT64_MAX - 1, INT64_MAX - 2):
                system.unbounded.add(condition)
        system.constants.update(dict([value] if value is not None else []))


def _constant(condition: Condition) -> tuple[str, int] | None:
    """The symbol and the value of ``symbol == value``."""
    match condition:
        case Compare(Relation.EQ, Sym(name), Num(value)) if isinstance(value, int):
            return name, value
        case _:
            return None


def _without_stand_ins(condition: Condition) -> Condition:
    """``condition`` without what stands for no condition of the program.

    torch prints a symbol's whole range, ``2 <= s and s <= 16``; 2 is where its symbols begin, as it takes 0 and 1 for
    constants.  The largest int64 stands for infinity: that a size differs from it asks for an upper bound.
    """
    parts = conjuncts(condition)
    kept = []
    for part in parts:
        match part:
            case Compare(Relation.GE, Sym(), Num(2)) if len(parts) == 2:
                continue
            case Compare(Relation.LE, Sym(), Num(value)) if value >= INT64_MAX - 1:
                continue
            case Compare(Relation.NE, Sym(name), Num(value)) if value >= INT64_MAX - 1:
                kept.append(compare(Relation.LE, Sym(name), value - 1))
            case _:
                kept.append(part)
    return all_of(kept)


def _hint(system: TextSystem) -> None:
    """Take conditions from torch's suggestion for dims about which nothing else is known."""
    told = system.told
    for name in system.suggested.names():
        found = [] if name in told else system.suggested.conditions(name)
        if not found:
            continue
        text = TextGuard(f"{name} = ...", all_of(found), "", kind="suggested")
        system.symbols.known.add(name)
        for condition in found:
            for other in sorted(free_symbols(condition)):
                system.symbols.known.add(other)
                system.place(other, other)
            system.suppose(condition, text)


def _settle(system: TextSystem, read: ExportErrorText) -> None:
    """Take the sizes that torch's solver left, for dims about which nothing else is said."""
    told = system.told
    for solved in read.solved:
        if not solved.source:
            continue
        symbol = system.symbols.of(solved.source)
        equal = compare(Relation.EQ, Sym(symbol), solved.value)
        if symbol not in told:
            system.symbols.known.add(symbol)
            system.suppose(equal, TextGuard(f"{symbol} == {solved.value}", equal, "", kind="constant"))
        system.place(symbol, solved.source)


def _limit(system: TextSystem) -> None:
    """Name what is beyond the limits as unread; leave out dims about which nothing is left to say."""
    kept: tuple[tuple[dict[Any, Any], str], ...] = (
        (system.conditions, "conditions"),
        (system.pinned, "sizes of 0 or 1"),
        (system.always, "guards that always hold"),
        (system.checks, "data-dependent conditions"),
    )
    for entries, words in kept:
        beyond = list(entries)[MOST_CONDITIONS:]
        for entry in beyond:
            del entries[entry]
        if beyond:
            system.unread.append(UnreadCondition(f"{len(beyond)} more {words}", _BEYOND))
    used = system.told | system.always.keys()
    system.sites = {symbol: sites for symbol, sites in system.sites.items() if symbol in used}


def over(symbol: str, conditions: Iterable[Condition]) -> list[Condition]:
    """The conditions that ``symbol`` has a part in."""
    return [condition for condition in conditions if symbol in free_symbols(condition)]
