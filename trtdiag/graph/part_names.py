"""Names of the nodes that lowering makes of one: the node's own name, two underscores, and what the part is."""

from __future__ import annotations

from collections.abc import Container


def whole_of(name: str, known: Container[str]) -> str | None:
    """The node that a node of a lowered graph comes from, by name; ``None`` where none is known.

    What lowering leaves whole keeps its name; parts are called ``<node>__<part>``.  Names of nodes may end in
    underscores (``relu_``), or hold two of them, so the longest name that is known is meant.

    Args:
        name: The node of the lowered graph.
        known: The names of the program's own nodes.
    """
    if name in known:
        return name
    end = name.rfind("__")
    while end > 0:
        if name[:end] in known:
            return name[:end]
        end = name.rfind("__", 0, end + 1)
    return None
