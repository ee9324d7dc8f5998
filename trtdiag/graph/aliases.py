"""Which node's memory a node's output lives in: views and in-place ops, by their schemas' alias annotations."""

from __future__ import annotations

from torch.fx import Node

from trtdiag.graph.operators import operator_of, schema_name, shared_argument
from trtdiag.graph.values import TensorValue, ValueReader
from trtdiag.graph.walk import NodeKind, classify

# Annotated as views, but they copy when the memory order does not allow one.
_VIEW_OR_COPY = frozenset(
    {"aten::reshape", "aten::contiguous", "aten::flatten", "aten::reshape_as", "aten::unflatten", "aten::ravel"}
)
# Annotated as views, but they copy when dtype, device or memory format differ.
_CAST_OR_SAME = frozenset({"aten::to", "aten::type_as", "aten::float", "aten::_to_copy"})


def alias_base(node: Node, reader: ValueReader) -> Node | None:
    """Return the node whose memory this node's output is in, ``None`` where it has memory of its own.

    One step only: the base may be a view itself.  An op whose schema lies (a custom op) is believed.
    """
    kind = classify(node)
    if kind is NodeKind.ELEMENT:
        source = node.args[0]
        return source if isinstance(source, Node) else None
    if kind is NodeKind.NO_OP:
        return node.all_input_nodes[0] if node.all_input_nodes else None
    op = operator_of(node)
    shared = shared_argument(op) if op is not None else None
    if shared is None:
        return None
    value = node.args[shared.position] if shared.position < len(node.args) else node.kwargs.get(shared.name)
    base = value if isinstance(value, Node) else None
    return base if base is None or _shares(node, base, reader) else None


def _shares(node: Node, base: Node, reader: ValueReader) -> bool:
    op = operator_of(node)
    name = "" if op is None else schema_name(op)
    if name not in _VIEW_OR_COPY and name not in _CAST_OR_SAME:
        return True
    before, after = _tensor(base, reader), _tensor(node, reader)
    if before is None or after is None:
        return False
    if name in _CAST_OR_SAME:
        return before.dtype == after.dtype and before.contiguous == after.contiguous
    return before.contiguous


def _tensor(node: Node, reader: ValueReader) -> TensorValue | None:
    values = reader.read(node)
    return values[0] if len(values) == 1 and isinstance(values[0], TensorValue) else None
