"""Whether what inputs hold, and not their sizes alone, reaches a node."""

from __future__ import annotations

from torch._ops import OpOverload
from torch.fx import Node

from trtdiag.graph.operators import OF_SIZES, schema_name
from trtdiag.graph.reach import reached


def depends_on_contents(node: Node) -> bool:
    """Whether a path leads to ``node`` from an input, other than through sizes (``arange(x.shape[1])``).

    Args:
        node: Of a graph whose placeholders are the user's inputs, weights and buffers being attributes.

    Cost: linear in the nodes before it.
    """
    before = reached([node], lambda here: () if _of_sizes(here) else here.all_input_nodes)
    return any(here.op == "placeholder" for here in before)


def _of_sizes(node: Node) -> bool:
    """Whether the call reads nothing of its tensors but sizes, dtype and device."""
    if not isinstance(node.target, OpOverload):
        return False
    name = schema_name(node.target)
    return name in OF_SIZES or name.endswith("_like") or name.startswith("aten::new_")
