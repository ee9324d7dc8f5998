"""Networks to engines, and engines to a program that calls them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any

from torch.export import ExportedProgram

from trtdiag.analysis.backend_times import INDUCTOR
from trtdiag.convert.facts import ConvertedSegment
from trtdiag.engine.backend import Backend, Profile, Runner, get_backend
from trtdiag.engine.build import Engine, build_engine, described
from trtdiag.engine.isolated_builds import ROOM_MIB
from trtdiag.engine.manifest import AssumedSize, Manifest
from trtdiag.engine.parallel_builds import build_engines
from trtdiag.engine.profiles import network_profile, several
from trtdiag.engine.tensorrt.gpu import free_mib
from trtdiag.errors import EngineBuildError
from trtdiag.frontend.program import Program
from trtdiag.network import Network, to_bytes
from trtdiag.network.aliased_outputs import written_inputs
from trtdiag.options import CompileOptions, Progress
from trtdiag.pipeline.state import State
from trtdiag.runtime.assemble import assemble, engine_buffers
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.runtime.compiled_device import on_engine_device
from trtdiag.runtime.earlier_engines import all_networks
from trtdiag.runtime.segment_program import ports_for, segment_program, usual_shapes
from trtdiag.shapes.size_profiles import SizeProfile
from trtdiag.wording import amount

MOST_AT_ONCE = 8
"""Own choice: processes that compile, each with PyTorch in its memory."""
MOST_THREADS = 8
"""Own choice: of such a process, each with PyTorch in its memory, too."""
PROCESS_MIB = 1024
"""Own choice, of a GPU: what a process that compiles takes there, at most."""
MOST_WEIGHTS_AT_ONCE = 2 * 2**30
"""Own choice, bytes: where a program has more, its segments are compiled one after the other, each with its weights."""


class Builder:
    """Builds the engines of one program; what is still as it was the last time is not built again.

    Args:
        backend: Builds them.
        progress: Called with each longer step.
        parts: The profiles of each engine, where it has several.

    Attributes:
        unusual: Why segments of AOTInductor have no code for the sizes to tune for alone, which is mostly faster.
        waits_for: What else is compiled meanwhile, after which ``ahead`` ends.
    """

    def __init__(self, backend: Backend, progress: Progress, parts: Sequence[SizeProfile] = ()) -> None:
        self._backend, self.progress, self._parts = backend, progress, parts
        self._last: tuple[tuple[ConvertedSegment, Engine], ...] = ()
        self._code: dict[tuple[str, ...], Future[bytes]] = {}
        self.unusual: list[str] = []
        self.waits_for: list[Future[Any]] = []

    def all(self, state: State) -> tuple[Engine, ...]:
        """The engine of each network.

        Raises:
            EngineBuildError: The backend refuses one.
        """
        if INDUCTOR in state.kinds:
            return self._of_kinds(state)
        known = {id(one): engine for one, engine in self._last}
        missing = [one for one in state.converted if id(one) not in known]
        wanted = [(one.network, self._profile(state, one.network)) for one in missing]
        try:
            built = build_engines(self._backend, wanted, state.plan.options, state.plan.target, self.progress)
        except EngineBuildError as error:
            error.engine = next(i for i, one in enumerate(state.converted) if one is missing[error.engine])
            raise
        known |= {id(one): _assuming(engine, state.program) for one, engine in zip(missing, built, strict=True)}
        engines = tuple(known[id(one)] for one in state.converted)
        self._last = tuple(zip(state.converted, engines, strict=True))
        return engines

    def _of_kinds(self, state: State) -> tuple[Engine, ...]:
        """Engines of several backends."""
        self.ahead(state, segments_of(state, INDUCTOR))
        plain = [one for one, kind in zip(state.converted, state.kinds, strict=True) if kind != INDUCTOR]
        built = iter(self.all(replace(state, converted=tuple(plain), kinds=())) if plain else ())
        pairs = zip(state.converted, state.kinds, strict=True)
        return tuple(self._inductor(state, one) if kind == INDUCTOR else next(built) for one, kind in pairs)

    def ahead(
        self, state: State, converted: Sequence[ConvertedSegment], meanwhile: Callable[[], None] = lambda: None
    ) -> None:
        """Compile segments with AOTInductor side by side, and keep their code; ends when all are done.

        What cannot be compiled is refused when it is asked for.

        Args:
            state: The program.
            converted: The segments.
            meanwhile: What else is to be done, which may ask for them: beside it where there is room.
        """
        new = {one.segment.ops: one for one in converted if one.segment.ops not in self._code}
        if not new:
            meanwhile()
            return
        self.progress(f"optimize: compile {amount(len(new), 'segment')} with AOTInductor")
        at_once = compiled_at_once(state)
        pool = ThreadPoolExecutor(at_once)
        try:
            for each in new.values():
                self._compile(state, each, pool, compile_threads(state, len(new), self._backend.device))
            beside = at_once > 1 and self._has_room(at_once)
            if beside:
                meanwhile()
            wait([*(self._code[ops] for ops in new), *self.waits_for])
        finally:
            pool.shutdown(cancel_futures=True)
        if not beside:
            meanwhile()

    def has_room_for_another(self, state: State) -> bool:
        """Whether there are cores and memory to compile one more segment beside those of ``ahead``, and a builder."""
        at_once = compiled_at_once(state)
        return at_once > 1 and self._has_room(at_once + 1)

    def _has_room(self, at_once: int) -> bool:
        """Whether the GPU has memory for a builder beside what compiles; two processes compile a segment."""
        free = free_mib() if self._backend.device == "cuda" else None
        return free is None or free >= ROOM_MIB + 2 * at_once * PROCESS_MIB

    def _compile(self, state: State, converted: ConvertedSegment, pool: ThreadPoolExecutor, threads: int) -> None:
        """Begin to compile a segment that is not known yet; its export is made here."""
        from trtdiag.engine.inductor.compile_segment import compiled_bytes

        device, key = self._backend.device, converted.segment.ops
        try:
            segment = _exported(state, converted, device)
            usual = usual_shapes(ports_for(converted, state.plan.sizes.opt))
        except EngineBuildError as error:
            self._code[key] = Future()
            self._code[key].set_exception(error)
        else:
            graphs = state.plan.options.cuda_graphs or 0
            asked = segment, device, usual, threads, self.unusual.append, graphs
            self._code[key] = pool.submit(compiled_bytes, *asked)

    def _inductor(self, state: State, converted: ConvertedSegment) -> Engine:
        """The segment, compiled by AOTInductor.

        Raises:
            EngineBuildError: It cannot be exported by itself, or AOTInductor refuses it.
        """
        plan, device = state.plan, self._backend.device
        self.ahead(state, [converted])
        blob = self._code[converted.segment.ops].result()
        profile = self._profile(state, converted.network)
        return described(blob, get_backend(INDUCTOR), device, converted.network, profile, plan.options, plan.target)

    def alone(self, state: State, converted: ConvertedSegment, kind: str) -> tuple[Runner, Manifest]:
        """One segment, built by this backend and loaded, to be timed.

        Raises:
            EngineBuildError: The backend refuses it.
        """
        if kind == INDUCTOR:
            engine = self._inductor(state, converted)
        else:
            profile = self._profile(state, converted.network)
            engine = build_engine(self._backend, converted.network, profile, state.plan.options, state.plan.target)
        return get_backend(kind).load(memoryview(engine.blob), engine.manifest), engine.manifest

    def part(self, state: State, network: Network) -> None:
        """Build a part of an engine that is refused, for the same sizes: it is looked at once, and not kept.

        Raises:
            EngineBuildError: It is refused, too.
        """
        self.progress(f"an engine was not built: looking for the op, in its first {len(network.layers):,} layers")
        plan = state.plan
        profile = self._profile(state, network)
        build_engine(self._backend, network, profile, replace(plan.options, engine_cache=None), plan.target)

    def _profile(self, state: State, network: Network) -> Profile:
        if not self._parts:
            return network_profile(network, state.plan.sizes.opt)
        return several([(each.name, network_profile(network, each.opt, each.box)) for each in self._parts])


def _assuming(engine: Engine, program: Program) -> Engine:
    """The engine, whose manifest says what of its sizes is the user's word."""
    manifest = engine.manifest
    said = {
        bound.symbol: AssumedSize(bound.name, *bound.said, bound.place)
        for bound in program.bounds
        if bound.assumed and not bound.unneeded and bound.symbol in manifest.ranges
    }
    return replace(engine, manifest=replace(manifest, assumed=said)) if said else engine


