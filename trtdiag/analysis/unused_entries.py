"""Entries of ``keep_in_torch``, ``keep_fp32`` and ``keep_float`` that name nothing, and bounds that change no size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch.fx import Graph

from trtdiag.analysis.fallbacks import PartitionFacts
from trtdiag.analysis.result import Analysis
from trtdiag.frontend.node_origins import origin_of
from trtdiag.graph.operators import target_name
from trtdiag.graph.user_entries import Entries, beginnings
from trtdiag.lower.facts import Checked
from trtdiag.option_warnings import OptionWarning
from trtdiag.symbolic.size_names import said_by
from trtdiag.wording import near

_MOST_NAMED = 3
_ALIKE = 0.8  # own choice: all ops agree in ``aten.``, which says nothing


def entry_warnings(analysis: Analysis) -> tuple[OptionWarning, ...]:
    """A warning for each entry of the options that names no op and no module, or says of a size what is known of it."""
    known = []
    for bound in analysis.program.bounds:
        if bound.unneeded:
            name, range_ = said_by(bound.symbol, bound.range, analysis.program.words)
            known.append(OptionWarning("assume" if bound.assumed else "max_sizes", name, f"it is {range_} without it"))
    partition = analysis.partition
    return (*known, *([] if partition is None else unused_entries(partition, analysis.checked)))


def unused_entries(partition: PartitionFacts, checked: Checked | None) -> Iterator[OptionWarning]:
    """A warning for each entry that names no op and no module.

    Args:
        partition: What was planned.
        checked: The program as it was exported, where it is at hand: an op of it may be gone when engines are planned.
    """
    precision = partition.plan.lowered.precision
    unused = [
        *(("keep_in_torch", entry) for entry in partition.partitioned.unused_keeps),
        *(("keep_fp32", entry) for entry in (precision.unmatched if precision is not None else ())),
    ]
    if not unused:
        return
    planned = _named(partition.plan.lowered.graph_module.graph)
    exported = [] if checked is None else _named(checked.graph_module.graph)
    for option, entry in unused:
        yield OptionWarning(option, entry, _why(entry, planned, exported))


def _why(entry: str, planned: Sequence[tuple[str, str]], exported: Sequence[tuple[str, str]]) -> str:
    known = Entries((entry,))
    places = sorted({path for target, path in exported if known.naming(target, path) is not None})
    if places:
        instead = next((f"its module {path}" for path in places if path), "those")
        return f"other ops take its place before engines are planned; name {instead}"
    names = dict.fromkeys(name for target, path in planned for full in (target, path) for name in beginnings(full))
    meant = _meant(entry, [name for name in names if name not in ("aten", "operator", "torch")])
    told = f"; did you mean {' or '.join(meant)}?" if meant else ""
    return f"it names no op and no module of this program{told}"


def _meant(entry: str, names: Sequence[str]) -> tuple[str, ...]:
    """The names that end as the entry does (``softmax``, ``attn``), then those that are spelled nearly so."""
    word = entry.strip().removeprefix("torch.ops.").replace("::", ".").strip(".")
    ends = [name for name in names if word and f".{name}".lower().endswith(f".{word.lower()}")]
    by_last = {name.rpartition(".")[2]: name for name in reversed(names)}
    last = [by_last[each] for each in near(word.rpartition(".")[2], by_last)]
    return tuple(dict.fromkeys((*ends, *near(word, names, alike=_ALIKE), *last)))[:_MOST_NAMED]


def _named(graph: Graph) -> list[tuple[str, str]]:
    """The op and the module path of each call."""
    calls = [node for node in graph.nodes if node.op == "call_function"]
    return list(dict.fromkeys((target_name(node.target), origin_of(node).module_path) for node in calls))
