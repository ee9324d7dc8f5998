"""Segments and time of the partitioner beside torch.fx's CapabilityBasedPartitioner, on the same graphs in one run.

    python benchmarks/partition.py                      all parts, a few minutes
    python benchmarks/partition.py growth [nodes ...]   made-up graphs
    python benchmarks/partition.py models [model ...]   models of the zoo with a set of unsupported ops
    python benchmarks/partition.py what-if [nodes ...]  every limit of a made-up graph lifted

Both get the same ops as supported, those that trtdiag's partitioner puts into segments; segments of size nodes alone
are not counted.  Both get what they work on prepared: torch.fx's its answers, trtdiag's a reader that has read the
metadata of the nodes, as most of it is when a program is compiled; ``new reader`` is its time with one that has not.
torch.fx's time is that of ``CapabilityBasedPartitioner`` and ``propose_partitions``, the better of two, with size nodes
as supported and without; trtdiag's is that of ``partition``, sizes and boundary bytes over the ranges included.  CPU
time, one thread, the calls in turn, each at its best, no garbage collection meanwhile.

Graphs: ``chain`` is a residual network with every twentieth op unsupported, ``random`` reads one or two of the last
fifty results with a tenth of the ops unsupported, ``wide`` is eight towers of a chain that join at the end.
"""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from side_by_side import best_of_each
from torch.fx import Graph, GraphModule, Node

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import trtdiag
from tests.models import zoo
from tests.partition.checks import quiet, torch_partitioner, torch_segments
from tests.partition.programs import limits_on
from tests.partition.test_partition_models import QUICK, SLOW, UNSUPPORTED
from trtdiag.frontend.torch_private import backed_hints, plain_ranges, shape_env_of
from trtdiag.graph.inputs import placeholders
from trtdiag.graph.limit import Limit
from trtdiag.graph.values import NodeReader
from trtdiag.options import PartitionOptions
from trtdiag.partition.facts import Partitioned
from trtdiag.partition.partition import partition, symbol_sizes
from trtdiag.partition.what_if import if_inside
from trtdiag.shapes.profile import DimProfile

EVERY_SEGMENT = PartitionOptions(min_segment_ops=0)
NODES = (1_000, 2_000, 10_000, 50_000)
WHAT_IF_NODES = (1_000, 5_000)
# torch.fx's time grows with the square to the cube of the nodes: beyond this it takes many minutes.
MOST_TORCH_NODES = 2_000
NO_CONVERTER = Limit("no-converter", "no converter is registered for it")
NO_SIZES: Mapping[str, DimProfile] = {}
VALUE = torch.zeros(2, 4)
aten = torch.ops.aten


def made(choose: Callable[[list[Node], int], tuple[list[Node], bool]], inputs: int, nodes: int):
    """A graph of relu and add, and the limits of those that ``choose`` calls unsupported."""
    graph, values, limits = Graph(), [], {}
    for index in range(inputs):
        values.append(graph.placeholder(f"x{index}"))
    for index in range(nodes):
        read, limited = choose(values, index)
        target = aten.relu.default if len(read) == 1 else aten.add.Tensor
        values.append(graph.call_function(target, tuple(read)))
        if limited:
            limits[values[-1].name] = NO_CONVERTER
    for value in values:
        value.meta["val"] = VALUE
    graph.output(tuple(value for value in values if not value.users))
    return GraphModule(torch.nn.Module(), graph), limits


def chain(nodes: int):
    def choose(values: list[Node], index: int) -> tuple[list[Node], bool]:
        return (values[-1:] if index % 4 else [values[-1], values[max(0, len(values) - 5)]]), index % 20 == 19

    return made(choose, 1, nodes)


def mixed(nodes: int):
    chosen = random.Random(7)

    def choose(values: list[Node], index: int) -> tuple[list[Node], bool]:
        return [chosen.choice(values[-50:]) for _ in range(chosen.choice((1, 2)))], chosen.random() < 0.1

    return made(choose, 1, nodes)


