"""Which ops of a segment write into a cache of the program, so that its engine can do so in place."""

from __future__ import annotations

from collections.abc import Sequence

from torch.fx import Node

from trtdiag.convert.facts import ConversionContext
from trtdiag.convert.layer_writers.cache_update import is_cache_write
from trtdiag.graph.operators import named_arguments, operator_of, reads_sizes
from trtdiag.graph.segment import Segment
from trtdiag.network.layers.kv_cache_update import KVCacheUpdate
from trtdiag.wording import listed


def written_cache(source: ConversionContext, node: Node) -> Node | None:
    """The input or buffer that an op writes to, which the program is to be left with; ``None`` where there is none.

    There is none for targets without a layer for that, either.
    """
    cache = source.left.get(node)
    op = operator_of(node)
    if cache is None or op is None or KVCacheUpdate.__name__ not in source.target.layers or not is_cache_write(node):
        return None
    return cache if named_arguments(node, op)["self"] is cache else None


def why_copied(source: ConversionContext, segment: Segment, node: Node, cache: Node) -> str | None:
    """Why an engine cannot write into the memory of the cache, in words; ``None`` where it may.

    In memory that both share, whoever reads the old elements must be done, and nobody may keep the new ones.
    """
    if cache.name not in segment.inputs:
        return "it does not enter the engine as it is"
    engine = {source.planned[cache.name][0], source.planned[node.name][0]}
    if engine != {cache.meta["val"].dtype}:
        return "the engine has it in another dtype"
    if any(not reads_sizes(user) for user in cache.users if user is not node):
        return "its old elements are read, too"
    end = node.graph.output_node()
    returned: Sequence[object] = end.args[0]  # type: ignore[assignment]  # a tuple
    if sum(value is node for value in returned) > 1:
        return "the program also returns it"
    inside = {*segment.ops, *segment.elements}
    if any(user.name not in inside and not reads_sizes(user) for user in node.users if user is not end):
        return "PyTorch or another engine reads its new elements"
    return None


def copied_note(why: str, caches: Sequence[str]) -> str:
    """What is told of caches that are copied for one reason."""
    return f"{listed(caches)} {'is' if len(caches) == 1 else 'are'} copied at each call, not written in place: {why}"
