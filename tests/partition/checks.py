"""What holds for every partition, read off the torch.fx graph itself."""

from __future__ import annotations

import contextlib
import itertools
import logging
from collections.abc import Callable

import networkx as nx
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner, Partition
from torch.fx.passes.operator_support import OperatorSupportBase

from trtdiag.graph.node_kinds import NodeKind, classify
from trtdiag.partition.facts import Partitioned

_OPS = frozenset({NodeKind.OP, NodeKind.NO_OP, NodeKind.ASSERT, NodeKind.HIGHER_ORDER})


def homes_of(partitioned: Partitioned) -> dict[str, int]:
    """The segment of every node in one."""
    return {name: s.index for s in partitioned.segments for name in (*s.ops, *s.elements)}


def is_op(node: Node) -> bool:
    return node.op == "call_function" and classify(node) in _OPS


def assert_complete(partitioned: Partitioned, module: GraphModule) -> None:
    """Every op is in one segment or left to PyTorch with a reason, once; getitem is with its producer."""
    inside = [name for segment in partitioned.segments for name in segment.ops]
    outside = [entry.node for entry in partitioned.fallback]
    assert sorted(inside + outside) == sorted(node.name for node in module.graph.nodes if is_op(node))
    homes = homes_of(partitioned)
    order = {node.name: place for place, node in enumerate(module.graph.nodes)}
    for node in module.graph.nodes:
        if classify(node) is NodeKind.ELEMENT:
            assert homes.get(node.name) == homes.get(node.args[0].name)
    for segment in partitioned.segments:
        assert list(segment.ops) == sorted(segment.ops, key=order.__getitem__)
        assert segment.outputs
        for name in segment.ops:
            assert not isinstance(homes.get(name), type(None))


def contracted(partitioned: Partitioned, module: GraphModule) -> nx.DiGraph:
    """The graph of segments and single ops; a size leads back to whatever its chain of sizes was read from, unless
    it says that other tensors give it."""
    homes = homes_of(partitioned)
    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(partitioned.segments)))
    for node in module.graph.nodes:
        if not is_op(node) and classify(node) is not NodeKind.ELEMENT:
            continue
        at = homes.get(node.name, node.name)
        for argument in node.all_input_nodes:
            if is_op(argument) or classify(argument) is NodeKind.ELEMENT:
                before = homes.get(argument.name, argument.name)
                if before != at:
                    graph.add_edge(before, at)
    return graph


def assert_acyclic(partitioned: Partitioned, module: GraphModule) -> None:
    """The contracted graph has no cycle, and the steps are an order of it."""
    graph = contracted(partitioned, module)
    assert nx.is_directed_acyclic_graph(graph)
    place: dict[object, int] = {}
    for number, step in enumerate(partitioned.steps):
        if step.segment is not None:
            place[step.segment] = number
        for name in step.torch_nodes:
            place[name] = number
    assert [s.segment for s in partitioned.steps if s.segment is not None] == list(range(len(partitioned.segments)))
    for before, after in graph.edges:
        if before in place and after in place:
            assert place[before] <= place[after]


def assert_maximal(partitioned: Partitioned, module: GraphModule) -> None:
    """Any two segments have a third thing between them: merged they would make a cycle."""
    graph = contracted(partitioned, module)
    count = len(partitioned.segments)
    reached: dict[object, int] = {}  # by node, the segments that a path leads to, itself among them, as bits
    for node in reversed(list(nx.topological_sort(graph))):
        reached[node] = 1 << node if node in range(count) else 0
        for after in graph.successors(node):
            reached[node] |= reached[after]
    for first, second in itertools.combinations(range(count), 2):
        between = [after for after in graph.successors(first) if after != second]
        assert any(reached[after] >> second & 1 for after in between), (first, second)


class _Supported(OperatorSupportBase):
    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def is_node_supported(self, submodules: object, node: Node) -> bool:
        return node.name in self._names


def torch_segments(partitioned: Partitioned, module: GraphModule, *, sizes: bool) -> int:
    """How many segments with ops torch.fx's partitioner makes of the same ops, with or without size nodes in them."""
    propose, names = torch_partitioner(partitioned, module, sizes=sizes), homes_of(partitioned).keys()
    with quiet():
        found = propose()
    return sum(any(node.name in names for node in part.nodes) for part in found)


def torch_partitioner(partitioned: Partitioned, module: GraphModule, *, sizes: bool) -> Callable[[], list[Partition]]:
    """What ``torch_segments`` asks, with the answers that torch.fx's partitioner needs prepared: nothing but its own
    work is left to time.  It logs much unless it is ``quiet``."""
    supported = set(homes_of(partitioned))
    if sizes:
        supported.update(node.name for node in module.graph.nodes if classify(node) is NodeKind.SHAPE)
    answers = _Supported(frozenset(supported))

    def propose() -> list[Partition]:
        return CapabilityBasedPartitioner(module, answers, allows_single_node_partition=True).propose_partitions()

    return propose


@contextlib.contextmanager
def quiet():
    """torch.fx logs every partition."""
    logger = logging.getLogger("torch.fx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
