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
from trtdiag.fixdims.fix import UnreadCondition
from trtdiag.frontend.program import InputDim, InputTensor
from trtdiag.symbolic import Relation, all_of, compare, conjuncts, free_symbols, substitute
from trtdiag.symbolic.expr import Compare, Condition, Num, Sym, Truth
from trtdiag.symbolic.ranges import Range

INT64_MAX = 2**63 - 1
MOST_CONDITIONS = 500
"""So many go to the solver, the others are named as unread; the most in one export of 99 live cases were 83."""

_BEYOND = f"only {MOST_CONDITIONS} of one text are solved"
_CUT = "the width of a terminal or a log may have broken a sentence there; paste it unwrapped"
_SIZE = re.compile(r"(?P<tensor>.+)\.(?:size\(\)|shape)\[(?P<dim>\d{1,3})\]$")
_INPUT = re.compile(r"(?P<all>L|inputs)\['(?P<name>[^\W\d]\w*)'\](?P<rest>.*)$", re.DOTALL)
_SYMBOL = re.compile(r"z?[su]\d+$")
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
        sites: Symbol -> its sites (``x.shape[2]``), or its own name where the text gives no place.
        asked: Symbol -> the declared range, as far as the text says it.
        named: Symbols that are names of a ``Dim``.
        conditions: Each condition with the guard that states it.
        always: Symbols with a guard that says nothing, but that torch could not see to hold.
        pinned: Symbols that torch took for constants 0 or 1 because of the example.
        constants: Symbol -> the one size that a statement gives it.
        examples: Symbol -> the example's size, as far as the text says it.
        solved: The single sizes that torch's solver left.
        unread: What could not be read.
        suggested: torch's own suggestion.
        hinted: Conditions that are taken from torch's suggestion, as no guard is stated.
        checks: Data-dependent conditions.
        unbounded: Conditions that ask for an upper bound, any one: they come from int64's maximum.
    """

    sites: dict[str, tuple[str, ...]] = field(default_factory=dict)
    asked: dict[str, Range] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)
    conditions: dict[Condition, TextGuard] = field(default_factory=dict)
    always: dict[str, TextGuard] = field(default_factory=dict)
    pinned: dict[str, TextGuard] = field(default_factory=dict)
    constants: dict[str, int] = field(default_factory=dict)
    examples: dict[str, int] = field(default_factory=dict)
    solved: tuple[int, ...] = ()
    unread: list[UnreadCondition] = field(default_factory=list)
    suggested: Suggested = field(default_factory=lambda: Suggested({}, {}))
    hinted: set[Condition] = field(default_factory=set)
    checks: list[TextGuard] = field(default_factory=list)
    unbounded: set[Condition] = field(default_factory=set)

    def sites_used(self) -> list[str]:
        """Every site, in order."""
        return [site for sites in self.sites.values() for site in sites]

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
        dims: dict[str, list[InputDim]] = {}
        for symbol, sites in self.sites.items():
            for site in sites:
                owner, index = split(site)
                made = NamedDim(site, 0, Sym(symbol)) if index is None else InputDim(owner, index, Sym(symbol))
                dims.setdefault(owner, []).append(made)
        return [
            InputTensor(owner, owner, None, tuple(sorted(found, key=lambda dim: dim.index)))
            for owner, found in dims.items()
        ]


def split(site: str) -> tuple[str, int | None]:
    """``x.shape[2]`` as ``("x", 2)``; a name without a place as ``(name, None)``."""
    match = _SIZE.match(site)
    return (site, None) if match is None else (match["tensor"], int(match["dim"]))


def site_of(source: str) -> str:
    """A source of torch's (``L['args'][0][1].size()[2]``) in the user's words (``args[1].shape[2]``)."""
    match = _SIZE.match(source)
    tensor, dim = (source, "") if match is None else (match["tensor"], f".shape[{match['dim']}]")
    found = _INPUT.match(tensor)
    if found is None:
        return tensor + dim
    name, rest = found["name"], found["rest"]
    if found["all"] == "L" and name == "args" and rest.startswith("[0]") and len(rest) > 3:
        return f"args{rest[3:]}{dim}"  # the tuple of positional inputs
    keyword = re.match(r"\['([^\W\d]\w*)'\]", rest.removeprefix("[1]")) if name == "args" else None
    if keyword is not None:
        rest = rest.removeprefix("[1]")
        return f"{keyword[1]}{rest[keyword.end() :]}{dim}"
    return f"{name}{rest}{dim}"


def system_of_text(read: ExportErrorText) -> TextSystem:
    """Dims, ranges and conditions of a text; a statement that finds no place here is in ``unread``."""
    system = TextSystem(suggested=read_suggested(read.suggestions))
    system.solved = tuple(entry.value for entry in read.solved)
    symbols = _Symbols(read)
    for entry in read.created:
        symbol = symbols.of(entry.symbol)
        system.examples[symbol] = entry.example
        _ask(system, symbol, Range(None if entry.range.min == 2 else entry.range.min, entry.range.max))
        symbols.place(system, symbol, entry.source)
    for guard in read.guards:
        _take(system, symbols, guard)
    for solved in read.solved:
        symbol = symbols.of(solved.source) if solved.source else next(iter(system.sites), "")
        if symbol in system.sites and (solved.source or len(system.sites) == 1):
            system.examples.setdefault(symbol, solved.value)
            if solved.value in (0, 1):
                equal = compare(Relation.EQ, Sym(symbol), solved.value)
                system.pinned.setdefault(symbol, TextGuard(f"{symbol} == {solved.value}", equal, ""))
    system.unread += [UnreadCondition(text, "the sentence is not whole, or not known") for text in read.unread]
    system.unread += [UnreadCondition(cut.text, f"line {cut.line} may be cut: {_CUT}") for cut in read.cuts]
    _hint(system, symbols)
    _settle(system, symbols, read)
    _limit(system)
    return system


class _Symbols:
    """Sources and torch's symbols as the symbols of one system."""

    def __init__(self, read: ExportErrorText) -> None:
        self.sources: dict[str, str] = {}
        self.names: dict[str, str] = {}
        self.placed: dict[str, str] = {}
        for entry in read.created:
            self.sources.setdefault(entry.symbol, entry.source)
        for guard in read.guards:
            for source, name in guard.names:
                if _SYMBOL.match(source) and name.startswith("L["):
                    self.sources.setdefault(source, name)
                elif name != source and not name.startswith("L["):
                    self.names.setdefault(source, name)
                    self.placed.setdefault(site_of(source), name)
        for solved in read.solved:
            if solved.source and solved.name and solved.name != solved.source:
                self.names.setdefault(solved.source, solved.name)
        self._only_one(read)
        alone = {name for guard in read.guards for source, name in guard.names if source == name}
        self.known = {*self.names.values(), *alone, *read.violated}

    def _only_one(self, read: ExportErrorText) -> None:
        """Take the one name that the error is about for the one size that is named nowhere: they are one dim."""
        if len(read.violated) != 1 or not read.violated[0].isidentifier() or read.violated[0] in self.names.values():
            return
        sources = {source for guard in read.guards if guard.condition for source in free_symbols(guard.condition)}
        sizes = {site_of(source) for source in sources if split(site_of(source))[1] is not None}
        if len(sizes) == 1:
            self.placed[sizes.pop()] = read.violated[0]

    def of(self, text: str) -> str:
        source = self.sources.get(text, text)
        site = site_of(source)
        return self.names.get(source) or self.placed.get(site) or site

    def place(self, system: TextSystem, symbol: str, source: str) -> None:
        """Note where ``symbol`` is used, as far as ``source`` says it."""
        source = self.sources.get(source, source)
        site = site_of(source)
        if split(site)[1] is None and not source.startswith("L["):
            site = symbol
        known = system.sites.get(symbol, ())
        places = dict.fromkeys((*known, site))
        if len(places) > 1:
            places.pop(symbol, None)
        system.sites[symbol] = tuple(places)
        if symbol.isidentifier() and symbol in self.known and not _SYMBOL.match(symbol):
            system.named.add(symbol)


