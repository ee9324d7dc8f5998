"""Takes out assertions, which guards and ranges say as well, and what nothing uses, such as outputs nobody takes.

Checks of what the user assumed stay: nothing else names the assumption where it does not hold.
"""

from __future__ import annotations

import torch
from torch.fx import Node

from trtdiag.graph.node_kinds import NodeKind, classify
from trtdiag.graph.operators import HigherOrderOperator, operator_of, writes
from trtdiag.graph.size_check import CHECK_SIZE
from trtdiag.lower.draft import Draft, insert_call


def take_dead_code_out(draft: Draft) -> int:
    """Remove unused calls; placeholders stay, since they are the signature."""
    count = 0
    for node in reversed(list(draft.graph.nodes)):
        if node.op in ("call_function", "get_attr") and not node.users and not _acts(node):
            draft.graph.erase_node(node)
            count += 1
    return count


def _acts(node: Node) -> bool:
    """Whether a call does more than return a value."""
    if isinstance(node.target, HigherOrderOperator) or writes(node) or classify(node) is NodeKind.ASSERT:
        return True
    op = operator_of(node)
    # Drawing a random number moves the generator on for those that draw after it.
    return op is not None and (torch.Tag.nondeterministic_seeded in op.tags or node.is_impure())


def take_assertions_out(draft: Draft) -> int:
    """Remove nodes that only check; what was computed for them alone goes with the dead code."""
    asserts = (node for node in draft.graph.nodes if classify(node) is NodeKind.ASSERT and not node.users)
    found = [node for node in asserts if node.target is not CHECK_SIZE]
    for node in found:
        draft.graph.erase_node(node)
    return len(found)


# Gives an output that is an input an op of its own: an engine cannot return what it was given.


def copy_returned_inputs(draft: Draft) -> int:
    """Put a clone between each returned placeholder or attribute and the output."""
    output = draft.output
    made: dict[Node, Node] = {}
    for value in output.all_input_nodes:
        if value.op in ("placeholder", "get_attr") and isinstance(value.meta.get("val"), torch.Tensor):
            with draft.graph.inserting_before(output):
                clone, name = torch.ops.aten.clone.default, f"{value.name}_returned"
                made[value] = insert_call(draft.graph, clone, (value,), value.meta["val"], value, name=name)
    output.args = torch.fx.map_arg(output.args, lambda node: made.get(node, node))
    return len(made)
