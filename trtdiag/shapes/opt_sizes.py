"""The sizes that engines are tuned for: the user's, else the example's, as near as ranges and guards allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from trtdiag.errors import DimsError
from trtdiag.frontend.dim_sites import Sites
from trtdiag.frontend.program import Program
from trtdiag.frontend.read_guards import read_guards
from trtdiag.grouping import grouped
from trtdiag.shapes.profile import DimProfile
from trtdiag.shapes.user_sizes import TUNED, Ask, conflicting, read_ask, refused
from trtdiag.symbolic import Condition, Range, ValueSet, allowed, free_symbols, holds
from trtdiag.symbolic.nearby import nearest_fitting
from trtdiag.symbolic.shared_symbols import tied_groups
from trtdiag.symbolic.smt import find

_SEARCH_LIMIT_S = 2.0
"""Own choice: for z3, where asked sizes and guards of several symbols leave nothing near the example."""


def opt_sizes(
    program: Program, box: Mapping[str, Range], asked: Sequence[tuple[str, int]], cannot: str = TUNED
) -> Mapping[str, int]:
    """Return a size for every symbol of the box, such that all guards hold.

    What was asked for is kept exactly; every other symbol stays as near to its example as the guards allow.  A symbol
    without an example, born from data, gets the middle of its range, or its least size where it has no end.

    Args:
        program: Gives examples, names and guards.
        box: The range of each symbol.
        asked: Sizes by the name of a dim (``h``, ``x.shape[2]``) or symbol; the last for one name counts.
        cannot: What is refused with a size, as the beginning of the error.

    Raises:
        DimsError: An asked name is not known, or nothing that ranges and guards allow is as asked.
    """
    sites = Sites(program)
    asks = [read_ask(name, size, sites, list(box), cannot) for name, size in dict(asked).items()]
    asks = [ask for ask in asks if free_symbols(ask.expr)]
    choice = _Choice(box, program.hints, conditions_of(program, box), sites.names)
    found: dict[str, int] = {}
    for names in choice.groups(asks):
        found.update(choice.sizes(names, [ask for ask in asks if free_symbols(ask.expr) <= names]))
    return {symbol: found[symbol] for symbol in box}


def allowed_box(program: Program, box: Mapping[str, Range]) -> dict[str, Range]:
    """Return each symbol's range from the first to the last value that the guards on it alone allow.

    A profile's ends must be sizes that the program takes: ``x.view(-1, 8)`` has none below 8.
    """
    symbols = ((free_symbols(condition), condition) for condition in conditions_of(program, box))
    singles = grouped((next(iter(names)), condition) for names, condition in symbols if len(names) == 1)
    found = dict(box)
    for symbol, conditions in singles.items():
        solution = allowed(conditions, symbol, box[symbol])
        if solution.proof.proven and not solution.values.is_empty:
            found[symbol] = Range(solution.values.min, solution.values.max)
    return found


class EngineSizes:
    """The sizes of a program's symbols that engines are built for, each worked out when it is first asked for, once.

    Args:
        program: The program.
        asked: Sizes to tune for, as for ``opt_sizes``.
        box: The range of each symbol; what the program's own guards leave of its ranges where it is not given.
    """

    def __init__(
        self, program: Program, asked: Sequence[tuple[str, int]] = (), box: Mapping[str, Range] | None = None
    ) -> None:
        self.program, self._asked = program, asked
        self.box = allowed_box(program, program.ranges) if box is None else box

    @cached_property
    def opt(self) -> Mapping[str, int]:
        """The size of each symbol that engines are tuned for.

        Raises:
            DimsError: As ``opt_sizes``.
        """
        return opt_sizes(self.program, self.box, self._asked)

    def profiles(self) -> Mapping[str, DimProfile]:
        """Return least, usual and greatest size of every symbol.

        Empty where no sizes satisfy the guards: that is a finding of its own.
        """
        try:
            usual = self.opt
        except DimsError:
            return {}
        return {name: DimProfile(max(0, found.min or 0), usual[name], found.max) for name, found in self.box.items()}

    def within(self, box: Mapping[str, Range]) -> EngineSizes:
        """Return the sizes in other ranges: those of sizes from data may have ends that only lowering shows."""
        return self if box == self.box else EngineSizes(self.program, self._asked, box)


def conditions_of(program: Program, box: Mapping[str, Range]) -> list[Condition]:
    """Return the guards that can be read and speak of nothing but the box; the others are findings of their own."""
    found: dict[Condition, None] = {}
    for read in read_guards(program):
        condition = read.condition
        if condition is not None and free_symbols(condition) and free_symbols(condition) <= box.keys():
            found[condition] = None
    return list(found)


@dataclass(frozen=True)
class _Choice:
    _box: Mapping[str, Range]
    _hints: Mapping[str, int]
    _guards: Sequence[Condition]
    _names: Mapping[str, str]

    def groups(self, asks: Sequence[Ask]) -> list[frozenset[str]]:
        """Return symbols that guards or asked sizes tie, together."""
        tied = [*map(free_symbols, self._guards), *(free_symbols(ask.expr) for ask in asks)]
        groups = tied_groups([*(frozenset({symbol}) for symbol in self._box), *tied], lambda names: names)
        return [frozenset().union(*group) for group in groups]

    def sizes(self, group: frozenset[str], asks: Sequence[Ask]) -> dict[str, int]:
        """Return sizes of tied symbols that satisfy all guards and asks."""
        guards = [guard for guard in self._guards if free_symbols(guard) <= group]
        wanted = [*guards, *(ask.condition for ask in asks)]
        sets = {symbol: self._alone(symbol, guards, asks) for symbol in sorted(group)}
        if any(values.is_empty for values in sets.values()):
            raise conflicting(asks, guards, self._names)
        point = {symbol: _nearest(values, self._usual(symbol)) for symbol, values in sets.items()}
        if all(holds(condition, point) for condition in wanted):
            return point
        ranges = {symbol: Range(values.min, values.max) for symbol, values in sets.items()}
        near = nearest_fitting(wanted, ranges, point)
        if near is None:
            model = find(wanted, ranges, _SEARCH_LIMIT_S).model
            near = None if model is None else {symbol: model.get(symbol, point[symbol]) for symbol in point}
        if near is None or not all(holds(condition, near) for condition in wanted):
            raise conflicting(asks, guards, self._names)
        return near

    def _alone(self, symbol: str, guards: Sequence[Condition], asks: Sequence[Ask]) -> ValueSet:
        """Return the values of a symbol that what speaks of it alone allows.

        Raises:
            DimsError: That leaves nothing of an asked size.
        """
        range_ = self._box[symbol]
        own = [guard for guard in guards if free_symbols(guard) == {symbol}]
        asked = [ask for ask in asks if free_symbols(ask.expr) == {symbol}]
        values = allowed(own, symbol, range_).values if own else ValueSet.full(range_)
        for ask in asked:
            if allowed([*own, ask.condition], symbol, range_).values.is_empty:
                raise refused(ask, symbol, range_, own, values, self._names)
        return allowed([*own, *(ask.condition for ask in asked)], symbol, range_).values if asked else values

    def _usual(self, symbol: str) -> int:
        range_ = self._box[symbol]
        if symbol in self._hints:
            return self._hints[symbol]
        low = max(0, range_.min or 0)
        return max(1, low) if range_.max is None else (low + range_.max) // 2


def _nearest(values: ValueSet, wanted: int) -> int:
    below, above = values.at_most(wanted), values.at_least(wanted)
    near = [value for value in (below, above) if value is not None]
    return min(near, key=lambda value: abs(value - wanted))
