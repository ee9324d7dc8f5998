"""Takes out ops that hand their input on with the same values."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch.fx import Node

from trtdiag.graph.aliases import written_nodes
from trtdiag.graph.node_kinds import NodeKind, classify
from trtdiag.graph.operators import ATEN, operator_of, schema_name, short_name
from trtdiag.lower.draft import Draft, insert_call
from trtdiag.lower.passes.memory_order import reads_order
from trtdiag.lower.template import written_size
from trtdiag.lower.view_inverses import REORDER_NOTHING, sizes_of

# Copies and changes of the order in memory; nothing is changed in place any more, so nobody can tell them apart but
# what reads that order.
_COPIES = frozenset(
    {"aten::clone", "aten::contiguous", "aten::lift_fresh_copy", "aten::alias_copy", "aten::detach_copy"}
)
# The same where neither dtype nor device changes, or no size.
_CASTS = frozenset({"aten::_to_copy", "aten::to", "aten::type_as", "aten::float"})
_RESHAPES = frozenset({"aten::view", "aten::reshape", "aten::_unsafe_view", "aten::expand"})


def take_copies_out(draft: Draft) -> int:
    """Replace each by its input; memory that an op still changes in place is left alone."""
    locked = written_nodes(draft.graph)
    count = 0
    for node in list(draft.graph.nodes):
        if node.op != "call_function" or node in locked:
            continue
        if node.target is torch.ops.aten.copy.default:
            _as_its_source(draft, node)
            count += 1
            continue
        known = reshaped_from(node, node.meta.get("val"), locked)
        if known is not None and not any(map(reads_order, node.users)):
            node.replace_all_uses_with(known)
            draft.graph.erase_node(node)
            count += 1
            continue
        if not _hands_on(node):
            continue
        if node.all_input_nodes and node.args and isinstance(node.args[0], Node) and node.args[0] not in locked:
            node.replace_all_uses_with(node.args[0])
        elif node.users:
            continue
        draft.graph.erase_node(node)
        count += 1
    return count


def reshaped_from(node: Node, wanted: object, locked: Collection[Node] = ()) -> Node | None:
    """The tensor that reshapes led away from and that has the sizes of ``wanted`` again; ``None`` where none has.

    TensorRT 8.6 leaves outputs of an engine empty where one is made of another by reshapes that end where they began.

    Args:
        node: The last reshape.
        wanted: A tensor with the elements of ``node`` in their order.
        locked: Nodes whose memory an op changes in place.
    """
    known: Node | None = None
    while _keeps_order(node) and node not in locked:
        source = node.args[0]
        if not isinstance(source, Node) or source in locked:
            break
        node, before = source, source.meta.get("val")
        if isinstance(before, torch.Tensor) and isinstance(wanted, torch.Tensor) and _same_sizes(before, wanted):
            known = node
    return known


def _keeps_order(node: Node) -> bool:
    """Whether an op gives the elements of its input as they are, one after the other."""
    op = operator_of(node)
    return op is not None and op is not ATEN.view.dtype and short_name(op) in REORDER_NOTHING


def _as_its_source(draft: Draft, node: Node) -> None:
    """Replace ``copy(into, source)``, the functional ``copy_``, by the source in the form of ``into``."""
    value, wanted = node.args[1], node.meta["val"]
    assert isinstance(value, Node)
    with draft.graph.inserting_before(node):
        kwargs = {
            key: getattr(wanted, key)
            for key in ("dtype", "device")
            if getattr(value.meta["val"], key) != getattr(wanted, key)
        }
        if kwargs:
            with draft.mode:
                val = torch.empty_like(value.meta["val"], **kwargs)
            value = insert_call(draft.graph, ATEN._to_copy.default, (value,), val, node, "to_copy", kwargs)
        if not _same_sizes(value.meta["val"], wanted):
            sizes = sizes_of(draft.graph, node.args[0], wanted)  # type: ignore[arg-type]  # a tensor
            value = insert_call(draft.graph, ATEN.expand.default, (value, sizes), wanted, node, "expand")
    node.replace_all_uses_with(value)
    draft.graph.erase_node(node)


def _hands_on(node: Node) -> bool:
    if classify(node) is NodeKind.NO_OP:
        return True
    op = operator_of(node)
    name = "" if op is None else schema_name(op)
    if name in _COPIES:
        return not any(map(reads_order, node.users))
    by_one = name == "aten::mul" and len(node.args) == 2 and node.args[1] in (1, 1.0)
    if name not in _CASTS and name not in _RESHAPES and not by_one:
        return False
    source = node.args[0] if node.args else None
    before = source.meta.get("val") if isinstance(source, Node) else None
    after = node.meta.get("val")
    if not isinstance(before, torch.Tensor) or not isinstance(after, torch.Tensor):
        return False
    if before.dtype != after.dtype or before.device != after.device or before.layout != after.layout:
        return False
    return name in _CASTS or _same_sizes(before, after)


def _same_sizes(before: torch.Tensor, after: torch.Tensor) -> bool:
    """Whether the sizes are written alike; two that are only equal for some inputs never are."""
    return before.dim() == after.dim() and all(
        written_size(a) == written_size(b) for a, b in zip(before.shape, after.shape, strict=True)
    )
