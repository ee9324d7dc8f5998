"""Reasons, alternatives and allowed sets of each dim, noted while the search goes on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from trtdiag.dims.compare_plans import counted_words, worth_naming
from trtdiag.dims.declare import refused_by_rounding
from trtdiag.dims.dynamic_shapes.nested_form import is_integer
from trtdiag.dims.facts import GuardOrigin
from trtdiag.dims.plan import LeafKind, Plan
from trtdiag.dims.solver.choose import Chosen
from trtdiag.dims.solver_input import System, dims_in
from trtdiag.fixdims.changes import Noted, reason, smallest_broken
from trtdiag.fixdims.export_result import Tried
from trtdiag.fixdims.fix import ALLOWED, Alternative, Reason
from trtdiag.fixdims.pinned_dims import PinnedGroup
from trtdiag.fixdims.plain_numbers import taken_sizes
from trtdiag.fixdims.time_budget import UNLIMITED, Allowance
from trtdiag.frontend.program import InputDim
from trtdiag.symbolic import Progression, ValueSet, allowed, evaluate, free_symbols, substitute, to_text
from trtdiag.symbolic.build import affine
from trtdiag.symbolic.expr import Compare, Condition, Num, Relation, Sym, Trunc

_MOST_REASONS = 6
_MOST_ALTERNATIVES = 4
_WITNESS_LIMIT_S = 0.3


class Notebook:
    """What is known of each site, by site; later rounds add to earlier ones."""

    def __init__(self, names: Mapping[str, str], solving: Allowance = UNLIMITED) -> None:
        self.names = names
        self.solving = solving
        self.sites: dict[str, Noted] = {}

    def of(self, site: str) -> Noted:
        """The notes of one site."""
        return self.sites.setdefault(site, Noted())

    def round(
        self, tried: Tried, plan: Plan, system: System, chosen: Chosen, *, only: Collection[str] | None = None
    ) -> None:
        """Note why ``chosen`` narrows what ``plan`` asked; of all sites, or of ``only`` some."""
        dims = [dim for dim, _leaf in dims_in(tried.inputs, plan) if only is None or dim.site in only]
        names = self.symbol_names(tried, plan)
        taken = taken_sizes(tried.conditions)  # what comes after them knows a number, and is no cause
        for symbol, conditions in chosen.narrowed_by.items():
            sites = [dim for dim in dims if symbol in free_symbols(dim.expr)]
            if symbol in taken:
                conditions = (taken[symbol], *(each for each in conditions if each != taken[symbol]))
            conditions = _up_to_int(symbol, conditions, tried, system)
            reasons = self._reasons(conditions, tried, system, names, dims)
            for dim in sites:
                self.of(dim.site).because(reasons)
        for dim in dims:
            self.of(dim.site).because(self._asked(dim, tried, system, names, dims))
            if isinstance(dim.expr, Sym):
                self._sets(dim, tried, chosen, system)
        self.note_joins(tried, dims, names, plan)
        self._rounded(plan, only)

    def _rounded(self, plan: Plan, only: Collection[str] | None) -> None:
        """Note where torch compares sizes of one Dim by fractions, which rounding makes unequal."""
        for definition in plan.defs:
            made = {site: leaf for site, leaf in plan.leaves.items() if leaf.root == definition.name}
            value = refused_by_rounding([(leaf.scale, leaf.offset) for leaf in made.values()], definition.range)
            if value is None:
                continue
            sizes = ", ".join(f"{site} = {leaf.scale * value + leaf.offset}" for site, leaf in made.items())
            text = "torch.export compares sizes of one Dim by fractions, in floats, which are rounded"
            for site in made if only is None else made.keys() & only:
                self.of(site).because([Reason(text, by="torch.export", counterexample=sizes)])

    def integers(self, before: Plan, after: Plan) -> None:
        """Note why a Dim of an integer input is written as a hint."""
        for site, leaf in after.leaves.items():
            if is_integer(site) and leaf.kind is not LeafKind.STATIC and leaf != before.leaves.get(site):
                self.of(site).kind = "hint"
                why = "torch.export takes no named Dim for an integer input"
                self.of(site).because([Reason(why, by="torch.export")])

    def symbol_names(self, tried: Tried, plan: Plan) -> dict[str, str]:
        """Symbol -> the user's name, that of a dim which is just this symbol before any other."""
        names, dims = dict(tried.names), dims_in(tried.inputs, plan)
        for dim, leaf in dims:
            line = affine(dim.expr)
            if line is not None and leaf.kind is LeafKind.DIM and line[1:] == (leaf.scale, leaf.offset):
                names[line[0]] = leaf.root
        for dim, _leaf in dims:
            if isinstance(dim.expr, Sym):
                names[dim.expr.name] = self.names.get(dim.site, dim.site)
        return names

    def _reasons(
        self,
        conditions: Sequence[Condition],
        tried: Tried,
        system: System,
        names: Mapping[str, str],
        dims: Sequence[InputDim],
    ) -> list[Reason]:
        """The first conditions that some asked sizes break, or may; where there are none, the first."""
        found: list[Reason] = []
        for condition in conditions[: 2 * _MOST_REASONS]:
            known = free_symbols(condition) <= system.box.keys() and not self.solving.look()
            broken = smallest_broken(condition, system.box, _WITNESS_LIMIT_S) if known else {}
            if broken is not None:
                found.append(self._reason(condition, broken, tried, system, names, dims))
            if len(found) == _MOST_REASONS:
                break
        return found or [self._reason(each, {}, tried, system, names, dims) for each in conditions[:_MOST_REASONS]]

    def _reason(
        self,
        condition: Condition,
        broken: Mapping[str, int],
        tried: Tried,
        system: System,
        names: Mapping[str, str],
        dims: Sequence[InputDim],
    ) -> Reason:
        origin = None if condition in system.asked else tried.conditions.get(condition)
        sizes = ", ".join(f"{name} = {value}" for name, value in self._sizes(broken, dims).items())
        return reason(to_text(condition, _told_apart(condition, names, dims)), origin, sizes)

    def _asked(
        self, dim: InputDim, tried: Tried, system: System, names: Mapping[str, str], dims: Sequence[InputDim]
    ) -> list[Reason]:
        """What ops ask of this dim together with others: one Dim in the place of two narrows neither range."""
        symbols = free_symbols(dim.expr)
        asked = [c for c, origin in tried.conditions.items() if origin.asked is not None and symbols & free_symbols(c)]
        return self._reasons(asked, tried, system, names, dims)

    def _sizes(self, point: Mapping[str, int], dims: Sequence[InputDim]) -> dict[str, int]:
        """A point over symbols as sizes of dims: a root's value means little to the reader."""
        found: list[tuple[str, str, int]] = []
        for symbol in point:
            users = [dim for dim in dims if free_symbols(dim.expr) == {symbol}]
            for dim in sorted(users, key=lambda dim: not isinstance(dim.expr, Sym))[:1]:
                found.append((self.names.get(dim.site, dim.site), dim.site, int(evaluate(dim.expr, point))))
        sizes = {name: {size for other, _site, size in found if other == name} for name, _site, _size in found}
        return {name if len(sizes[name]) == 1 else site: size for name, site, size in found}

    def _sets(self, dim: InputDim, tried: Tried, chosen: Chosen, system: System) -> None:
        symbol = dim.expr.name if isinstance(dim.expr, Sym) else ""
        name, note = self.names.get(dim.site, dim.site), self.of(dim.site)
        solution = chosen.allowed.get(symbol)
        if solution is not None and solution.proof.proven and not solution.values.is_full and not note.allowed:
            note.allowed = counted_words(solution.values, name)
            note.exact = _exact(solution.values, name, chosen.sets.get(symbol))
        asked = system.box[symbol].count if symbol in system.box else None
        example, best = tried.hints.get(symbol), chosen.sets.get(symbol)
        for other in chosen.alternatives.get(symbol, ()):
            if best is None or not worth_naming(other, best):
                continue
            kept = None if other.kept is None or asked is None else (other.kept, asked)
            moved = example is not None and example not in other
            note.alternatives.append(Alternative(other.describe(name), kept, "needs another example" if moved else ""))
        note.alternatives.sort(key=lambda a: -(a.kept[0] if a.kept else 0))
        del note.alternatives[_MOST_ALTERNATIVES:]

    def note_joins(self, tried: Tried, dims: Sequence[InputDim], names: Mapping[str, str], plan: Plan) -> None:
        """Note which dims torch made of one symbol, and because of what; those that ``plan`` made one say nothing."""
        by_site = {dim.site: dim for dim in dims}
        for join in tried.joins:
            first, second = (by_site.get(site) for site in join.sites)
            if first is None or second is None:
                continue
            roots = {plan.leaves[first.site].root, plan.leaves[second.site].root}
            if len(roots) == 1 and roots != {""}:  # of one Dim by their declaration
                continue
            left, right = self.names.get(first.site, first.site), to_text(first.expr, names)
            if left == right:
                left, right = self.names.get(second.site, second.site), to_text(second.expr, names)
            if left == right:
                continue
            why = reason(f"{left} == {right}", GuardOrigin.traced("ShapeEnv", join.stack, join.op))
            for site in join.sites:
                self.of(site).because([why])

    def pinned(self, group: PinnedGroup, tried: Tried, *, moved: int | None, example: str = "") -> None:
        """Note why dims took one value; ``moved`` is the example size with which they do not.

        ``example`` is said behind a value that is not the given example's.
        """
        pin = next((pin for pin in tried.pins if pin.site in group.sites), None)
        name = self.names.get(group.sites[0], group.sites[0])
        if group.by_example and all(self.of(site).kind == "example" for site in group.sites):
            return  # said of the example that was given; this is one that was tried instead
        if group.by_example:
            shown = f"{name} = {group.value}" + ("" if group.value in (0, 1) else ", which is 0 or 1 of its Dim")
            text = f"the example has {shown}, and torch.export takes 0 and 1 for constants"
            why = Reason(text, by="torch.export")
        elif pin is not None:
            why = reason(f"{name} == {group.value}{example}", GuardOrigin.traced("ShapeEnv", pin.stack, pin.op))
        else:
            why = Reason(f"{name} == {group.value}: tracing took the example's size for a constant")
        for site in group.sites:
            note = self.of(site)
            note.because([why])
            if moved is not None:
                note.kind = "example"
                if not group.by_example:
                    note.staying.append(Alternative(f"{name} = {group.value}, static", None, "keeps the example"))


