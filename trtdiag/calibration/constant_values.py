"""The values of nodes that depend on a program's weights alone."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch.fx import Node
from torch.fx.node import map_arg

from trtdiag.graph.fake_values import has_values
from trtdiag.graph.operators import operator_of, writes
from trtdiag.lower.graph_copy import GraphCopy, constant_tensors


class ConstantValues:
    """Computes weights as ops read them: transposed, reshaped, scaled.

    Args:
        draft: The graph with its tensors; what a program changes is no constant.
    """

    def __init__(self, draft: GraphCopy) -> None:
        held: Mapping[str, torch.Tensor] = constant_tensors(
            draft.input_specs, draft.output_specs, draft.tensors, draft.graph
        )
        self._held = {name: value for name, value in held.items() if has_values(value)}
        self._known: dict[Node, bool] = {}

    def known(self, node: object) -> bool:
        """Whether a node is a constant or made of constants alone."""
        if not isinstance(node, Node):
            return False
        if node not in self._known:
            self._known[node] = self._is_known(node)
        return self._known[node]

    def value(self, node: Node) -> torch.Tensor:
        """The value of a node that is known."""
        if node.op == "placeholder":
            return self._held[node.name].detach()
        args, kwargs = map_arg(node.args, self.value), map_arg(node.kwargs, self.value)
        with torch.no_grad():
            return node.target(*args, **kwargs)  # type: ignore[operator,no-any-return]  # an op of one tensor

    def _is_known(self, node: Node) -> bool:
        if node.op == "placeholder":
            return node.name in self._held
        op = operator_of(node)
        if op is None or op.namespace != "aten" or writes(node) or not node.all_input_nodes:
            return False
        if torch.Tag.nondeterministic_seeded in op.tags or not isinstance(node.meta.get("val"), torch.Tensor):
            return False
        return all(map(self.known, node.all_input_nodes))
