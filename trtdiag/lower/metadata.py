"""The metadata check: after it, every node that can have a value has one, and every doubt is on record."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from trtdiag.frontend.node_origins import origin_of
from trtdiag.frontend.program import OpOrigin, Program
from trtdiag.frontend.read_guards import another_point
from trtdiag.graph.fake_values import fake_mode_of
from trtdiag.graph.recurrent import is_recurrent, recurrent_value
from trtdiag.lower.autocast import under_autocast
from trtdiag.lower.concrete_values import Point, UnplaceableError, same, spell
from trtdiag.lower.facts import Checked, Defect, MetadataDefect
from trtdiag.lower.graph_copy import brought_tensors, copied, graph_of
from trtdiag.lower.lstm_steps import torch_fault
from trtdiag.lower.metadata_recheck import Recheck, Suspect, needs_value, recheck, rerun
from trtdiag.lower.nested_calls import Modes, nested_graphs
from trtdiag.wording import first_line


def check_metadata(program: Program) -> Checked:
    """Check the recorded value of every node; repair in a copy what is missing or stale.

    The program itself is never changed.  Nodes of nested subgraphs are checked as well; they are reported under
    ``<attribute>.<node>``, and one that needs repair is repaired in the copy of its subgraph.

    Raises:
        InternalError: There is no graph to check.
    """
    exported = graph_of(program, "the metadata check", "check-without-graph")
    numbers = _point(program)
    graph_module = exported.graph_module
    outer = recheck(graph_module, numbers)
    other = another_point(program)
    if other is not None:
        known = {suspect.node for suspect in outer.suspects}
        position = {node: index for index, node in enumerate(graph_module.graph.nodes)}
        outer.suspects.extend(frozen_sizes(graph_module, other, known))
        outer.suspects.sort(key=lambda suspect: position[suspect.node])
    checked, recomputed, unchecked = outer.checked, outer.recomputed, dict(outer.unchecked)
    fresh, defects = _repair(program, graph_module, outer, "")
    for name, child, modes in nested_graphs(graph_module):
        inner = recheck(child, numbers, modes)
        fixed, more = _repair(program, child, inner, f"{name}.", modes)
        checked, recomputed = checked + inner.checked, recomputed + inner.recomputed
        unchecked.update({f"{name}.{node}": why for node, why in inner.unchecked.items()})
        if fixed is not child:
            if fresh is graph_module:
                fresh, _, _ = repaired_copy(graph_module, (), exported)
            fresh.set_submodule(name, fixed)
        defects.extend(more)
    return Checked(fresh, tuple(defects), checked, recomputed, unchecked)


def _point(program: Program) -> Mapping[str, int]:
    """A size for every symbol: the example's; for symbols born from data one inside their range."""
    numbers = dict(program.hints)
    for symbol, allowed in program.ranges.items():
        if symbol not in numbers:
            low = 2 if allowed.min is None or allowed.min < 2 else allowed.min
            numbers[symbol] = low if allowed.max is None else min(low, allowed.max)
    return numbers


def _repair(
    program: Program, graph_module: GraphModule, result: Recheck, prefix: str, modes: Modes | None = None
) -> tuple[GraphModule, list[MetadataDefect]]:
    if not result.suspects or program.exported is None:
        return graph_module, []
    fresh, done, failed = repaired_copy(graph_module, result.suspects, program.exported, modes)
    # The sizes of some outputs for training (embedding_bag's) depend on whether a weight asks for gradients.
    wrong = [suspect for suspect in result.suspects if done.get(suspect.node.name) != _recorded(suspect.node)]
    return (fresh if wrong else graph_module), [_defect(suspect, prefix, done, failed) for suspect in wrong]


def _recorded(node: Node) -> str:
    value = node.meta.get("val")
    return "" if value is None else spell(value)


def _defect(suspect: Suspect, prefix: str, done: Mapping[str, str], failed: Mapping[str, str]) -> MetadataDefect:
    node = suspect.node
    origin = origin_of(node) if node.op == "call_function" else OpOrigin("", "")
    fault = torch_fault(node)
    return MetadataDefect(
        node=prefix + node.name,
        target=str(node.target),
        defect=suspect.defect,
        recorded=_recorded(node),
        recomputed=done.get(node.name, ""),
        repaired=node.name in done,
        cause=failed.get(node.name) or fault or suspect.reason,
        root=suspect.root,
        origin=origin,
        torch_fault=fault,
    )


# Gives suspect nodes a right value, by fake propagation in a copy of the graph.


