"""Converts one segment into one network, with the sizes that each run must check."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import torch
from torch.fx import Node

from trtdiag.convert.facts import ConversionContext, ConvertedSegment, CountCrossing, Crossing, RowWrite
from trtdiag.convert.interpret import Interpreter
from trtdiag.convert.layer_writers.cache_update import cache_updated, is_cache_write
from trtdiag.convert.refusal import Refused
from trtdiag.convert.row_writes import row_write, rows_note
from trtdiag.convert.writer import Writer
from trtdiag.graph.limit import Limit
from trtdiag.graph.operators import named_arguments, operator_of, reads_sizes, target_name
from trtdiag.graph.segment import Segment
from trtdiag.graph.values import TensorValue
from trtdiag.network import DType, NetworkBuilder, ShapeConstraints, Value, WeightKeys
from trtdiag.network.layers.attention import KVCacheUpdate
from trtdiag.network.symbol_values import solvable
from trtdiag.shapes.shape_constraints import elements
from trtdiag.symbolic import Expr, Range, Relation, Sym, compare, free_symbols, implied
from trtdiag.symbolic.bounds import rounded_bounds
from trtdiag.symbolic.float_factors import rounds
from trtdiag.wording import listed

_LIMIT_S = 1.0
"""Own choice: for z3; what it cannot show in that time is checked in each run."""


class SegmentRefused(Exception):  # noqa: N818 - it is an answer: partition again without the op
    """An op that was taken on trial cannot be converted at its place.

    Attributes:
        node: The op.
        limit: Why.
    """

    def __init__(self, node: str, limit: Limit) -> None:
        super().__init__(f"{node}: {limit.why}")
        self.node = node
        self.limit = limit


def convert_segment(source: ConversionContext, segment: Segment, keys: WeightKeys | None = None) -> ConvertedSegment:
    """Return the network of a segment.

    Args:
        source: The lowered graph and its planned types.
        segment: A segment of its partition.
        keys: Names of weights that are known already, shared between segments.

    Raises:
        SegmentRefused: A converter took the op alone, and cannot take it here: a size is not at hand, or not proven.
        InternalError: ``wrong-conversion`` where a result is not what the op's metadata says.
    """
    return _Segment(source, segment, keys or WeightKeys()).convert()


class _Segment:
    def __init__(self, source: ConversionContext, segment: Segment, keys: WeightKeys) -> None:
        self._source = source
        self._segment = segment
        self._nodes: dict[str, Node] = {node.name: node for node in source.graph_module.graph.nodes}
        shapes = [self._dims(name) for name in segment.inputs]
        entering = [self._entering(index, size.expr) for index, size in enumerate(segment.entering_sizes)]
        dims = [size for shape in shapes for size in shape]
        self._renamed, ranges = _fresh_symbols(dims, entering, source.ranges)
        # What enters as a value without an expression is a symbol of its own, with any value.
        for name in sorted(frozenset().union(*map(free_symbols, entering))):
            ranges.setdefault(name, Range(None, None))
        definitions = {new.name: old for old, new in self._renamed.items()}
        self._builder = NetworkBuilder(ranges, source.given, definitions, keys=keys)
        self._write = Writer(self._builder, source.target)
        self._interpreter = Interpreter(self._write, source)
        self._shapes = dict(zip(segment.inputs, shapes, strict=True))
        self._entered = entering
        self._copied: dict[str, list[str]] = {}
        self._in_place: set[Node] = set()
        self._why_not: dict[Node, str] = {}

    def convert(self) -> ConvertedSegment:
        segment, interpreter = self._segment, self._interpreter
        inputs = [self._input(name) for name in segment.inputs]
        inputs += [self._size(index) for index in range(len(segment.entering_sizes))]
        for name in segment.constants:
            interpreter.constant(self._nodes[name])
        inside = {*segment.ops, *segment.elements}
        for node in self._source.graph_module.graph.nodes:
            if node.name not in inside:
                continue
            try:
                if node.name in segment.elements:
                    interpreter.element(node)
                elif not self._cache_written(node):
                    interpreter.op(node)
            except Refused as refused:
                raise SegmentRefused(node.name, refused.limit) from refused
        rows = tuple(self._rows())
        names = _leaving(segment.outputs, rows)
        if not names:  # an engine gives something
            rows, names = (), list(segment.outputs)
        outputs = [self._output(name) for name in names]
        counts = tuple(self._counts(names))
        notes = [copied_note(why, caches) for why, caches in self._copied.items()]
        notes += [rows_note([row.cache for row in rows])] if rows else []
        network = self._builder.build()
        return ConvertedSegment(segment, network, tuple(inputs), tuple(outputs), counts, tuple(notes), rows)

    def _cache_written(self, node: Node) -> bool:
        """Whether an op was written as one that writes into a cache of the program in place."""
        cache = written_cache(self._source, node)
        if cache is None:
            return False
        why = why_copied(self._source, self._segment, node, cache)
        try:
            if why is None:
                self._interpreter.op(node, partial(cache_updated, node=node))
                self._in_place.add(node)
                return True
        except Refused as refused:
            why = refused.limit.why
        self._why_not[node] = str(why)
        return False

    def _rows(self) -> Iterator[RowWrite]:
        """The caches that are written behind the engine; of others that are written it is kept why they are copied."""
        segment = self._segment
        inside, entering = {*segment.ops, *segment.elements}, {*segment.inputs, *segment.constants}
        left = self._source.left
        for node, cache in left.items():
            if node.name not in segment.outputs or node in self._in_place:
                continue
            found = row_write(node, cache, inside, entering, {*left.values()})
            if isinstance(found, RowWrite):
                yield found
            elif found:
                self._copied.setdefault(self._why_not.get(node, found), []).append(cache.name)

    def _input(self, name: str) -> Crossing:
        node = self._nodes[name]
        engine = self._source.planned[name][0]
        shape = [self._renamed.get(size, size) for size in self._shapes[name]]
        dtype = DType.of(engine)
        assert dtype is not None, f"{name} was planned as {engine}"
        program: torch.dtype = node.meta["val"].dtype
        as_pairs = (program, engine) == (torch.int64, torch.int32)
        value = self._builder.input(name, dtype, [*shape, 2] if as_pairs else shape)
        self._write.sizes.note(value)
        if as_pairs:
            ops = [self._nodes[op] for op in self._segment.ops]
            reads = next((op for op in ops if node in op.all_input_nodes), ops[0])  # or its sizes alone are read
            with self._builder.at(self._interpreter.origin(reads)):
                # No slice: TensorRT 8.6.0 gives a sort of what a Slice and a Shuffle leave of pairs other elements.
                value = self._write.gather(value, self._write.constant(torch.tensor(0, dtype=torch.int32)), len(shape))
        self._interpreter.known[node] = value
        return Crossing(name, program, engine, as_pairs=as_pairs)

    def _size(self, index: int) -> Crossing:
        size, expr = self._segment.entering_sizes[index], self._entered[index]
        value = self._builder.input(f"size_{size.node}", self._write.index, (), [self._renamed.get(expr, expr)])
        self._write.sizes.note_number(expr, value)
        self._interpreter.known[self._nodes[size.node]] = expr
        return Crossing(size.node, torch.int64, self._write.index.torch, is_size=True)

    def _output(self, name: str) -> Crossing:
        node = self._nodes[name]
        value = self._interpreter.known[node]
        self._builder.output(name, value)
        return Crossing(name, node.meta["val"].dtype, self._source.planned[name][0])

    def _counts(self, outputs: Sequence[str]) -> Iterator[CountCrossing]:
        """What else must leave: sizes from data that outputs are made of, or that a run must check."""
        sizes = [size for name in outputs for size in self._interpreter.known[self._nodes[name]].shape]
        used = frozenset().union(*map(free_symbols, sizes))
        for (symbol, _), (name, mask, places) in self._write.chosen.items():
            if Sym(name) in sizes or not (name in used or is_asserted(self._builder.facts, name, elements(mask.shape))):
                continue
            # Turned: TensorRT 8.6 asks for too little memory where NonZero itself gives an output.
            self._builder.output(f"count_{name}", self._write.permute(places, [1, 0]))
            yield self._bearing(symbol, mask, places.dtype)

    def _bearing(self, count: str, mask: Value, dtype: DType) -> CountCrossing:
        for op in self._segment.ops:
            for output, value in enumerate(self._source.reader.read(self._nodes[op])):
                if isinstance(value, TensorValue) and Sym(count) in value.dims:
                    return CountCrossing(op, output, value.dims.index(Sym(count)), mask.rank, dtype.torch)
        raise AssertionError(f"no op has {count}")

    def _dims(self, name: str) -> tuple[Expr, ...]:
        (value,) = self._source.reader.read(self._nodes[name])
        assert isinstance(value, TensorValue), f"{target_name(self._nodes[name].target)} is no tensor"
        return value.dims

    def _entering(self, index: int, expr: object) -> Expr:
        # A condition enters as 0 or 1; it has no expression that sizes could be compared with.
        return expr if isinstance(expr, Expr.__args__) else Sym(f"n{index}")  # type: ignore[attr-defined]


def _leaving(outputs: Sequence[str], rows: Sequence[RowWrite]) -> list[str]:
    """The outputs, with what is written to caches in the place of the caches."""
    written = [name for row in rows for name in row.leaving]
    stay = {row.result for row in rows}.difference(written)
    return [name for name in dict.fromkeys([*outputs, *written]) if name not in stay]


def _fresh_symbols(
    dims: Sequence[Expr], numbers: Sequence[Expr], ranges: Mapping[str, Range]
) -> tuple[dict[Expr, Sym], dict[str, Range]]:
    """Symbols of their own for what enters and is made of symbols that nothing gives, and the ranges of all symbols.

    ``(h - 1)//8 + 1`` is such a dim where nothing of ``h`` enters: as ``d0`` it can be read from the input.  So is
    ``trunc(0.6*h)`` also where ``h`` enters, for the program computes it in floating point.
    """
    readable = {solution[0] for size in (*dims, *numbers) if (solution := solvable(size)) is not None}
    found: dict[Expr, Sym] = {}
    known = dict(ranges)
    for size in (*dims, *numbers):
        if size not in found and (rounds(size) or not free_symbols(size) <= readable):
            found[size] = Sym(f"d{len(found)}")
            extent = rounded_bounds(size, ranges)
            lowest = max(0, extent.min or 0) if size in dims else extent.min
            known[found[size].name] = Range(lowest, extent.max)
    return found, known


def is_asserted(facts: ShapeConstraints, count: str, most: Expr) -> bool:
    """Whether a run must check a size: PyTorch asserts more of it than that it is between 0 and ``most``.

    An op that takes no empty tensor, such as ``amax``, asserts that at least one element was found.

    Args:
        facts: Ranges and conditions of the program.
        count: The size.
        most: What it can be by itself.
    """
    ranges = {**facts.ranges, count: Range(0, None)}
    known = (compare(Relation.LE, Sym(count), facts.expanded(most)),)
    allowed = facts.ranges.get(count, Range(0, None))
    claims = [condition for condition in facts.given if count in free_symbols(condition)]
    claims += [compare(Relation.GE, Sym(count), allowed.min)] if allowed.min else []
    claims += [compare(Relation.LE, Sym(count), allowed.max)] if allowed.max is not None else []
    for claim in dict.fromkeys(map(facts.expanded, claims)):
        found = implied(claim, known, ranges, limit_s=_LIMIT_S)
        if found.verdict != "holds" or not found.proof.proven:
            return True
    return False


# Which ops of a segment write into a cache of the program, so that its engine can do so in place.


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
