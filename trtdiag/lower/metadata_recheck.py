"""Compares what every node says of its value with what its op gives for the values of its inputs."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses.fake_tensor import DynamicOutputShapeException
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from trtdiag.graph.node_kinds import attribute_of
from trtdiag.graph.operators import target_name
from trtdiag.lower.autocast import under_autocast
from trtdiag.lower.concrete_values import Point, TensorAt, UnplaceableError, same, spell
from trtdiag.lower.facts import Defect
from trtdiag.lower.nested_calls import Modes
from trtdiag.lower.template import frozen, replaced
from trtdiag.wording import first_line

_ABSENT = object()


@dataclass(frozen=True)
class Suspect:
    """A node whose recorded value is missing or differs; ``root`` when none of its inputs is suspect."""

    node: Node
    defect: Defect
    recorded: str
    root: bool
    reason: str


@dataclass
class Recheck:
    """The result of one graph: suspects in graph order, counts, and nodes that could not be re-run."""

    suspects: list[Suspect] = field(default_factory=list)
    checked: int = 0
    recomputed: int = 0
    unchecked: dict[str, str] = field(default_factory=dict)


def recheck(graph_module: GraphModule, numbers: Mapping[str, int], modes: Modes | None = None) -> Recheck:
    """Re-run each distinct call once at the point ``numbers`` (symbol -> size) and compare dtype and sizes.

    Calls with equal ops and equal input shapes are run once: a decoder of 32 equal layers costs little more than one.
    ``modes`` is the state of autocast around the graph.
    """
    point = Point(numbers)
    result = Recheck()
    actual: dict[Node, Any] = {}
    ran: dict[Any, tuple[Any, str]] = {}
    suspect: set[Node] = set()
    with torch.no_grad():
        for node in under_autocast(graph_module.graph, modes or {}):
            if not needs_value(node, graph_module):
                continue
            result.checked += 1
            recorded = node.meta.get("val", _ABSENT)
            try:
                placed = _ABSENT if recorded is _ABSENT else point.place(recorded)
            except UnplaceableError as why:
                result.unchecked[node.name] = str(why)
                actual[node] = _ABSENT
                continue
            again, why_not = rerun(node, point, actual, ran)
            broken_inputs = any(source in suspect for source in node.all_input_nodes)
            if placed is _ABSENT:
                result.suspects.append(Suspect(node, Defect.MISSING, "", not broken_inputs, why_not))
                suspect.add(node)
            elif again is not _ABSENT and not same(again, placed):
                result.suspects.append(
                    Suspect(node, Defect.STALE, spell(placed), not broken_inputs, f"its op gives {spell(again)}")
                )
                suspect.add(node)
            elif why_not and node.op == "call_function":
                result.unchecked[node.name] = why_not
            actual[node] = placed if again is _ABSENT else again
    result.recomputed = len(ran)
    return result


_PLAIN = (torch.BoolType, torch.IntType, torch.FloatType)


def needs_value(node: Node, graph_module: GraphModule) -> bool:
    """Whether a node has a value at all.

    Outputs, subgraphs, ops that return nothing (assertions) and ops whose answer only Python used have none.
    """
    if node.op == "output":
        return False
    if node.op == "get_attr":
        return isinstance(attribute_of(graph_module, node), torch.Tensor)
    if isinstance(node.target, OpOverload):
        return bool(node.target._schema.returns) and not _answers_python(node)
    return True


def _answers_python(node: Node) -> bool:
    """Whether an op gave tracing a plain bool, number or dtype: torch keeps the call, unused, and ``None`` for it."""
    if node.users or node.meta.get("val", _ABSENT) is not None or not isinstance(node.target, OpOverload):
        return False
    return all(isinstance(returned.type, _PLAIN) for returned in node.target._schema.returns)


def rerun(node: Node, point: Point, actual: Mapping[Node, Any], ran: dict[Any, tuple[Any, str]]) -> tuple[Any, str]:
    """The placed value that the node's op gives; or a meaningless one and the reason why there is none.

    Args:
        node: A node of the graph.
        point: Where sizes are numbers.
        actual: The placed value of each of its inputs.
        ran: Distinct calls that were run before, and what they gave; filled.
    """
    if node.op != "call_function":
        return _ABSENT, "an input has no op to recompute it from"
    if isinstance(node.target, HigherOrderOperator):
        return _ABSENT, f"{node.target} runs a subgraph, whose nodes are checked instead"
    if node.meta.get("unbacked_bindings"):
        return _ABSENT, "its size depends on data"
    if any(actual.get(source, _ABSENT) is _ABSENT for source in node.all_input_nodes):
        return _ABSENT, "an input of it has no known value"
    args, kwargs = map_arg((node.args, node.kwargs), lambda n: actual[n])
    autocast = torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda")
    key = (node.target, frozen(args), frozen(kwargs), autocast)
    if key not in ran:
        ran[key] = _given(node.target, args, kwargs, point)
    return ran[key]


def _given(op: Any, args: Any, kwargs: Any, point: Point) -> tuple[Any, str]:
    try:
        # Of other ops it would look up parts that run once.
        with point.mode, point.calls if "batch_norm" in target_name(op) else nullcontext():
            out = op(*replaced(args, point.tensor, TensorAt), **replaced(kwargs, point.tensor, TensorAt))
        return point.place(out), ""
    except UnplaceableError as why:
        return _ABSENT, str(why)
    except DynamicOutputShapeException:
        return _ABSENT, "its size depends on data"
    except Exception as error:  # an op's fake kernel may raise anything; it is reported, not lost
        return _ABSENT, f"{type(error).__name__}: {first_line(error, '')}"
