"""Batch norm in training mode, which changes its running statistics although its schema does not say so."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import Node

from trtdiag.graph.operators import ATEN
from trtdiag.lower.draft import Draft, insert_call
from trtdiag.lower.tracing_conditions import asking

WRITES_STATISTICS = frozenset({ATEN._native_batch_norm_legit.default})
"""Ops of the core set that say so in their schema, and are written as the others here."""


def write_running_statistics(draft: Draft) -> None:
    """Replace each such batch norm by its functional form and two writes that everyone can see."""
    for node in list(draft.graph.nodes):
        if node.target is ATEN.batch_norm.default and node.args[5] and node.args[3] is not None:
            _replace(draft, node)
        elif node.target in WRITES_STATISTICS:
            if node.args[5]:
                _replace(draft, node)
            else:  # it writes nothing then
                node.target = ATEN._native_batch_norm_legit_no_training.default
                node.args = (*node.args[:5], *node.args[6:])


def _replace(draft: Draft, node: Node) -> None:
    # The last argument of batch_norm chooses cuDNN, which the functional form does not have.
    args = node.args[:8]
    target = ATEN._native_batch_norm_legit_functional.default
    vals = torch.fx.map_arg(args, lambda source: source.meta["val"])
    with torch.no_grad(), draft.mode, asking(draft.mode.shape_env):
        made: tuple[Any, ...] = target(*vals)
    with draft.graph.inserting_before(node):
        norm = insert_call(draft.graph, target, args, made, node, "functional")

        def part(index: int) -> Node:
            return insert_call(draft.graph, operator.getitem, (norm, index), made[index], node, str(index))

        result = norm
        if node.target is ATEN.batch_norm.default:
            result = part(0)
            result.meta["val"] = node.meta["val"]
        for index in (3, 4):  # mean and variance stand there among arguments and results
            buffer = args[index]
            assert isinstance(buffer, Node)
            write, name = (buffer, part(index)), f"{buffer.name}__write"
            insert_call(draft.graph, ATEN.copy_.default, write, buffer.meta["val"], node, name=name)
    node.replace_all_uses_with(result)
    draft.graph.erase_node(node)