def _take(system: TextSystem, symbols: _Symbols, guard: TextGuard) -> None:
    """Put one statement where it belongs."""
    if guard.condition is None and guard.why == FLOAT_WHY and guard.kind in ("data-dependent", "asserted"):
        system.checks.append(guard)
        return
    if guard.condition is None:
        system.unread.append(UnreadCondition(guard.text, guard.why))
        return
    if guard.kind in ("data-dependent", "asserted"):
        system.checks.append(guard)
        return
    sources = sorted(free_symbols(guard.condition))
    if any(_NO_DIM.search(source) for source in sources):
        system.unread.append(UnreadCondition(guard.text, "it is about no size of an input"))
        return
    condition = substitute(guard.condition, {source: Sym(symbols.of(source)) for source in sources})
    for source in (*sources, *(source for source, _ in guard.names)):
        symbols.place(system, symbols.of(source), source)
    if guard.names and guard.asked != Range():
        _ask(system, symbols.of(guard.names[0][0]), guard.asked)
    if guard.kind == "guard":
        condition = _without_stand_ins(condition)
    value = _constant(condition)
    if value is not None and value[1] in (0, 1) and guard.kind in ("constant", "guard", "equal"):
        system.pinned.setdefault(value[0], guard)
    elif condition == Truth(True):
        subjects = sources or [source for source, _ in guard.names]
        system.always.update({symbols.of(source): guard for source in subjects})
    else:
        system.conditions.setdefault(condition, guard)
        if _asks_for_a_bound(condition):
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


