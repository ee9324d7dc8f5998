"""Every node of a graph with its qualified name and its kind, nested subgraphs included; and what steps lead to."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache, reduce
from typing import Any, TypeVar

from torch import Tensor
from torch.fx import GraphModule, Node

from trtdiag.graph.operators import HigherOrderOperator, OpOverload, schema_name, target_name


class NodeKind(Enum):
    """What a node is to the program."""

    PLACEHOLDER = "placeholder"  # an input of its graph: the user's, a weight's, or a subgraph's argument
    ATTRIBUTE = "attribute"  # a tensor read from the module
    SUBGRAPH = "subgraph"  # a nested graph, named for a higher-order op
    OP = "op"  # computes tensors
    HIGHER_ORDER = "higher order"  # runs a nested graph
    ELEMENT = "element"  # picks one of several outputs
    SHAPE = "shape"  # computes with sizes, not with tensors
    ASSERT = "assert"  # checks a condition, computes nothing
    NO_OP = "no-op"  # hands its input on unchanged, or only switches a mode
    OUTPUT = "output"


_ASSERTS = frozenset(
    {
        "aten::_assert_async",
        "aten::_assert_scalar",
        "aten::_assert_tensor_metadata",
        "aten::_functional_assert_async",
        "aten::_functional_assert_scalar",
        "aten::_functional_sym_constrain_range",
        "aten::_functional_sym_constrain_range_for_size",
        "aten::sym_constrain_range",
        "aten::sym_constrain_range_for_size",
        "trtdiag::check_size",
    }
)
_NO_OPS = frozenset({"aten::alias", "aten::detach", "aten::detach_", "aten::lift_fresh"})
# They switch a mode of PyTorch around the ops that follow.
_MODES = frozenset(
    {"torch._C._set_grad_enabled", "torch.amp.autocast_mode._enter_autocast", "torch.amp.autocast_mode._exit_autocast"}
)
# Their third argument says whether they drop anything; exported for inference they do not.
_DROPOUTS = frozenset(
    {
        *("aten::dropout", "aten::dropout_", "aten::feature_dropout", "aten::alpha_dropout"),
        "aten::feature_alpha_dropout",
    }
)


@dataclass(frozen=True, slots=True)
class LocatedNode:
    """A node, the graph it belongs to, and its name across all nested graphs.

    Attributes:
        name: ``node``, or ``sub.node`` in the nested graph that the attribute ``sub`` holds.
        node: The node.
        kind: What it is to the program.
        owner: The module whose graph it is in.
        depth: 0 in the program's own graph.
    """

    name: str
    node: Node
    kind: NodeKind
    owner: GraphModule
    depth: int


def walk(owner: GraphModule, prefix: str = "", depth: int = 0) -> Iterator[LocatedNode]:
    """Yield every node once, in graph order; a nested graph's nodes follow the node that names it."""
    entered: set[str] = set()
    for node in owner.graph.nodes:
        yield LocatedNode(prefix + node.name, node, classify(node), owner, depth)
        if node.op != "get_attr":  # nearly all nodes
            continue
        nested = subgraph_of(owner, node)
        if nested is not None and node.target not in entered:
            entered.add(str(node.target))
            yield from walk(nested, f"{prefix}{node.target}.", depth + 1)


def attribute_of(owner: GraphModule, node: Node) -> object:
    """Return what a ``get_attr`` node reads; ``None`` for other nodes and for attributes that do not exist."""
    if node.op != "get_attr":
        return None
    whole: Any = owner
    return reduce(lambda value, part: getattr(value, part, None), str(node.target).split("."), whole)


def subgraph_of(owner: GraphModule, node: Node) -> GraphModule | None:
    """Return the nested graph that a ``get_attr`` node names, ``None`` for any other node."""
    value = attribute_of(owner, node)
    return value if isinstance(value, GraphModule) else None


def classify(node: Node) -> NodeKind:
    """Return what a node is to the program; looks at this node alone.

    A ``get_attr`` node counts as a subgraph by its own module, a constant symbol computation as ``SHAPE``.
    """
    if node.op == "placeholder":
        return NodeKind.PLACEHOLDER
    if node.op == "output":
        return NodeKind.OUTPUT
    if node.op == "get_attr":
        owner = node.graph.owning_module
        is_graph = owner is not None and subgraph_of(owner, node) is not None
        return NodeKind.SUBGRAPH if is_graph else NodeKind.ATTRIBUTE
    kind = kind_of_target(node.target)
    if kind is not None:
        return kind
    if isinstance(node.target, OpOverload):
        share, train = ([*node.args[1:3], None, None])[:2]
        share, train = node.kwargs.get("p", share), node.kwargs.get("train", train)
        return NodeKind.NO_OP if train is False or share == 0 else NodeKind.OP
    # Python functions on sizes: operator.*, math.*, torch.sym_*.  One that yields a tensor is an op of its own.
    return NodeKind.OP if isinstance(node.meta.get("val"), Tensor) else NodeKind.SHAPE


def kind_of_target(target: object) -> NodeKind | None:
    """Return what every call of a target is to a program, ``None`` where the arguments or the result decide."""
    if isinstance(target, OpOverload):
        return None if schema_name(target) in _DROPOUTS else _kind_of(target)
    if isinstance(target, HigherOrderOperator):
        return NodeKind.HIGHER_ORDER
    if target is operator.getitem:
        return NodeKind.ELEMENT
    return NodeKind.NO_OP if target_name(target) in _MODES else None


@lru_cache(maxsize=4096)
def _kind_of(op: OpOverload) -> NodeKind:
    name = schema_name(op)
    if name in _ASSERTS:
        return NodeKind.ASSERT
    if name in _NO_OPS:
        return NodeKind.NO_OP
    return NodeKind.SHAPE if name.partition("::")[2].startswith("sym_") else NodeKind.OP


Place = TypeVar("Place", bound=Hashable)


def reached(starts: Iterable[Place], step: Callable[[Place], Iterable[Place]]) -> Iterator[Place]:
    """Yield the starts and all that steps lead to from there, each once; what is not asked for is not looked at."""
    seen = set(starts)
    waiting = list(seen)
    while waiting:
        here = waiting.pop()
        yield here
        further = {each for each in step(here) if each not in seen}
        seen |= further
        waiting += further
