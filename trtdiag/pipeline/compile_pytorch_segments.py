"""``--optimize latency``: what stays with PyTorch beside engines is compiled by AOTInductor where that is faster.

Such a segment is taken of the compiled program, not of a network: its ops have no converters.  Beside engines that
AOTInductor compiled it may be one segment with them, and where no engine is left, the program is one.  Segments are
timed op by op and compiled; whole programs decide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import torch

from trtdiag.analysis.backend_times import INDUCTOR, WholeTime
from trtdiag.benchmark.clock import take_turns
from trtdiag.convert.facts import ConvertedSegment
from trtdiag.graph.limit import Limit
from trtdiag.network.facts import free_symbols_of
from trtdiag.partition.facts import Cause, Fallback
from trtdiag.partition.partition import symbol_sizes
from trtdiag.partition.pytorch_segments import only
from trtdiag.pipeline.build import Builder, assembled, compile_threads, compiled_at_once
from trtdiag.pipeline.program_times import ROUNDS, WORTH_IT, typical, usual_arguments
from trtdiag.pipeline.state import State
from trtdiag.pipeline.timed_pytorch_segments import TimedSegment, TimedSegments
from trtdiag.shapes.symbols import is_backed
from trtdiag.symbolic import Sym, free_symbols
from trtdiag.wording import amount

if TYPE_CHECKING:
    from trtdiag.engine.inductor.package import Code

_FASTER = Limit("compiled-code-faster", "AOTInductor's code of it was measured to be faster than an engine")
_DIFFERS = "it does not agree with the original"


@dataclass
class _Way:
    """A program with what stays in it compiled."""

    name: str
    found: TimedSegments
    taken: list[TimedSegment]
    time_ms: float | None = None
    why_not: str = "slower"

    @property
    def segments(self) -> int:
        return len(self.found.state.converted) + len(self.taken)


@contextmanager
def compiling_without_engines(
    state: State, builder: Builder, device: str, source: str | None
) -> Iterator[dict[str, Future[Code]]]:
    """Compile the program without its engines beside their search, where something stays in PyTorch and there is room.

    It is asked for in any case then, and takes as long as the blocks do.  Nothing is timed while it is compiled.

    Args:
        state: The program with engines of the backend alone.
        builder: Builds its engines; what it builds waits for this.
        device: The type of device that engines run on.
        source: The file that the program was compiled from, where it was one.

    Yields:
        The code of its segments by likeness, for ``with_compiled_segments``.
    """
    code: dict[str, Future[Code]] = {}
    if not state.converted or state.plan.options.portable or not builder.has_room_for_another(state):
        yield code
        return
    own = TimedSegments(state, builder, device)
    without = _without_engines(state, (), device, source) if own.pytorch_segments or own.alone else None
    pool = ThreadPoolExecutor(1)
    try:
        if without is not None:
            threads = compile_threads(state, compiled_at_once(state), device)
            TimedSegments(without, builder, device).compile(code, pool, threads)
            builder.waits_for.extend(code.values())
        yield code
    finally:
        pool.shutdown(cancel_futures=True)


def with_compiled_segments(
    state: State,
    builder: Builder,
    device: str,
    verified: Callable[[State], State],
    source: str | None,
    code: dict[str, Future[Code]],
) -> State:
    """The program with what stays in PyTorch compiled, where that is faster and agrees.

    Args:
        state: The program as it is taken so far, with an ``optimization``.
        builder: Tells the progress.
        device: The type of device that engines run on.
        verified: Compares a program with the original; gives it as it is where no comparison was asked for.
        source: The file that the program was compiled from, where it was one.
        code: What ``compiling_without_engines`` gave.

    Returns:
        The program; its ``optimization`` says what was measured of these segments.
    """
    if state.plan.options.portable:
        return _noted(state, "what stays with PyTorch is not compiled: a portable program keeps networks, it has none")
    first = TimedSegments(state, builder, device)
    if not first.pytorch_segments and not first.alone:
        return _noted(state, *first.notes)
    bases = [
        (name, first if base is state else TimedSegments(base, builder, device))
        for name, base in _bases(state, device, source)
    ]
    builder.progress("optimize: compile what stays with PyTorch with AOTInductor")
    at_once = compiled_at_once(state)
    with ThreadPoolExecutor(at_once) as pool:
        for _, found in bases:
            found.compile(code, pool, compile_threads(state, at_once, device))
    ways = []
    for name, found in bases:
        found.measure(code)
        # Where engines were left out, what runs op by op in their place is no way to run the program.
        if taken := found.faster() if found is first else found.compiled():
            ways.append(_Way(name, found, taken))
    return _Choice(state, first, ways, builder, torch.device(device)).made(verified)


def _noted(state: State, *notes: str) -> State:
    assert state.optimization is not None
    found = replace(state.optimization, notes=(*state.optimization.notes, *notes))
    return replace(state, optimization=found)


def _bases(state: State, device: str, source: str | None) -> list[tuple[str, State]]:
    """Programs with ever less engines: all, those of the backend, of these the ones of no size from data, and none."""
    bases = [("the same, what stays compiled", state)]
    every = range(len(state.converted))
    own = [index for index in every if not state.kinds or state.kinds[index] != INDUCTOR]
    # A block with such sizes is no segment of AOTInductor by itself, and what makes them stands beside it.
    fixed = [index for index in own if not _of_data(state.converted[index])]
    ways = {tuple(kept): f"{amount(len(kept), 'engine')}, all else compiled" for kept in (own, fixed)}
    ways[()] = "AOTInductor, with what has no converter"
    for kept, name in ways.items():
        found = None if len(kept) == len(every) else _without_engines(state, kept, device, source)
        if found is not None:
            bases.append((name, found))
    return bases


def _of_data(one: ConvertedSegment) -> bool:
    """Whether an engine takes or makes tensors of sizes that the data decides."""
    sizes = [size for tensor in one.network.input_types for size in tensor.shape]
    names = {*free_symbols_of(sizes), *one.network.counts}
    given = {name for each in names for name in free_symbols(one.network.definitions.get(each, Sym(each)))}
    return bool(one.network.counts) or not all(map(is_backed, given))


def _without_engines(state: State, kept: Sequence[int], device: str, source: str | None) -> State | None:
    """The program with some of its engines, other ops left to PyTorch; ``None`` where more must leave them then."""
    plan = state.plan
    symbols = symbol_sizes(state.program.ranges, state.program.hints)
    parts = only(plan.partitioned, kept, symbols)
    converted = [state.converted[index] for index in kept]
    if any(not _fits(one, own.outputs) for one, own in zip(converted, parts.segments, strict=True)):
        return None
    names = {op.name: op.target for op in parts.plan.graph.ops}
    left = [op for index, one in enumerate(state.converted) if index not in kept for op in one.segment.ops]
    further = tuple(Fallback(op, names[op], Cause.LIMIT, _FASTER) for op in left)
    other = replace(
        state,
        planned=replace(plan, partitioned=replace(parts, fallback=(*parts.fallback, *further))),
        converted=tuple(replace(one, segment=own) for one, own in zip(converted, parts.segments, strict=True)),
        engines=tuple(state.engines[index] for index in kept),
        kinds=tuple(state.kinds[index] for index in kept) if state.kinds else (),
    )
    return replace(other, assembled=assembled(other, device, source))


def _fits(one: ConvertedSegment, outputs: Sequence[str]) -> bool:
    """Whether an engine gives what is read of it now; caches are written behind it as they were."""
    return not one.rows and {*outputs} <= {crossing.node for crossing in one.outputs}


class _Choice:
    def __init__(
        self, state: State, first: TimedSegments, ways: Sequence[_Way], builder: Builder, device: torch.device
    ) -> None:
        self._state, self._first, self._ways, self._builder, self._device = state, first, ways, builder, device

    def made(self, verified: Callable[[State], State]) -> State:
        """The fastest program that agrees."""
        if not self._ways:
            return self._told(self._first.made(()), self._first, [])
        before = self._times()
        for way in sorted(self._ways, key=lambda each: math.inf if each.time_ms is None else each.time_ms):
            took = way.time_ms
            if took is None or before is None:
                continue
            if took > before * (1 - WORTH_IT):
                way.why_not = f"{took:.3g} ms instead of {before:.3g}, less than {WORTH_IT:.0%} faster"
                continue
            # A run may have changed buffers of the program: the one that is kept never ran.
            state = verified(way.found.made(way.taken))
            if not _passed(state):
                way.why_not = _DIFFERS
                if way.found.state is not self._state:
                    continue  # fewer segments would leave ops of its engines to PyTorch, which nobody timed
                state = self._agreeing(way, verified)
            if way.taken:
                way.why_not = ""
                for timed in way.taken:
                    timed.why = f"faster; the whole program takes {took:.3g} ms instead of {before:.3g}"
                return self._told(state, way.found, way.taken)
        for way in self._ways:
            for timed in way.found.faster():
                timed.why = timed.why or f"the whole program with it: {way.why_not}"
        return self._told(self._first.made(()), self._first, [])

    def _agreeing(self, way: _Way, verified: Callable[[State], State]) -> State:
        """The program with as many of the segments as agree, what gains most first; with none where none does."""
        wanted, way.taken = way.taken, []
        result = way.found.made(())
        for timed in sorted(wanted, key=lambda each: -each.gain_ms):
            more = sorted([*way.taken, timed], key=lambda each: each.index)
            state = verified(way.found.made(more))
            if _passed(state):
                way.taken, result = more, state
            else:
                timed.why = _DIFFERS
        return result

    def _times(self) -> float | None:
        """Time whole programs; that of the one as it is."""
        self._builder.progress(f"optimize: time {amount(len(self._ways) + 1, 'whole program')}")
        args, kwargs = usual_arguments(self._state, self._device)
        states = {"": self._first.made(()), **{way.name: way.found.made(way.taken) for way in self._ways}}
        calls = {name: partial(state.compiled, *args, **kwargs) for name, state in states.items()}
        with torch.no_grad():
            found = take_turns(calls, ROUNDS, self._device)
        for way in self._ways:
            own = found[way.name]
            way.time_ms = typical(own.alone) if own.alone and not own.failed else None
            way.why_not = f"it does not run: {own.failed}" if own.failed else way.why_not
        before = found[""]
        return typical(before.alone) if before.alone and not before.failed else None

    def _told(self, state: State, found: TimedSegments, taken: Sequence[TimedSegment]) -> State:
        assert self._state.optimization is not None
        before = self._state.optimization
        wholes = [WholeTime(way.name, way.segments, way.time_ms, way.why_not) for way in self._ways]
        earlier = [replace(whole, why_not=whole.why_not or "slower") if taken else whole for whole in before.wholes]
        told = replace(
            before,
            pytorch_segments=found.told(taken),
            wholes=(*earlier, *wholes),
            notes=(*before.notes, *found.notes),
        )
        return replace(state, optimization=told)


def _passed(state: State) -> bool:
    return state.verification is None or state.verification.passed
