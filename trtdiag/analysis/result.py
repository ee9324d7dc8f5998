"""Everything one analysis found: the input of every report format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from trtdiag.analysis.compilation import CompilationFacts
from trtdiag.analysis.fallbacks import PartitionFacts
from trtdiag.analysis.finding import Finding
from trtdiag.analysis.stage_timing import StageTiming
from trtdiag.analysis.tried_builds import TriedBuilds
from trtdiag.dims.facts import DimSystem
from trtdiag.dtypes.facts import DtypeFacts
from trtdiag.frontend.program import Program
from trtdiag.lower.facts import Checked
from trtdiag.options import AnalyzeOptions, CompileOptions
from trtdiag.shapes.facts import MemoryEstimate, ShapeFacts, SymbolTable
from trtdiag.shapes.profile import DimProfile


@dataclass(frozen=True)
class Analysis:
    """The facts and findings of one program.  Graph facts are ``None`` where there is no graph.

    ``tried`` is what the real builder said, where it was asked; ``compilation`` is what became of compiling, where the
    program was compiled; ``options`` is what was asked for, and ``profiles`` the sizes of each symbol that engines
    would be built for.
    """

    program: Program
    dims: DimSystem
    target: str
    trtdiag_version: str
    checked: Checked | None = None
    symbols: SymbolTable | None = None
    shapes: ShapeFacts | None = None
    memory: MemoryEstimate | None = None
    dtypes: DtypeFacts | None = None
    findings: tuple[Finding, ...] = ()
    stages: tuple[StageTiming, ...] = ()
    not_checked: tuple[str, ...] = ()
    op_nodes: int = 0
    partition: PartitionFacts | None = None
    compilation: CompilationFacts | None = None
    tried: TriedBuilds | None = None
    options: AnalyzeOptions | CompileOptions | None = None
    profiles: Mapping[str, DimProfile] = field(default_factory=dict)

    @property
    def fault(self) -> Exception | None:
        """What ended the first stage that failed by a fault of trtdiag; ``None`` where none did."""
        return next((stage.fault for stage in self.stages if stage.fault is not None), None)

    def noted(self, *notes: str) -> Analysis:
        """The same with further notes on the program."""
        return replace(self, program=replace(self.program, notes=(*self.program.notes, *notes)))
