"""The ops that the user keeps in PyTorch, by op name or module path."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from torch.fx import Graph, Node

from trtdiag.capture.origins import origin_of
from trtdiag.graph.limit import Limit
from trtdiag.partition.plan import Op


def kept_ops(graph: Graph, ops: Sequence[Op], entries: Sequence[str]) -> tuple[Mapping[int, Limit], tuple[str, ...]]:
    """Return the ops that an entry names, by index, and the entries that name nothing.

    An entry is an op or a module path, and means what begins with it up to a dot: ``aten.softmax`` is all overloads,
    ``layers.0`` also ``layers.0.attn``.  ``aten::softmax`` and ``torch.ops.aten.softmax`` are read as ``aten.softmax``.
    """
    if not entries:
        return {}, ()
    nodes: Mapping[str, Node] = {node.name: node for node in graph.nodes}
    plain = {_plain(entry): entry for entry in entries}
    used: set[str] = set()
    kept: dict[int, Limit] = {}
    for index, op in enumerate(ops):
        path = origin_of(nodes[op.name]).module_path
        for name in (*_beginnings(op.target), *_beginnings(path)):
            if name in plain:
                entry = plain[name]
                used.add(entry)
                kept.setdefault(
                    index,
                    Limit("kept-in-torch", f"keep_in_torch names {entry}", f"take {entry} out of keep_in_torch"),
                )
    return kept, tuple(entry for entry in entries if entry not in used)


def _plain(entry: str) -> str:
    return entry.strip().removeprefix("torch.ops.").replace("::", ".").rstrip(".")


def _beginnings(name: str) -> Iterable[str]:
    """Yield a dotted name and all that it lies below: ``a.b.c``, ``a.b``, ``a``."""
    while name:
        yield name
        name = name.rpartition(".")[0]