def _exported(state: State, converted: ConvertedSegment, device: str) -> ExportedProgram:
    """The segment as a program of its own.

    Raises:
        EngineBuildError: It cannot be one.
    """
    if written_inputs(converted.network):
        raise EngineBuildError(
            "a segment that writes into its inputs is not compiled by AOTInductor",
            because="its engine updates a cache of the program in place",
            fix="nothing needs to be done: it stays an engine",
            reference="inductor-refused",
        )
    return segment_program(state.plan.source, converted, state.plan.sizes.opt, device)


def segments_of(state: State, kind: str) -> list[ConvertedSegment]:
    """The segments of a program with several backends that this one runs."""
    return [one for one, own in zip(state.converted, state.kinds, strict=True) if own == kind]


def compiled_at_once(state: State) -> int:
    """How many segments to compile at once: two of three cores have one, each in two processes that also wait."""
    weights = sum(tensor.nbytes for tensor in state.plan.source.held.values())
    return 1 if weights > MOST_WEIGHTS_AT_ONCE else max(1, min(2 * _cores() // 3, MOST_AT_ONCE))


def compile_threads(state: State, segments: int, device: str) -> int:
    """How many kernels of a segment to compile at once, where so many segments are; for a CPU all are one file."""
    if device == "cpu":
        return 1
    return max(1, min(_cores() // min(segments, compiled_at_once(state)), MOST_THREADS))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def assembled(state: State, device: str | None, source: str | None) -> CompiledProgram:
    """The program that calls the engines.

    Args:
        state: It has engines.
        device: Where they run; ``None`` where they cannot run here.
        source: The file that it was compiled from, where it was one.
    """
    plan, converted = state.plan, state.converted
    exported = assemble(plan.lowered, plan.partitioned, converted, state.engines, state.program.exported)
    exported = exported if device is None else on_engine_device(exported, device)
    networks: Sequence[bytes] = ()
    if plan.options.portable:
        buffers = engine_buffers(plan.lowered, len(converted))
        networks = all_networks(exported, buffers, [to_bytes(one.network) for one in converted])
    return program_of(state, exported, networks, source)


def program_of(
    state: State, exported: ExportedProgram, networks: Sequence[bytes], source: str | None
) -> CompiledProgram:
    """The program to call.

    Args:
        state: What was compiled.
        exported: What calls the engines.
        networks: That of each engine, where they are kept.
        source: The file that it was compiled from, where it was one.
    """
    # What is known of a relaxed export is more than what its program asks of calls.
    original = state.program if state.program.failure is None else None
    return CompiledProgram(exported, networks, options=state.plan.options, source=source, original=original)


def by_reference(state: State) -> CompiledProgram:
    """The program with networks that the reference functions run in the place of engines that cannot run here."""
    backend = get_backend("reference")
    plan = replace(state.plan, options=CompileOptions(backend=backend.name, precision=state.plan.options.precision))
    state = replace(state, planned=plan, kinds=())
    state = replace(state, engines=Builder(backend, lambda _step: None).all(state))
    return assembled(state, backend.device, None)
