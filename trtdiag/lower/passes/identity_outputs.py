"""Gives an output that is an input an op of its own: an engine cannot return what it was given."""

from __future__ import annotations

import torch
from torch.fx import Node

from trtdiag.lower.draft import Draft, insert_call


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
