"""The segments of what stays with PyTorch in a compiled program: compiled by AOTInductor, and timed in both ways."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from trtdiag.analysis.backend_times import PyTorchSegmentTimes
from trtdiag.benchmark.clock import take_turns
from trtdiag.engine.build import Engine
from trtdiag.engine.manifest import EngineInput
from trtdiag.engine.manifest_text import manifest_to_text
from trtdiag.engine.size_inputs import carrier_shape
from trtdiag.errors import EngineBuildError
from trtdiag.graph.segment import Segment
from trtdiag.graph.values import NodeReader
from trtdiag.grouping import grouped
from trtdiag.partition.blocks import likeness
from trtdiag.partition.facts import Fallback
from trtdiag.partition.partition import symbol_sizes
from trtdiag.partition.pytorch_segments import ALONE, only, pytorch_segments, uncompiled
from trtdiag.pipeline.build import Builder, program_of
from trtdiag.pipeline.intermediate_values import Values, as_lowered
from trtdiag.pipeline.program_times import ROUNDS, as_they_run, module_of, typical, usual_leaves
from trtdiag.pipeline.state import State
from trtdiag.runtime.assemble import PYTORCH_BUFFER, assemble, engine_buffers
from trtdiag.runtime.custom_op import EXECUTE_ENGINE
from trtdiag.runtime.engine_cache import engine_tensor
from trtdiag.runtime.pytorch_segment import PyTorchSegment, manifest_of, ports_of, pytorch_segment
from trtdiag.runtime.segment_program import dynamic_sizes, exported_part, part_module, usual_shapes
from trtdiag.wording import amount

if TYPE_CHECKING:
    from trtdiag.engine.inductor.package import Code

MOST_DISTINCT = 8
"""Own choice: each segment that differs is compiled, which takes half a minute; the largest are."""
MOST_NAMES = 4
"""Own choice: of ops in a line."""


@dataclass
class TimedSegment:
    """A segment with what is known of it.

    Attributes:
        index: Its place among the segments.
        part: The ops.
        ports: Its inputs, for the sizes that it takes.
        exporting: The same for the sizes that it is exported with.
        like: Equal for segments that compute the same of other weights.
        engine: Its compiled code, where there is any.
        eager_ms: Milliseconds of a run op by op, where it was timed.
        compiled_ms: Milliseconds of a call of its code.
        why: Why it runs as it does, in words.
    """

    index: int
    part: PyTorchSegment
    ports: list[EngineInput]
    exporting: list[EngineInput]
    like: str
    engine: Engine | None = None
    eager_ms: float | None = None
    compiled_ms: float | None = None
    why: str = ""

    @property
    def gain_ms(self) -> float:
        """What its code was measured to gain; 0 where it was not."""
        return 0.0 if self.eager_ms is None or self.compiled_ms is None else self.eager_ms - self.compiled_ms


class TimedSegments:
    """What stays with PyTorch in a compiled program.

    Args:
        state: The program; it is never run here.
        builder: Tells the progress.
        device: The type of device that engines run on.

    Attributes:
        pytorch_segments: The segments, in the order of execution.
        alone: Whether ops that could be compiled stand by themselves.
        notes: Which ops run one by one whatever is measured, in words.
    """

    def __init__(self, state: State, builder: Builder, device: str) -> None:
        self.state, self._builder, self._device = state, builder, torch.device(device)
        self._program = state.compiled.exported_program
        self._source = as_lowered(self._program, state.plan.source.origins)
        self.held: Mapping[Node, torch.Tensor] = self._source.held()
        self.graph_module: GraphModule = self._source.graph_module
        self._reader = NodeReader()
        self._nodes = {node.name: node for node in self.graph_module.graph.nodes}
        self._symbols = symbol_sizes(state.program.ranges, state.program.hints)
        self._parts = pytorch_segments(self.graph_module.graph, self.held, device, self._symbols, self._reader)
        self.pytorch_segments = [self._timed(index, each) for index, each in enumerate(self._parts.segments)]
        rest = list(uncompiled(self._parts))
        self.alone = any(each.limit is ALONE for each in rest)
        self._exported: dict[int, ExportedProgram] = {}
        self.notes = _uncompiled_words(rest)

    def _timed(self, index: int, segment: Segment) -> TimedSegment:
        part, sizes = pytorch_segment(segment, self._nodes, self._reader), self.state.plan.sizes
        larger = dynamic_sizes(sizes.opt, sizes.box)
        ports, exporting = (
            ports_of(part, self._nodes, self._reader, sizes.box, usual) for usual in (sizes.opt, larger)
        )
        nodes = (*segment.ops, *segment.elements)
        like = f"{likeness(self.graph_module.graph, nodes)}\n{[nodes.index(name) for name in segment.outputs]}"
        if any(self.held[self._nodes[name]].numel() < 2 for name in segment.constants):
            like = f"{like}\n{index}"  # values of single numbers may be part of the code
        return TimedSegment(index, part, ports, exporting, like)

    def measure(self, known: Mapping[str, Future[Code]]) -> None:
        """Time the segments whose code is known by now, those that are alike once; nothing may be compiled meanwhile.

        Args:
            known: The code of segments by likeness, of this program and others.
        """
        self._take(known)
        first: dict[str, TimedSegment] = {}
        for timed in self.pytorch_segments:
            if timed.engine is not None:
                first.setdefault(timed.like, timed)
        if not first:
            return
        self._builder.progress(f"optimize: time {amount(len(first), 'segment')} of what stays with PyTorch")
        wanted = {crossing.node for timed in first.values() for crossing in timed.part.inputs}
        values = Values(self._source, wanted).of(usual_leaves(self.state, self._device))
        for timed in first.values():
            own = as_they_run(self._calls(timed, values), self._device, self.state.plan.options)
            with torch.no_grad():
                found = take_turns(own, ROUNDS, self._device)
            eager, compiled = found["eager"], found["compiled"]
            timed.eager_ms = typical(eager.row) if eager.row and not eager.failed else None
            timed.compiled_ms = typical(compiled.row) if compiled.row and not compiled.failed else None
            timed.why = compiled.failed or eager.failed or ("" if timed.gain_ms > 0 else "it is not faster")
        for timed in self.pytorch_segments:
            if timed.engine is not None:
                its = first[timed.like]
                timed.eager_ms, timed.compiled_ms, timed.why = its.eager_ms, its.compiled_ms, its.why

    def _largest(self) -> list[TimedSegment]:
        """The segments to compile: the largest, and those like them."""
        by_likeness = grouped((timed.like, timed) for timed in self.pytorch_segments)
        order = sorted(by_likeness.values(), key=lambda its: -its[0].part.segment.work_ops)
        for left_out in order[MOST_DISTINCT:]:
            for timed in left_out:
                timed.why = f"no more than {MOST_DISTINCT} that differ are compiled, and these are smaller"
        return [timed for its in order[:MOST_DISTINCT] for timed in its]

    def compile(self, known: dict[str, Future[Code]], pool: Executor, threads: int) -> None:
        """Begin to compile the segments, those that are alike once.

        Args:
            known: The code of segments by likeness, of this program and others; this adds to it.
            pool: Where they are compiled.
            threads: How many kernels of each to compile at once.
        """
        from trtdiag.engine.inductor.compile_segment import compiled_code

        device = self._device.type
        for timed in self._largest():
            try:
                self._exported[timed.index] = exported_part(self, timed.part, timed.exporting, device)
            except EngineBuildError as error:
                timed.why = f"{error.message}: {error.because}"
            else:
                if timed.like not in known:
                    own, usual = self._exported[timed.index], usual_shapes(timed.ports)
                    known[timed.like] = pool.submit(compiled_code, own, device, usual, threads)

    def _take(self, known: Mapping[str, Future[Code]]) -> None:
        from trtdiag.engine.inductor.package import packed

        device, plan = self._device.type, self.state.plan
        for timed in self.pytorch_segments:
            own = self._exported.pop(timed.index, None)
            if own is None:
                continue
            try:
                blob = packed(own, known[timed.like].result(), device, plan.options.cuda_graphs or 0)
                about = manifest_of(own, timed.part, timed.ports, blob, device, plan.target.version)
                timed.engine = Engine(blob, about)
            except EngineBuildError as error:
                timed.why = f"{error.message}: {error.because}"

    def _calls(self, timed: TimedSegment, values: Mapping[str, Any]) -> dict[str, Callable[[], object]]:
        """What runs a segment once in each way, its crossings included."""
        assert timed.engine is not None
        given: list[torch.Tensor] = []
        for crossing, port in zip(timed.part.inputs, timed.ports, strict=True):
            value = values[crossing.node]
            shape = carrier_shape(port, int(value)) if port.is_size else None
            given.append(value if shape is None else torch.empty(shape, dtype=torch.uint8))
        module = part_module(self, timed.part, timed.ports)
        text, blob = manifest_to_text(timed.engine.manifest), engine_tensor(timed.engine.blob)
        return {
            "eager": partial(module, *(each.to(self._device) for each in given)),
            "compiled": partial(EXECUTE_ENGINE, given, blob, text),
        }

    def faster(self) -> list[TimedSegment]:
        """The segments whose code was measured to be faster."""
        return [timed for timed in self.pytorch_segments if timed.gain_ms > 0]

    def compiled(self) -> list[TimedSegment]:
        """The segments whose code runs."""
        return [timed for timed in self.pytorch_segments if timed.compiled_ms is not None]

    def made(self, taken: Sequence[TimedSegment]) -> State:
        """The state with these segments compiled, in a program that never ran."""
        kept = only(self._parts, [timed.index for timed in taken], self._symbols)
        parts = [replace(timed.part, segment=own) for timed, own in zip(taken, kept.segments, strict=True)]
        engines = [timed.engine for timed in taken if timed.engine is not None]
        exported = assemble(self._source, kept, parts, engines, self._program, PYTORCH_BUFFER)
        before = self.state.compiled
        program = program_of(self.state, exported, before.networks, before.source)
        return replace(
            self.state, assembled=program, pytorch_segments=engine_buffers(self._source, len(taken), PYTORCH_BUFFER)
        )

    def told(self, taken: Sequence[TimedSegment]) -> tuple[PyTorchSegmentTimes, ...]:
        """What was measured, and which of them run compiled."""
        alike = Counter(timed.like for timed in self.pytorch_segments)
        compiled = {timed.index for timed in taken}
        return tuple(
            PyTorchSegmentTimes(
                module_of(timed.part.segment.ops, self._source.origins),
                timed.part.segment.ops[0],
                len(timed.part.segment.ops),
                alike[timed.like],
                timed.eager_ms,
                timed.compiled_ms,
                timed.index in compiled,
                timed.why,
            )
            for timed in self.pytorch_segments
        )


def _uncompiled_words(rest: Sequence[Fallback]) -> list[str]:
    told = []
    for limit, entries in grouped((each.limit, each) for each in rest).items():
        ops = Counter(each.op for each in entries)
        names = ", ".join(f"{op} ({times}x)" if times > 1 else op for op, times in ops.most_common(MOST_NAMES))
        more = f" and {len(ops) - MOST_NAMES} more" if len(ops) > MOST_NAMES else ""
        told.append(f"runs eager: {names}{more}: {limit.why}")
    return told
