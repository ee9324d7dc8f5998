"""``--optimize latency``: each part of a program runs in the way that was measured to be the fastest here.

A part may be an engine of the backend, or the same ops compiled by AOTInductor.  Blocks of the program, by its modules,
are built in both ways and timed alone; of their times the cuts are chosen that should pay; and what is chosen is timed
as a whole program, since engines also fuse over the edges of blocks.  The fastest whole program that agrees with the
original is taken.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby

import torch

from trtdiag.analysis.backend_times import INDUCTOR, BlockTimes, Optimization, WholeTime
from trtdiag.benchmark.clock import take_turns
from trtdiag.convert.facts import ConvertedSegment
from trtdiag.convert.segment import SegmentRefused, convert_segment
from trtdiag.engine.backend import Backend
from trtdiag.engine.profiles import usual_inputs
from trtdiag.errors import TrtdiagError
from trtdiag.network import WeightKeys
from trtdiag.partition.blocks import Block, blocks_by_module, cut, in_pairs, likeness
from trtdiag.partition.partition import symbol_sizes
from trtdiag.pipeline.build import Builder, assembled, segments_of
from trtdiag.pipeline.compile_pytorch_segments import compiling_without_engines, with_compiled_segments
from trtdiag.pipeline.latency_choices import choices, named
from trtdiag.pipeline.plan_engines import convert_segments
from trtdiag.pipeline.program_times import ROUNDS, WORTH_IT, as_they_run, module_of, typical, usual_arguments
from trtdiag.pipeline.state import State
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.shapes.profile import DimProfile
from trtdiag.wording import amount

MOST_DISTINCT = 8
"""Own choice: blocks that differ are each built twice, and a build takes seconds."""
DEEPEST = 8
"""Own choice: modules are nested less deep where their blocks are worth a kernel of their own."""


@dataclass
class _Part:
    """A block with what was measured of it."""

    segment: int
    ops: Block
    converted: ConvertedSegment
    like: str
    times: Mapping[str, float] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


def fastest(
    state: State, builder: Builder, backend: Backend, verified: Callable[[State], State], source: str | None
) -> State:
    """The program with each part run in the way that is the fastest on this machine, at the sizes to tune for.

    Args:
        state: The program with engines of the backend alone, built, assembled, and compared where that was asked for.
        builder: Builds engines.
        backend: Runs here.
        verified: Compares a program with the original; gives it as it is where no comparison was asked for.
        source: The file that the program was compiled from, where it was one.

    Returns:
        The fastest program that agrees; its ``optimization`` says what was measured.
    """
    search = _Search(state, builder, backend, source)
    with compiling_without_engines(state, builder, backend.device, source) as code:
        if state.converted:
            parts = search.parts()
            search.measure(parts)
            state = search.chosen(parts, verified)
        else:
            state = replace(state, optimization=search.told((), [], "", ("no part of the program is in an engine",)))
        state = with_compiled_segments(state, builder, backend.device, verified, source, code)
    assert state.optimization is not None
    return replace(state, notes=(*state.notes, *state.optimization.notes))


class _Search:
    def __init__(self, state: State, builder: Builder, backend: Backend, source: str | None) -> None:
        self._state, self._builder, self._backend, self._source = state, builder, backend, source
        self._plan = state.plan
        self._device = torch.device(backend.device)
        self._kinds = (backend.name, INDUCTOR)

    def parts(self) -> list[_Part]:
        """The blocks of all segments: as many as there are with few enough that differ."""
        graph = self._plan.source.graph_module.graph
        known: dict[Block, str] = {}

        def like(block: Block) -> str:
            if block not in known:
                known[block] = likeness(graph, block)
            return known[block]

        def distinct(blocks: Sequence[Sequence[Block]]) -> int:
            return len({like(block) for its in blocks for block in its})

        whole = [[segment.ops] for segment in self._plan.partitioned.segments]
        every = [self._by_module(depth) for depth in range(1, DEEPEST)]
        paired = [[in_pairs(its) for its in blocks] for blocks in every]
        fitting = [blocks for blocks in (*every, *paired, whole) if distinct(blocks) <= MOST_DISTINCT]
        best = max(fitting or [whole], key=lambda blocks: sum(map(len, blocks)))
        for blocks in (best, whole):
            try:
                return self._converted(blocks, like)
            except SegmentRefused:  # an op needs what another block has
                continue
        return []

    def _by_module(self, depth: int) -> list[list[Block]]:
        work = {op.name: op.work for op in self._plan.partitioned.plan.graph.ops}
        origins = self._plan.source.origins

        def path(op: str) -> str:
            return origins[op].module_path if op in origins else ""

        segments = self._plan.partitioned.segments
        return [blocks_by_module(segment.ops, path, lambda op: work[op], depth) for segment in segments]

    def _converted(self, blocks: Sequence[Sequence[Block]], like: Callable[[Block], str]) -> list[_Part]:
        cut_up = cut(self._plan.partitioned, blocks, self._symbols())
        keys = WeightKeys()
        flat = [(segment, block) for segment, its in enumerate(blocks) for block in its]
        return [
            _Part(segment, block, convert_segment(self._plan.source, each, keys), like(block))
            for (segment, block), each in zip(flat, cut_up.segments, strict=True)
        ]

    def _symbols(self) -> Mapping[str, DimProfile]:
        program = self._state.program
        return symbol_sizes(program.ranges, program.hints)

    def measure(self, parts: Sequence[_Part]) -> None:
        """Time each block in each way; those that are alike once, and nothing while something is built."""
        first: dict[str, _Part] = {}
        for part in parts:
            first.setdefault(part.like, part)
        calls: dict[str, dict[str, Callable[[], object]]] = {like: {} for like in first}

        def built() -> None:
            for kind in self._kinds:  # of one that compiles beside the other all are asked for at the end
                for number, (like, part) in enumerate(first.items(), 1):
                    which = f"block {number} of {len(first)} as {kind}"
                    self._builder.progress(f"optimize: {which}, {amount(len(part.ops), 'op')}")
                    self._add_call(part, kind, calls[like])

        wanted = [*(part.converted for part in first.values()), *self._state.converted]
        self._builder.ahead(self._state, wanted, meanwhile=built)
        for like, part in first.items():
            own = as_they_run(calls[like], self._device, self._plan.options)
            with torch.no_grad():
                found = take_turns(own, ROUNDS, self._device)
            part.times = {kind: typical(timed.row) for kind, timed in found.items() if timed.row and not timed.failed}
            part.refused |= {kind: timed.failed for kind, timed in found.items() if timed.failed}
            times = ", ".join(f"{kind} {took:.3g} ms" for kind, took in part.times.items())
            where = module_of(part.ops, self._plan.source.origins) or f"from {part.ops[0]} on"
            self._builder.progress(f"optimize: block {where}: {times or 'not timed'}")
        for part in parts:
            part.times, part.refused = first[part.like].times, first[part.like].refused

    def _add_call(self, part: _Part, kind: str, calls: dict[str, Callable[[], object]]) -> None:
        """What runs the block once in this way; says why not where it cannot."""
        try:
            run, manifest = self._builder.alone(self._state, part.converted, kind)
            calls[kind] = partial(run, usual_inputs(manifest, self._device))
        except TrtdiagError as error:
            part.refused |= {kind: f"{error.message}: {error.because}"}

    def chosen(self, parts: Sequence[_Part], verified: Callable[[State], State]) -> State:
        """Time whole programs, and take the fastest that agrees."""
        first = tuple(self._backend.name for _ in parts)
        notes: list[str] = []
        states: dict[tuple[str, ...], State] = {first: self._state}
        planned: dict[tuple[str, ...], State] = {}

        def tried(kinds: tuple[str, ...], step: Callable[[], State], into: dict[tuple[str, ...], State]) -> None:
            try:
                into[kinds] = step()
            except TrtdiagError as error:
                notes.append(f"{named(kinds)} was not built: {error.message} ({error.because})")

        for kinds in dict.fromkeys(choices([part.times for part in parts], self._kinds)):
            if kinds != first:
                tried(kinds, partial(self._planned, kinds, parts), planned)

        def built() -> None:
            for kinds, each in planned.items():
                self._builder.progress(f"optimize: the program as {named(kinds)}")
                tried(kinds, partial(self._built, each), states)

        wanted = [one for each in planned.values() for one in segments_of(each, INDUCTOR)]
        self._builder.ahead(self._state, wanted, meanwhile=built)
        times = self._whole_times(states)
        order = sorted(times, key=lambda kinds: math.inf if times[kinds] is None else float(times[kinds] or 0))
        why_not: dict[tuple[str, ...], str] = {}
        taken, result = first, self._state
        own = times[first]
        for kinds in order:
            took = times[kinds]
            if kinds == first:
                break
            if took is None or own is None:
                continue
            if took > own * (1 - WORTH_IT):
                why_not[kinds] = f"it is less than {WORTH_IT:.0%} faster"
                continue
            # A run may have changed buffers of the program: the one that is kept never ran.
            anew = verified(self._assembled(states[kinds]))
            if anew.verification is None or anew.verification.passed:
                taken, result = kinds, anew
                break
            why_not[kinds] = "it does not agree with the original"
        if taken == first:
            result = self._assembled(self._state)
        wholes = [
            WholeTime(
                named(kinds),
                len(states[kinds].converted),
                times[kinds],
                ""
                if kinds == taken
                else why_not.get(kinds, "slower" if times[kinds] is not None else "it does not run"),
            )
            for kinds in states
        ]
        return replace(result, optimization=self.told(parts, wholes, taken, notes))

    def _planned(self, kinds: Sequence[str], parts: Sequence[_Part]) -> State:
        """The program with runs of blocks of one kind as one segment each, not built yet."""
        count = len(self._plan.partitioned.segments)
        blocks: list[list[Block]] = [[] for _ in range(count)]
        chosen: list[str] = []
        for (segment, kind), run in groupby(
            zip(parts, kinds, strict=True), key=lambda pair: (pair[0].segment, pair[1])
        ):
            blocks[segment].append(tuple(op for part, _ in run for op in part.ops))
            chosen.append(kind)
        if len(chosen) == count and self._plan.partitioned.segments == self._state.plan.partitioned.segments:
            converted, plan = self._state.converted, self._plan
        else:
            plan, converted = convert_segments(
                replace(self._plan, partitioned=cut(self._plan.partitioned, blocks, self._symbols()))
            )
        return replace(self._state, planned=plan, converted=converted, kinds=tuple(chosen))

    def _built(self, state: State) -> State:
        return self._assembled(replace(state, engines=self._builder.all(state)))

    def _assembled(self, state: State) -> State:
        return replace(state, assembled=assembled(state, self._backend.device, self._source))

    def _whole_times(self, states: Mapping[tuple[str, ...], State]) -> dict[tuple[str, ...], float | None]:
        args, kwargs = usual_arguments(self._state, self._device)

        def call(program: CompiledProgram) -> Callable[[], object]:
            return lambda: program(*args, **kwargs)

        self._builder.progress(f"optimize: time {amount(len(states), 'whole program')}")
        names = {str(index): kinds for index, kinds in enumerate(states)}
        with torch.no_grad():
            found = take_turns(
                {name: call(states[kinds].compiled) for name, kinds in names.items()}, ROUNDS, self._device
            )
        return {
            kinds: None if found[name].failed or not found[name].alone else typical(found[name].alone)
            for name, kinds in names.items()
        }

    def told(
        self, parts: Sequence[_Part], wholes: Sequence[WholeTime], taken: Sequence[str], notes: Sequence[str]
    ) -> Optimization:
        """What was measured."""
        alike = Counter(part.like for part in parts)
        modules = [module_of(part.ops, self._plan.source.origins) for part in parts]
        rows = [
            BlockTimes(module, part.ops[0], len(part.ops), alike[part.like], part.times, part.refused, kind)
            for module, part, kind in zip(modules, parts, taken, strict=True)
        ]
        where = torch.cuda.get_device_name() if self._device.type == "cuda" else "the CPU"
        unusual = (
            f"AOTInductor has code for all sizes alone, which may be slower at the sizes to tune for: {why}"
            for why in dict.fromkeys(self._builder.unusual)
        )
        return Optimization(dict(self._plan.sizes.opt), where, tuple(rows), tuple(wholes), (*notes, *unusual))