def _asks_for_a_bound(condition: Condition) -> bool:
    """Whether it is what ``_without_stand_ins`` makes of ``size != 9223372036854775807``."""
    match condition:
        case Compare(Relation.LE, Sym(), Num(value)):
            return value in (INT64_MAX - 1, INT64_MAX - 2)
        case _:
            return False


def _ask(system: TextSystem, symbol: str, range_: Range) -> None:
    system.asked[symbol] = system.asked.get(symbol, Range()).intersect(range_)


def _hint(system: TextSystem, symbols: _Symbols) -> None:
    """Take conditions from torch's suggestion for dims about which nothing else is known."""
    told = {name for condition in system.conditions for name in free_symbols(condition)} | system.pinned.keys()
    for name in system.suggested.names():
        found = [] if name in told else system.suggested.conditions(name)
        if not found:
            continue
        text = TextGuard(f"{name} = ...", all_of(found), "", kind="suggested")
        symbols.known.add(name)
        for condition in found:
            for other in sorted(free_symbols(condition)):
                symbols.known.add(other)
                symbols.place(system, other, other)
            value = _constant(condition)
            if value is not None and value[1] in (0, 1):
                system.pinned.setdefault(value[0], text)
                continue
            system.conditions.setdefault(condition, text)
            system.hinted.add(condition)


def _settle(system: TextSystem, symbols: _Symbols, read: ExportErrorText) -> None:
    """Take the sizes that torch's solver left, for dims about which nothing else is said."""
    told = {name for condition in system.conditions for name in free_symbols(condition)} | system.pinned.keys()
    for solved in read.solved:
        if not solved.source:
            continue
        symbol = symbols.of(solved.source)
        equal = compare(Relation.EQ, Sym(symbol), solved.value)
        guard = TextGuard(f"{symbol} == {solved.value}", equal, "", kind="constant")
        if symbol not in told:
            symbols.known.add(symbol)
            if solved.value in (0, 1):
                system.pinned.setdefault(symbol, guard)
            else:
                system.conditions.setdefault(equal, guard)
                system.hinted.add(equal)
        symbols.place(system, symbol, solved.source)


def _limit(system: TextSystem) -> None:
    """Name what is beyond the limits as unread; leave out dims about which nothing is left to say."""
    told: tuple[tuple[Any, str], ...] = (
        (system.conditions, "conditions"),
        (system.pinned, "sizes of 0 or 1"),
        (system.always, "guards that always hold"),
    )
    for entries, words in told:
        beyond = list(entries)[MOST_CONDITIONS:]
        for entry in beyond:
            del entries[entry]
        if beyond:
            system.unread.append(UnreadCondition(f"{len(beyond)} more {words}", _BEYOND))
    if len(system.checks) > MOST_CONDITIONS:
        count = len(system.checks) - MOST_CONDITIONS
        system.unread.append(UnreadCondition(f"{count} more data-dependent conditions", _BEYOND))
        del system.checks[MOST_CONDITIONS:]
    used = {symbol for condition in system.conditions for symbol in free_symbols(condition)}
    used |= system.pinned.keys() | system.always.keys()
    system.sites = {symbol: sites for symbol, sites in system.sites.items() if symbol in used}


def over(symbol: str, conditions: Iterable[Condition]) -> list[Condition]:
    """The conditions that ``symbol`` has a part in."""
    return [condition for condition in conditions if symbol in free_symbols(condition)]
