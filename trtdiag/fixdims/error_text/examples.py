"""Example sizes: what a text tells of them, and which ones to export with instead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from trtdiag.dims.compare_plans import spelled
from trtdiag.dims.plan import LeafKind, Plan
from trtdiag.dims.solver_input import asked_range
from trtdiag.dims.torch_text.facts import ExportErrorText, Outside
from trtdiag.fixdims.error_text.system import TextSystem
from trtdiag.fixdims.fix import Change, Reason
from trtdiag.symbolic import Proof, Range, allowed, free_symbols, progressions
from trtdiag.symbolic.expr import Condition

LEAST_EXAMPLE = 2  # torch.export takes 0 and 1 for constants
_PREFERRED = 4  # well inside most ranges, and not the least


def solved_examples(system: TextSystem, box: Mapping[str, Range]) -> dict[str, int]:
    """Symbol -> a size that the example may have had, where the text tells something of it.

    torch writes its suggestion ``h = 8*_h - 1`` with the residue of the example: of the best sets of sizes that has
    such sizes, one is taken.
    """
    found = {s: size for s, size in system.examples.items() if s in box and size in box[s] and s not in system.pinned}
    for symbol in box:
        step = system.suggested.step_of(symbol)
        if symbol in found or step is None or step[0] < 2:
            continue
        own = [condition for condition in system.conditions if free_symbols(condition) == {symbol}]
        size = _of_residue(own, symbol, box[symbol], step[0], step[1] % step[0])
        if size is not None:
            found[symbol] = size
    return found


def _of_residue(own: list[Condition], symbol: str, range_: Range, step: int, residue: int) -> int | None:
    solution = allowed(own, symbol, range_)
    if not solution.proof.proven:
        return None
    for run in progressions(solution.values):
        first = run.values.at_least(LEAST_EXAMPLE)
        for size in run.values.members(2 * step) if first is not None else ():
            if size % step == residue:
                return size
    return None


def example_sizes(system: TextSystem, final: Plan) -> dict[str, int]:
    """Site -> an example size of 2 or more, for the dims whose example was 0 or 1."""
    sizes: dict[str, int] = {}
    for symbol in system.pinned:
        for site in system.sites.get(symbol, ()):
            leaf = final.leaves[site]
            if leaf.kind is LeafKind.STATIC:
                continue
            range_ = asked_range(leaf, final).intersect(Range(LEAST_EXAMPLE, None))
            if range_.empty or range_.min is None:
                continue
            wanted = max(range_.min, _PREFERRED) if range_.max is None or range_.max >= _PREFERRED else range_.min
            size = wanted + (leaf.offset - wanted) % leaf.scale
            sizes[site] = size if size in range_ else range_.min
    return sizes


def inside(read: ExportErrorText, system: TextSystem, asked: Plan, final: Plan) -> Plan:
    """``final`` with sizes for the examples that lie outside their range, where the text tells the dim."""
    moved = {site: _nearest(outside) for outside in read.outside for site in _sites(outside, system, asked)}
    return replace(final, sizes={**final.sizes, **moved})


def outside_changes(read: ExportErrorText, system: TextSystem, asked: Plan, proof: Proof) -> tuple[Change, ...]:
    """One change for each example outside its declared range: another example."""
    return tuple(_outside_change(outside, _sites(outside, system, asked), asked, proof) for outside in read.outside)


def _outside_change(outside: Outside, sites: tuple[str, ...], asked: Plan, proof: Proof) -> Change:
    declared = str(outside.range)
    name = sites[0] if sites else f"the dim declared {declared}"
    before = spelled(asked.leaves[sites[0]], asked) if sites else declared
    return Change(
        sites=sites or (name,),
        name=name,
        before=before,
        after=f"{before}, with an example of size {_nearest(outside)}",
        kind="example",
        why=(Reason(f"the example's size {outside.value} is not in the asked range {declared}", by="torch.export"),),
        kept=None if outside.range.count is None else (outside.range.count, outside.range.count),
        proof=proof,
    )


def _sites(outside: Outside, system: TextSystem, asked: Plan) -> tuple[str, ...]:
    """The sites with the range that the example misses, where the text names just one such dim."""
    same = [
        sites
        for sites in system.sites.values()
        if asked_range(asked.leaves[sites[0]], asked).intersect(Range(LEAST_EXAMPLE, None))
        == outside.range.intersect(Range(LEAST_EXAMPLE, None))
    ]
    return same[0] if len(same) == 1 else ()


def _nearest(outside: Outside) -> int:
    """The size in the range that is nearest to the example, 2 or more."""
    low, high = outside.range.min, outside.range.max
    if low is not None and outside.value < low:
        return max(low, min(LEAST_EXAMPLE, high if high is not None else LEAST_EXAMPLE))
    return high if high is not None else outside.value
