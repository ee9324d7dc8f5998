"""The whole page, top to bottom."""

from __future__ import annotations

from trtdiag.report.view import (
    CompiledView,
    DimsView,
    FindingView,
    GraphView,
    MemoryView,
    MetadataView,
    PartitionView,
    StageView,
    TypesView,
    VerdictView,
)
from trtdiag.report.view_sections import (
    ComparisonView,
    CoverageView,
    InputsView,
    NoWorkView,
    SettingsView,
    SpeedView,
    SplitsView,
    StripView,
)
from trtdiag.report.view_words import View


class ReportView(View):
    """The whole page in its order; ``None`` where a section has nothing to go by."""

    label: str
    verdict: VerdictView
    stages: tuple[StageView, ...]
    findings: tuple[FindingView, ...]
    splits: SplitsView | None
    inputs: InputsView
    dims: DimsView
    types: TypesView | None
    strip: StripView | None
    partition: PartitionView | None
    graph: GraphView | None
    coverage: CoverageView | None
    compiled: CompiledView | None
    speed: SpeedView | None
    no_work: NoWorkView | None
    memory: MemoryView | None
    metadata: MetadataView | None
    comparison: ComparisonView | None
    settings: SettingsView
    not_checked: tuple[str, ...]
    footer: tuple[str, ...]