def repaired_copy(
    graph_module: GraphModule, suspects: Sequence[Suspect], exported: ExportedProgram, modes: Modes | None = None
) -> tuple[GraphModule, dict[str, str], dict[str, str]]:
    """A copy whose suspect nodes are recomputed in graph order, under autocast as ``modes`` say it is around the graph.

    Returns:
        The copy, the recomputed value's text by node name, and the reason by name of those that stay without one.
    """
    mode = fake_mode_of(graph_module.graph)
    names = {suspect.node.name for suspect in suspects}
    fresh = copied(graph_module)
    done: dict[str, str] = {}
    failed: dict[str, str] = {}
    tensors = brought_tensors(exported)
    for node in under_autocast(fresh.graph, modes or {}):
        if node.name not in names:
            continue
        node.meta.pop("val", None)
        node.meta.pop("tensor_meta", None)
        try:
            node.meta["val"] = _value(node, mode, tensors)
        except Exception as error:  # a fake kernel may raise anything; the reason is reported
            failed[node.name] = first_line(error)
        else:
            done[node.name] = spell(node.meta["val"])
    return fresh, done, failed


def _value(node: Node, mode: FakeTensorMode, tensors: Mapping[str, Any]) -> Any:
    if node.op == "placeholder":
        tensor = tensors.get(node.name)
        if not isinstance(tensor, torch.Tensor):
            raise ValueError("it is an input, and nothing else records its size")
        return mode.from_tensor(tensor, static_shapes=True)
    if node.op != "call_function":
        raise ValueError(f"a {node.op} node cannot be recomputed")
    lost = [source.name for source in node.all_input_nodes if "val" not in source.meta]
    if lost:
        raise ValueError(f"its input {lost[0]} has no value")
    args, kwargs = map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
    env = mode.shape_env
    with torch.no_grad(), mode:
        if isinstance(node.target, OpOverload) and is_recurrent(node.target):
            made: Callable[..., Any] = recurrent_value  # the kernel refuses sizes that are symbols
            return made(*args, **kwargs)
        if env is None:
            return node.target(*args, **kwargs)  # type: ignore[operator]  # a call_function's target is callable
        pending = list(env.pending_fresh_unbacked_symbols)
        with env.suppress_guards():
            value = node.target(*args, **kwargs)  # type: ignore[operator]  # as above
        if len(env.pending_fresh_unbacked_symbols) > len(pending):
            env.pending_fresh_unbacked_symbols[:] = pending
            raise ValueError("its size depends on data, and the symbol that stood for it is lost")
        return value


# A second look, away from the example: sizes that some pass replaced by the example's number.
#
# At the example's sizes such a value is right, so ``recheck`` cannot see it.  Only nodes whose recorded value mentions
# fewer symbols than their inputs can be wrong in this way: a handful in an honest program (reductions, reshapes).


def frozen_sizes(graph_module: GraphModule, other: Mapping[str, int], known: Collection[Node]) -> list[Suspect]:
    """Nodes whose recorded sizes are wrong at the point ``other``, in graph order; nodes in ``known`` are left out.

    Args:
        graph_module: The graph.
        other: A size for each symbol, other than the example's and allowed by every guard.
        known: Nodes that are suspect already, and need not be looked at again.
    """
    point = Point(other)
    symbols: dict[Node, frozenset[str]] = {}
    placed: dict[Node, Any] = {}
    ran: dict[Any, Any] = {}
    suspects: list[Suspect] = []
    wrong = set(known)
    with torch.no_grad():
        for node in under_autocast(graph_module.graph, {}):
            if not needs_value(node, graph_module) or "val" not in node.meta:
                continue
            symbols[node] = _mentions(node.meta["val"])
            given = frozenset[str]().union(*(symbols.get(source, frozenset()) for source in node.all_input_nodes))
            if node in wrong or not symbols[node] < given or wrong.intersection(node.all_input_nodes):
                continue
            try:
                for source in node.all_input_nodes:
                    if source not in placed and "val" in source.meta:
                        placed[source] = point.place(source.meta["val"])
                recorded = point.place(node.meta["val"])
            except UnplaceableError:
                continue  # a size from data has no other value to look at
            again, why_not = rerun(node, point, placed, ran)
            if not why_not and not same(again, recorded):
                reason = f"its op gives {spell(again)} for other sizes of the inputs"
                suspects.append(Suspect(node, Defect.STALE, spell(recorded), True, reason))
                wrong.add(node)
    return suspects


def _mentions(value: Any) -> frozenset[str]:
    found: set[str] = set()
    for leaf in pytree.tree_leaves(value):
        sizes = [*leaf.shape] if isinstance(leaf, torch.Tensor) else [leaf]
        for size in sizes:
            if isinstance(size, torch.SymInt):
                # sympy's own: a size by a function that we have no word for mentions symbols, too.
                found |= {symbol.name for symbol in size.node.expr.free_symbols}
    return frozenset(found)
