"""The nodes of a program as the picture needs them: kinds, shapes in words, and which values each one reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from torch.fx import GraphModule, Node

from trtdiag.analysis.result import Analysis
from trtdiag.frontend.program import OpOrigin
from trtdiag.graph.node_kinds import LocatedNode, NodeKind, subgraph_of, walk
from trtdiag.graph.operators import target_name
from trtdiag.graph.values import leaves
from trtdiag.report.drawing.op_arguments import OpArgument, op_arguments
from trtdiag.report.drawing.shape_words import ShapeWords
from trtdiag.wording import one_line

_NO_ORIGIN = OpOrigin("", "")


class Role(Enum):
    """What a node is in the picture; only the first three are boxes."""

    OP = "op"
    INPUT = "input"
    OUTPUT = "output"
    WEIGHT = "weight"  # parameters, buffers and constants: the ops that read them name them
    SHAPE = "shape"  # computes with sizes
    CHECK = "check"  # asserts, and what hands its input on unchanged

    @property
    def drawn(self) -> bool:
        """Whether such a node is a box."""
        return self in (Role.OP, Role.INPUT, Role.OUTPUT)


_ROLES = {
    NodeKind.ATTRIBUTE: Role.WEIGHT,
    NodeKind.OP: Role.OP,
    NodeKind.HIGHER_ORDER: Role.OP,
    NodeKind.ELEMENT: Role.CHECK,
    NodeKind.SHAPE: Role.SHAPE,
    NodeKind.ASSERT: Role.CHECK,
    NodeKind.NO_OP: Role.CHECK,
    NodeKind.OUTPUT: Role.OUTPUT,
}
_TRANSPARENT = (NodeKind.ELEMENT, NodeKind.NO_OP)


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """One node.

    Attributes:
        name: Across nested graphs (``sub.node``), as findings name it.
        op: ``aten.add.Tensor``.
        label: What its box says: ``add``, an input's name.
        role: What it is in the picture.
        shape: ``f32[batch, 8, seq]``; empty where it has none.
        ranges: ``batch 1..8, seq 2..256``.
        origin: The innermost module, and the Python stack of the call.
        reads: Positions of the nodes whose values it reads, seen through what only hands them on.
        arguments: What it is called with besides tensors.
    """

    name: str
    op: str
    label: str
    role: Role
    shape: str
    ranges: str
    origin: OpOrigin
    reads: tuple[int, ...]
    arguments: tuple[OpArgument, ...] = ()


def drawn_nodes(analysis: Analysis, graph_module: GraphModule) -> tuple[DrawnNode, ...]:
    """Every node in graph order, nested graphs in place of their calls.  Cost: linear in nodes and edges."""
    user_inputs = {tensor.placeholder: tensor.name for tensor in analysis.program.inputs}
    # Arguments and results of a nested graph are the values of the graph around it.
    edges = (NodeKind.PLACEHOLDER, NodeKind.OUTPUT)
    every = (at for at in walk(graph_module) if at.depth == 0 or at.kind not in edges)
    located = [at for at in every if at.kind is not NodeKind.SUBGRAPH]
    wiring = _Wiring(graph_module, {at.node: position for position, at in enumerate(located)})
    for at in located:
        if at.kind in _TRANSPARENT:
            wiring.see_through(at.node)
    words = ShapeWords(analysis)
    return tuple(_drawn(at, analysis.program.origins, user_inputs, words, wiring) for at in located)


def _drawn(
    at: LocatedNode, origins: Mapping[str, OpOrigin], user_inputs: Mapping[str, str], words: ShapeWords, wiring: _Wiring
) -> DrawnNode:
    origin = origins.get(at.name, _NO_ORIGIN)
    shape, ranges = words.of(at.name, at.node)
    if at.kind is NodeKind.PLACEHOLDER:
        role = Role.INPUT if at.node.name in user_inputs else Role.WEIGHT
        op = role.value
        label = user_inputs.get(at.node.name, at.name)
    else:
        role = _ROLES[at.kind]
        op = role.value if role is Role.OUTPUT else target_name(at.node.target)
        label = _op_words(op)
    arguments = op_arguments(at.node, words) if role is Role.OP else ()
    return DrawnNode(at.name, one_line(op), label, role, shape, ranges, origin, wiring.reads(at.node), arguments)


def _op_words(op: str) -> str:
    """``aten.add.Tensor`` as ``add``; an op of another library keeps its name space."""
    parts = op.split(".")
    if len(parts) == 3:
        return parts[1] if parts[0] == "aten" else f"{parts[0]}.{parts[1]}"
    return op


class _Wiring:
    """Which shown nodes a node reads from."""

    def __init__(self, root: GraphModule, positions: dict[Node, int]) -> None:
        self._positions = positions
        self._behind: dict[Node, tuple[Node, ...]] = {}
        self._enter(root)

    def _enter(self, owner: GraphModule) -> None:
        """Tie the arguments of nested graphs to what is passed, and the graph itself to what it returns."""
        for node in owner.graph.nodes:
            nested = subgraph_of(owner, node)
            if nested is None:
                continue
            self._enter(nested)
            arguments = [inner for inner in nested.graph.nodes if inner.op == "placeholder"]
            for user in node.users:
                # Operands come last in every higher-order op; what stands before them says how to run the graph.
                operands = list(leaves((user.args, user.kwargs)))[-len(arguments) :] if arguments else []
                for argument, operand in zip(arguments, operands, strict=False):
                    if isinstance(operand, Node) and operand is not node:
                        self._behind[argument] = (*self._behind.get(argument, ()), operand)
            self._behind[node] = tuple(
                result for inner in nested.graph.nodes if inner.op == "output" for result in inner.all_input_nodes
            )

    def reads(self, node: Node) -> tuple[int, ...]:
        """Positions of the shown nodes that this node reads, each once, in the order of its arguments."""
        found: dict[int, None] = {}
        waiting = list(reversed(node.all_input_nodes))
        seen: set[Node] = set()
        while waiting:
            source = waiting.pop()
            if source in seen:
                continue
            seen.add(source)
            behind = self._behind.get(source)
            position = self._positions.get(source)
            if behind is not None:
                waiting.extend(reversed(behind))
            elif position is not None:
                found[position] = None
        return tuple(found)

    def see_through(self, node: Node) -> None:
        """Let readers of ``node`` read its first input instead."""
        self._behind[node] = tuple(node.all_input_nodes[:1])
