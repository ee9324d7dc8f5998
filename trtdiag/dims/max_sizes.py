"""Greatest sizes in a declaration, where it leaves dims open or lets them be larger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from trtdiag.dims.plan import Leaf, LeafKind, Plan
from trtdiag.errors import DimsError
from trtdiag.symbolic import Range
from trtdiag.wording import listed, near

_MOST_TOLD = 12


def capped(plan: Plan, max_sizes: Sequence[tuple[str, int]], examples: Mapping[str, int]) -> Plan:
    """The plan whose dims are at most so large.

    Args:
        plan: What was asked.
        max_sizes: Greatest sizes, by the name of a ``Dim`` or by site (``x.shape[2]``).
        examples: The example's sizes by site.

    Raises:
        DimsError: ``unknown-dim``; ``max-not-allowed`` where no size is left, or the example is larger.
    """
    for name, size in max_sizes:
        plan = _with_max(plan, name, size)
        for site, leaf in plan.leaves.items():
            if site in examples and _reaches(leaf, name, site) and examples[site] not in _range(plan, leaf):
                raise _refused(name, size, f"the example has {site} = {examples[site]}", "give at least that")
    return plan


def _with_max(plan: Plan, name: str, size: int) -> Plan:
    leaf = plan.leaves.get(name)
    if any(definition.name == name for definition in plan.defs):
        leaf = Leaf(LeafKind.DIM, root=name)
    if leaf is None or leaf.kind is LeafKind.STATIC:
        static = leaf is not None
        moving = [site for site, each in plan.leaves.items() if each.kind is not LeafKind.STATIC]
        known = [*(definition.name for definition in plan.defs), *moving]
        close = near(name, known)
        raise DimsError(
            f"{name} is declared static" if static else f"no dim is called {name!r}",
            because=f"its dynamic dims are {listed(known, _MOST_TOLD)}" if known else "no dim is declared dynamic",
            fix=f"name {close[0]}" if close and not static else "name one of them" if known else "leave it out",
            reference="unknown-dim",
        )
    if leaf.kind is not LeafKind.DIM:
        narrowed = leaf.range.intersect(Range(None, size))
        if narrowed.empty:
            raise _refused(name, size, f"it is declared as {leaf.range}", "give a greater one")
        return replace(plan, leaves={**plan.leaves, name: replace(leaf, range=narrowed)})
    before = plan.range_of(leaf.root)
    own = before.intersect(Range(None, size).unscaled(leaf.scale, leaf.offset))
    if own.empty or (own.max is not None and own.max < 0):
        raise _refused(name, size, f"{leaf.root} is declared as {before}", "give a greater one")
    return replace(plan, defs=tuple(replace(d, range=own) if d.name == leaf.root else d for d in plan.defs))


def _reaches(leaf: Leaf, name: str, site: str) -> bool:
    return leaf.kind is not LeafKind.STATIC and name in (leaf.root, site)


def _range(plan: Plan, leaf: Leaf) -> Range:
    """The sizes that a dim is declared to have."""
    return leaf.range if leaf.kind is not LeafKind.DIM else plan.range_of(leaf.root).scaled(leaf.scale, leaf.offset)


def _refused(name: str, size: int, because: str, fix: str) -> DimsError:
    return DimsError(f"{name} cannot be at most {size}", because=because, fix=fix, reference="max-not-allowed")
