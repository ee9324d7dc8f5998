"""What is known so far: each stage takes a state and gives another; none is changed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from trtdiag.analysis.backend_times import Optimization
from trtdiag.analysis.registry import rules
from trtdiag.analysis.result import Analysis
from trtdiag.analysis.stage_timing import StageTiming
from trtdiag.convert.facts import ConvertedSegment
from trtdiag.engine.build import Engine
from trtdiag.frontend.program import Program
from trtdiag.partition.facts import EnginePlan
from trtdiag.report.report import Report
from trtdiag.runtime.assemble import engine_buffers
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.runtime.engine_nodes import EngineNode, engine_nodes, split_nodes
from trtdiag.verification.facts import Verification


@dataclass(frozen=True)
class State:
    """A program on its way from the source to the engines.

    Attributes:
        analysis: What the diagnosis found; at the end also what became of compiling.
        planned: What goes into engines, where that is known.
        converted: Each engine's network.
        engines: Each engine with its manifest.
        assembled: The program that calls them.
        verification: The comparison with the original; ``None`` where it was not asked for.
        notes: What was built otherwise than planned, since TensorRT refused it or built it wrongly, in words.
        kinds: The backend of each engine where they are several; none: all are of the one that was asked for.
        optimization: What was measured to choose them.
        pytorch_segments: The buffers of compiled segments that stay with PyTorch, in the order of execution.
    """

    analysis: Analysis
    planned: EnginePlan | None = None
    converted: tuple[ConvertedSegment, ...] = ()
    engines: tuple[Engine, ...] = ()
    assembled: CompiledProgram | None = None
    verification: Verification | None = None
    notes: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    optimization: Optimization | None = None
    pytorch_segments: tuple[str, ...] = ()

    @property
    def program(self) -> Program:
        """The original."""
        return self.analysis.program

    @property
    def plan(self) -> EnginePlan:
        """What goes into engines, of a state past planning."""
        assert self.planned is not None
        return self.planned

    @property
    def compiled(self) -> CompiledProgram:
        """The program that calls the engines, of a state past assembling."""
        assert self.assembled is not None
        return self.assembled

    @property
    def verified(self) -> Verification:
        """The comparison, of a state past verifying."""
        assert self.verification is not None
        return self.verification

    @property
    def stages(self) -> tuple[StageTiming, ...]:
        """Each stage with its time, those of the diagnosis first."""
        return self.analysis.stages

    @cached_property
    def report(self) -> Report:
        """What was found, in every format."""
        return Report(self.analysis, rules=rules())

    def engine_nodes(self, compiled: CompiledProgram | None = None) -> tuple[tuple[EngineNode, ...], ...]:
        """The calls of engines: those of the plan, in its order, and those of an earlier compilation.

        Args:
            compiled: The program that has them, where that is another than ``compiled``.
        """
        exported = (compiled or self.compiled).exported_program
        if self.planned is None:
            return engine_nodes(exported), ()
        own, others = split_nodes(exported, engine_buffers(self.plan.lowered, len(self.converted)))
        return own, tuple(node for node in others if node.buffer not in self.pytorch_segments)

    def pytorch_segment_calls(self) -> tuple[EngineNode, ...]:
        """The calls of segments that stay with PyTorch and were compiled."""
        return split_nodes(self.compiled.exported_program, self.pytorch_segments)[0]