def _up_to_int(symbol: str, conditions: Sequence[Condition], tried: Tried, system: System) -> tuple[Condition, ...]:
    """The conditions with the ``int`` of a float that left a size its one value in the place of what came after it.

    What torch records of a size that is a number by then may be shorter, and is no cause.
    """
    others = {name: value for name, value in tried.hints.items() if name != symbol}
    recorded = list(tried.conditions)
    for place, condition in enumerate(recorded):
        match condition:
            case Compare(Relation.EQ, Trunc(), Num()) if symbol in system.box and tried.conditions[condition].branch:
                alone = substitute(condition, others)
            case _:
                continue
        if free_symbols(alone) == {symbol}:
            found = allowed((alone,), symbol, system.box[symbol], _WITNESS_LIMIT_S)
            if found.proof.proven and found.values.count == 1:
                return (condition, *(each for each in conditions if each in recorded[:place]))
    return tuple(conditions)


def _told_apart(condition: Condition, names: Mapping[str, str], dims: Sequence[InputDim]) -> Mapping[str, str]:
    """``names`` with the sites of dims in the place of a name that two symbols of the condition have.

    Dims of one ``Dim`` are symbols of their own while a model is traced: ``batch*f == f*batch`` says nothing.
    """
    symbols = sorted(free_symbols(condition))
    shown = [names.get(symbol, symbol) for symbol in symbols]
    sites = {dim.expr.name: dim.site for dim in reversed(dims) if isinstance(dim.expr, Sym)}
    twice = [symbol for symbol, name in zip(symbols, shown, strict=True) if shown.count(name) > 1]
    return {**names, **{symbol: sites[symbol] for symbol in twice if symbol in sites}}


def _exact(values: ValueSet, name: str, best: Progression | None) -> Alternative | None:
    """The allowed set itself, where the suggestion is less than it."""
    if best is None or (best.kept is not None and best.kept == values.count):
        return None
    asked = values.range.count
    kept = None if values.count is None or asked is None else (values.count, asked)
    return Alternative(values.describe(name), kept, ALLOWED)
