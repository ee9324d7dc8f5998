"""A graph as the partitioner sees it: ops by index, the tensors between them, and the sizes that they need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from trtdiag.graph.limit import Limit
from trtdiag.graph.segment import DimSource
from trtdiag.graph.values import TensorValue
from trtdiag.options import PartitionOptions
from trtdiag.symbolic.expr import Condition, Expr


class Op(NamedTuple):
    """One op node with the getitem nodes that pick its outputs.

    A tuple, and so is ``Tensor``: there is one for each node, and a frozen dataclass takes three times as long to make.

    Attributes:
        name: The op node.
        target: What it calls, as one writes it.
        elements: Its getitem nodes in graph order.
        reads: The tensors that it reads, weights and constants not among them.
        sizes: The sizes among its arguments, by node.
        constants: The weights and constants that it reads, by node.
        work: Whether it computes: no view, nothing that hands its input on.
        nature: Why no engine can ever hold it, ``None`` where only its converter decides.
        computes: Whether the program needs what it yields.
        runs: Whether it is run at all: a pure op whose result nobody reads is not.
    """

    name: str
    target: str
    elements: tuple[str, ...]
    reads: tuple[int, ...]
    sizes: tuple[str, ...]
    constants: tuple[str, ...]
    work: bool
    nature: Limit | None
    computes: bool
    runs: bool = True


class Tensor(NamedTuple):
    """A tensor that may cross: ``producer`` is an op's index, -1 for an input of the program."""

    name: str
    producer: int
    value: TensorValue | None
    readers: tuple[int, ...]
    is_output: bool


@dataclass(frozen=True, slots=True)
class SizeNode:
    """A node that yields a number: a size, or what is computed from sizes.

    Attributes:
        name: The node.
        expr: Its value, where torch describes it.
        given: Whether it is a number by itself (an input, or an op's result) rather than computed from sizes.
        operands: What it is computed from: tensors (for their shape) and sizes, by node.
        sources: What gives it outside of engines: dims of the program's inputs, and of tensors born from data;
            ``None`` where only its operands do.
        before: The ops that must have run before PyTorch can compute it.
        real: Whether it is a float; what enters an engine as a number is an integer.
    """

    name: str
    expr: Expr | Condition | None
    given: bool
    operands: tuple[str, ...]
    sources: tuple[DimSource, ...] | None
    before: frozenset[int]
    real: bool = False


def edges_after(before: Sequence[tuple[int, ...]]) -> Sequence[Sequence[int]]:
    """Return, for each op, those that come after it, from those that come before each."""
    after: list[list[int]] = [[] for _ in before]
    for index, earlier in enumerate(before):
        for other in earlier:
            after[other].append(index)
    return after


@dataclass(frozen=True)
class OpGraph:
    """A graph reduced to what decides about segments.

    Attributes:
        ops: In graph order.
        before: For each op, the ops that come before it: what it reads, sizes included, and the order of writes.
        tensors: In graph order.
        sizes: By node name, in graph order.
        output_sizes: The sizes that the program returns.
    """

    ops: Sequence[Op]
    before: Sequence[tuple[int, ...]]
    tensors: Sequence[Tensor]
    sizes: Mapping[str, SizeNode]
    output_sizes: tuple[str, ...]

    @cached_property
    def after(self) -> Sequence[Sequence[int]]:
        """The same edges from their other end; of a program that is one segment nobody asks."""
        return edges_after(self.before)

    @cached_property
    def tensor_index(self) -> Mapping[str, int]:
        """Tensors by node name; only graphs with symbolic sizes ask."""
        return {tensor.name: place for place, tensor in enumerate(self.tensors)}


class Plan(NamedTuple):
    """What a partition was made from, to make it again with less limits; a tuple for the time that it takes to make.

    ``limited`` and ``kept`` are by index of the op: the caller's limits, and the user's choice; ``limited_sizes`` by
    node.
    """

    graph: OpGraph
    limited: Mapping[int, Limit]
    limited_sizes: Mapping[str, Limit]
    kept: Mapping[int, Limit]
    options: PartitionOptions

    def supported(self) -> list[bool]:
        """Return, for each op, whether an engine may hold it."""
        inside = [op.nature is None for op in self.graph.ops]
        for index in (*self.limited, *self.kept):
            inside[index] = False
        return inside