def wide(nodes: int):
    towers = 8

    def choose(values: list[Node], index: int) -> tuple[list[Node], bool]:
        if index == nodes - 1:
            return values[-2:], False
        return [values[-towers]], (index // towers + index % towers) % 20 == 19

    return made(choose, towers, nodes)


GRAPHS = {"chain": chain, "random": mixed, "wide": wide}


def row(table: Table, name: str, module: GraphModule, limits, held=frozenset(), symbols=NO_SIZES) -> tuple[int, float]:
    nodes = sum(node.op == "call_function" for node in module.graph.nodes)
    reader = NodeReader()

    def split() -> Partitioned:
        return partition(module, limits, EVERY_SEGMENT, held=held, symbols=symbols, reader=reader)

    def unread() -> Partitioned:
        return partition(module, limits, EVERY_SEGMENT, held=held, symbols=symbols)

    found = split()
    told = [name, str(nodes), str(len(limits)), str(len(found.segments))]
    if nodes <= MOST_TORCH_NODES:
        with_sizes, without = (torch_partitioner(found, module, sizes=sizes) for sizes in (True, False))
        with quiet():
            # Nobody runs right after its own code, which would still be in the processor's caches.
            ours, one, first, other = best_of_each(split, with_sizes, unread, without)
        count = torch_segments(found, module, sizes=True)
        theirs = min(one, other)
        told += [str(count), f"{ours * 1e3:.3f}", f"{theirs * 1e3:.3f}", f"{theirs / ours:.2f}"]
    else:
        ours, first = best_of_each(split, unread, runs=2)
        told += ["", f"{ours * 1e3:.3f}", "not run", ""]
    table.add_row(*told, f"{first * 1e3:.3f}", f"{ours / nodes * 1e6:.1f}")
    return nodes, ours


def columns(title: str) -> Table:
    table = Table(title=title)
    names = (
        "graph",
        "nodes",
        "limits",
        "segments",
        "torch.fx",
        "ms",
        "torch.fx ms",
        "times",
        "new reader",
        "us per node",
    )
    for name in names:
        table.add_column(name, justify="left" if name == "graph" else "right", no_wrap=True)
    return table


def growth(sizes: tuple[int, ...], console: Console) -> None:
    for name, build in GRAPHS.items():
        table = columns(f"Made-up graphs: {name}")
        measured = [row(table, name, *build(size)) for size in sizes]
        console.print(table)
        if len(measured) > 1:
            nodes, spent = zip(*measured, strict=True)
            console.print(f"time ~ nodes^{np.polyfit(np.log(nodes), np.log(spent), 1)[0]:.2f}\n")


def models(names: tuple[str, ...], console: Console) -> None:
    table = columns(f"Models, without {', '.join(UNSUPPORTED)}")
    for name in names:
        module, args, kwargs, dims = zoo.build(name)
        exported = torch.export.export(module.eval(), args, kwargs, dynamic_shapes=dims)
        held = {entry for entry, one in placeholders(exported).items() if one.held and not one.changed}
        env = shape_env_of(exported.graph_module)
        hints = {} if env is None else backed_hints(env)
        symbols = symbol_sizes(plain_ranges(exported.range_constraints), hints)
        row(table, name, exported.graph_module, limits_on(exported.graph_module, UNSUPPORTED), held, symbols)
    console.print(table)


def what_if(sizes: tuple[int, ...], console: Console) -> None:
    """Each limit on an op of its own: the worst case, where as a rule many nodes share one op."""
    table = Table(title="what_if for every limit alone")
    for name in ("graph", "nodes", "limits", "CPU s", "ms per limit"):
        table.add_column(name, justify="left" if name == "graph" else "right", no_wrap=True)
    for size in sizes:
        for name, build in GRAPHS.items():
            module, limits = build(size)
            found = partition(module, limits, PartitionOptions(min_segment_ops=5))
            (spent,) = best_of_each(partial(each_alone, found), runs=1)
            table.add_row(name, str(size), str(len(limits)), f"{spent:.2f}", f"{spent / len(limits) * 1e3:.1f}")
    console.print(table)


def each_alone(found) -> None:
    for index in found.plan.limited:
        name = found.plan.graph.ops[index].name
        if_inside(found, name, {name})


def main(arguments: list[str]) -> None:
    """Run the parts that the command line names."""
    parts = {"growth", "models", "what-if"}
    part = arguments[0] if arguments else ""
    if part and part not in parts:
        sys.exit(__doc__)
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    console = Console(width=140)
    console.print(f"command: python benchmarks/partition.py {' '.join(arguments)}".rstrip())
    console.print(f"trtdiag {trtdiag.__version__}, torch {torch.__version__}, one thread\n")
    partition(chain(100)[0], {}, EVERY_SEGMENT)
    if part in ("", "growth"):
        growth(tuple(map(int, arguments[1:])) or NODES, console)
    if part in ("", "what-if"):
        what_if(tuple(map(int, arguments[1:])) or WHAT_IF_NODES, console)
    if part in ("", "models"):
        models(tuple(arguments[1:]) or QUICK + SLOW, console)


if __name__ == "__main__":
    main(sys.argv[1:])
