"""What belongs together because it shares symbols, directly or through others.

Hand-written: with networkx the two terms of a sum, by far the most frequent question, take ten times as long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from trtdiag.grouping import Item
from trtdiag.symbolic.expr import Condition
from trtdiag.symbolic.tree import free_symbols


def tied_groups(items: Sequence[Item], names_of: Callable[[Item], Iterable[str]]) -> list[list[Item]]:
    """The items in groups that share names, directly or through others; all in the order of the items."""
    groups: list[tuple[set[str], list[int]]] = []
    for place, item in enumerate(items):
        names, members, apart = set(names_of(item)), [place], []
        for group in groups:
            if names.isdisjoint(group[0]):
                apart.append(group)
            else:
                names |= group[0]
                members += group[1]
        groups = [*apart, (names, members)]
    return [[items[place] for place in places] for places in sorted(sorted(members) for _, members in groups)]


def related(conditions: Iterable[Condition], names: frozenset[str]) -> list[Condition]:
    """The conditions that share a symbol with ``names``, directly or through others; the nearest first."""
    kept: dict[Condition, None] = {}
    while more := [each for each in conditions if each not in kept and free_symbols(each) & names]:
        kept.update(dict.fromkeys(more))
        names = names.union(*map(free_symbols, more))
    return list(kept)
