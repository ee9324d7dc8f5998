"""Whether what inputs hold, and not their sizes alone, reaches a node."""

from __future__ import annotations

from torch._ops import OpOverload
from torch.fx import Node

from trtdiag.graph.operators import OF_SIZES, schema_name


def depends_on_contents(node: Node) -> bool:
    """Whether a path leads to ``node`` from an input, other than through sizes (``arange(x.shape[1])``).

    Args:
        node: Of a graph whose placeholders are the user's inputs, weights and buffers being attributes.

    Cost: linear in the nodes before it.
    """
    seen, waiting = {node}, [node]
    while waiting:
        here = waiting.pop()
        if here.op == "placeholder":
            return True
        if _of_sizes(here):
            continue
        for source in here.all_input_nodes:
            if source not in seen:
                seen.add(source)
                waiting.append(source)
    return False


def _of_sizes(node: Node) -> bool:
    """Whether the call reads nothing of its tensors but sizes, dtype and device."""
    if not isinstance(node.target, OpOverload):
        return False
    name = schema_name(node.target)
    return name in OF_SIZES or name.endswith("_like") or name.startswith("aten::new_")
