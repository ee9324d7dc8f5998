"""Splits a program into segments for engines and the rest, with a reason for every op of the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from torch.fx import Graph, GraphModule, Node

from trtdiag.errors import UnsupportedOpError
from trtdiag.frontend.node_origins import origin_of
from trtdiag.graph.limit import Limit
from trtdiag.graph.user_entries import Entries
from trtdiag.graph.values import NodeReader
from trtdiag.grouping import grouped
from trtdiag.options import PartitionOptions
from trtdiag.partition.facts import Cause, Fallback, Partitioned
from trtdiag.partition.levels import earliest_levels, without_small
from trtdiag.partition.move_ops import placed
from trtdiag.partition.op_graph import Op, OpGraph, Plan
from trtdiag.partition.read_graph import read_graph
from trtdiag.partition.segments import assemble
from trtdiag.partition.traffic import ByteCounts
from trtdiag.shapes.profile import DimProfile
from trtdiag.symbolic.ranges import Range

# As many nodes and reasons as a person reads in an error.
MOST_NODES = 3
MOST_REASONS = 20


def partition(
    graph: Graph | GraphModule,
    limits: Mapping[str, Limit],
    options: PartitionOptions,
    *,
    symbols: Mapping[str, DimProfile] | None = None,
    held: Collection[str] = (),
    reader: NodeReader | None = None,
) -> Partitioned:
    """Return the fewest segments that hold every supported op, then the place of ops that crosses the fewest bytes.

    An op that ``limits`` does not name is supported.  Numbers never cross: a segment recomputes the sizes that it
    needs from its own inputs, and what it cannot recompute enters as a tensor.  Ops that PyTorch runs keep their order
    between two segments, not across one: random ops in PyTorch may draw in another order than before.

    Args:
        graph: A graph in topological order with metadata; nested graphs stay with PyTorch.
        limits: Why a node cannot go into an engine, by node name; that of a getitem node is its op's, that of a size
            means that the size enters as a tensor (or, where PyTorch cannot compute it from the program's inputs,
            that the ops which take it stay there).
        options: What the user asked for.
        symbols: Sizes of symbols to count bytes at (``symbol_sizes``).
        held: Placeholders whose value the program brings and does not change (weights, constants): they are part of
            an engine and cross nothing.
        reader: Reads the metadata of the graph's nodes; one that has read them before saves most of the time.

    Raises:
        UnsupportedOpError: ``require_full``, and an op must stay with PyTorch.
        ValueError: ``limits`` names what is neither op nor size.

    Cost: linear in nodes and edges, times the rounds that small segments take.
    """
    graph = graph.graph if isinstance(graph, GraphModule) else graph
    read = read_graph(graph, held, reader)
    kept, unused_keeps = kept_ops(graph, read.ops, options.keep_in_torch)
    plan = _plan(read, limits, kept, options)
    wanted = plan.supported()
    if options.require_full:
        _check_full(plan)
    supported, levels = decide(plan, wanted)
    count = ByteCounts(symbols or {})
    levels = placed(read, supported, levels, count.weight, _least(plan, wanted))
    segments, boundaries, steps, torch_sizes = assemble(plan, supported, levels, count)
    fallback = _fallback(plan, wanted, supported)
    return Partitioned(segments, fallback, boundaries, steps, torch_sizes, unused_keeps, plan)


def symbol_sizes(box: Mapping[str, Range], hints: Mapping[str, int]) -> dict[str, DimProfile]:
    """Return the sizes of every symbol with a lower end: its range, and what is usual.

    That is the example's size, or the end of the range next to it.  A symbol without an example, born from data, gets
    the middle of its range, which engines are tuned for (``opt_sizes``), or its least size where it has no end.
    """
    found = {}
    for symbol, declared in box.items():
        if declared.min is not None:
            middle = declared.min if declared.max is None else (declared.min + declared.max) // 2
            usual = max(declared.min, hints.get(symbol, middle))
            usual = usual if declared.max is None else min(usual, declared.max)
            found[symbol] = DimProfile(declared.min, usual, declared.max)
    return found


def _plan(read: OpGraph, limits: Mapping[str, Limit], kept: Mapping[int, Limit], options: PartitionOptions) -> Plan:
    if not limits:
        return Plan(read, {}, {}, kept, options)
    places = {name: index for index, op in enumerate(read.ops) for name in (*op.elements, op.name)}
    strange = [name for name in limits if name not in places and name not in read.sizes]
    if strange:
        raise ValueError(f"limits name what is neither op nor size: {', '.join(sorted(strange)[:MOST_NODES])}")
    limited_sizes = {name: limit for name, limit in limits.items() if name not in places}
    limited = {places[name]: limit for name, limit in limits.items() if name in places}
    return Plan(read, {**_limited_by_sizes(read, limited_sizes), **limited}, limited_sizes, kept, options)


def _limited_by_sizes(read: OpGraph, limited_sizes: Mapping[str, Limit]) -> dict[int, Limit]:
    """Return the ops that take a size which no engine may compute and PyTorch cannot from the program's inputs.

    It may hang on a tensor of the op's own segment, and so could not enter it.
    """
    if not limited_sizes:
        return {}
    stuck: dict[str, Limit] = {}
    for size in read.sizes.values():
        if size.sources is None:
            limit = limited_sizes.get(size.name) or next((stuck[o] for o in size.operands if o in stuck), None)
            if limit is not None:
                stuck[size.name] = limit
    return {
        index: next(stuck[name] for name in op.sizes if name in stuck)
        for index, op in enumerate(read.ops)
        if any(name in stuck for name in op.sizes)
    }


def decide(plan: Plan, wanted: Sequence[bool]) -> tuple[list[bool], list[int]]:
    """Return which ops are in segments and the level of every op, once small segments are gone."""
    least = _least(plan, wanted)
    graph = plan.graph
    if least == 0:
        return list(wanted), earliest_levels(graph.before, wanted)
    return without_small(graph.before, graph.after, wanted, [op.work for op in graph.ops], least)


def _least(plan: Plan, wanted: Sequence[bool]) -> int:
    if plan.options.require_full or plan.options.min_segment_ops == 0:
        return 0
    # A program that is one engine whole crosses nothing that it could keep on one side.
    whole = all(inside or not op.computes for op, inside in zip(plan.graph.ops, wanted, strict=True))
    return 0 if whole else plan.options.min_segment_ops


def _reason(plan: Plan, index: int) -> tuple[Cause, Limit] | None:
    nature = plan.graph.ops[index].nature
    if nature is not None:
        return Cause.NATURE, nature
    if index in plan.kept:
        return Cause.KEPT, plan.kept[index]
    return (Cause.LIMIT, plan.limited[index]) if index in plan.limited else None


def _fallback(plan: Plan, wanted: Sequence[bool], supported: Sequence[bool]) -> tuple[Fallback, ...]:
    if all(supported):
        return ()
    small: Limit | None = None
    found = []
    for index, inside in enumerate(supported):
        if not inside:
            op = plan.graph.ops[index]
            reason = None if wanted[index] else _reason(plan, index)
            if reason is None:
                small = small or _too_small(plan.options.min_segment_ops)
                reason = Cause.SMALL, small
            found.append(Fallback(op.name, op.target, reason[0], reason[1], op.computes))
    return tuple(found)


def _too_small(least: int) -> Limit:
    return Limit(
        "segment-too-small",
        f"its segment would have fewer than {least} op{'s' * (least != 1)} that compute",
        "support the ops around it, or lower min_segment_ops",
    )


def _check_full(plan: Plan) -> None:
    found = ((_reason(plan, index), index) for index, op in enumerate(plan.graph.ops) if op.computes)
    reasons = grouped((reason[1], index) for reason, index in found if reason is not None)
    if not reasons:
        return
    count = sum(map(len, reasons.values()))
    lines = [_line(plan, limit, found) for limit, found in list(reasons.items())[:MOST_REASONS]]
    left_out = len(reasons) - len(lines)
    fixes = list(dict.fromkeys(limit.fix for limit in reasons if limit.fix))[:MOST_NODES]
    raise UnsupportedOpError(
        f"{count} of {len(plan.graph.ops)} ops cannot be in an engine, and require_full leaves none to PyTorch",
        because="; ".join(lines) + (f"; and {left_out} more reasons" if left_out else ""),
        fix="; ".join([*fixes, "or leave require_full out"]),
        reference="ops-left-to-pytorch",
    )


def _line(plan: Plan, limit: Limit, found: Sequence[int]) -> str:
    """Return one reason with its ops, most frequent first, and the first few nodes."""
    ops = Counter(plan.graph.ops[index].target for index in found)
    told = ", ".join(f"{op} ({times}x)" if times > 1 else op for op, times in ops.most_common())
    nodes = ", ".join(plan.graph.ops[index].name for index in found[:MOST_NODES])
    more = f" and {len(found) - MOST_NODES} more" if len(found) > MOST_NODES else ""
    return f"{told}: {limit.why} [{limit.code}] (at {nodes}{more})"


def kept_ops(graph: Graph, ops: Sequence[Op], entries: Sequence[str]) -> tuple[Mapping[int, Limit], tuple[str, ...]]:
    """Return the ops that an entry names, by index, and the entries that name nothing."""
    if not entries:
        return {}, ()
    nodes: Mapping[str, Node] = {node.name: node for node in graph.nodes}
    known = Entries(entries)
    kept: dict[int, Limit] = {}
    for index, op in enumerate(ops):
        entry = known.naming(op.target, origin_of(nodes[op.name]).module_path)
        if entry is not None:
            kept[index] = Limit("kept-in-torch", f"keep_in_torch names {entry}", f"take {entry} out of keep_in_torch")
    return kept, known.unused
