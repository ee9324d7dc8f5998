"""What the HTML page shows, as final strings: templates place these and decide nothing."""

from __future__ import annotations

from trtdiag.report.drawing.picture import Picture
from trtdiag.report.layer_views import EngineLayersView
from trtdiag.report.view_words import (
    Agreement,
    ApplicabilityWord,
    ColumnKind,
    GuardVerdict,
    PointState,
    SeverityWord,
    SizeState,
    StageState,
    Status,
    View,
)


class VerdictView(View):
    """The top of the page.

    ``status`` is ``error``, ``warning``, ``incomplete``, ``clean``, or ``partial``: clean, but not all was checked.
    ``first`` is the finding to begin with, in words, ``first_id`` its id; both are empty without one.  ``fix`` is what
    to do about it; ``None`` where nothing is known.
    """

    status: Status
    text: str
    headline: str
    first: str
    first_id: str
    fix: FixView | None
    counts: str
    caveat: str
    failure: str
    failure_text: str
    failure_source: SourceView | None


class StageView(View):
    """One stage: ``state`` is ``ok``, ``failed`` or ``not run``."""

    name: str
    state: StageState
    time: str
    message: str


class CodeLine(View):
    """A line of source; ``current`` marks the one that is meant."""

    number: str
    text: str
    current: bool


class SourceView(View):
    """A place in a file; ``lines`` is empty where neither the file nor a recorded line is at hand."""

    where: str
    function: str
    lines: tuple[CodeLine, ...]


class EvidenceView(View):
    """A fact and where it is from."""

    fact: str
    source: str


class FixView(View):
    """What to do; ``applicability`` is ``safe``, ``unsafe`` or ``manual``, ``meaning`` says what that means."""

    title: str
    applicability: ApplicabilityWord
    meaning: str
    code: str


class PlaceView(View):
    """One place of a finding: node and op, module, source line."""

    node: str
    op: str
    module: str
    where: str


class FindingView(View):
    """One finding and those it causes; ``more`` labels the folded places (``and 28 more``).

    ``impact`` is what it costs, ``modules`` where it shows, both in words; empty where that says nothing.  ``source``
    is left out where the finding before or the one that causes this one shows the same lines; ``where`` has the place
    all the same.
    """

    id: str
    rule: str
    name: str
    title: str
    severity: SeverityWord
    word: str
    message: str
    impact: str
    modules: str
    evidence: tuple[EvidenceView, ...]
    more_evidence: tuple[EvidenceView, ...]
    more_evidence_label: str
    where: str
    source: SourceView | None
    fix: FixView | None
    places: tuple[PlaceView, ...]
    folded: tuple[PlaceView, ...]
    more: str
    caused: tuple[FindingView, ...]
    caused_label: str


class DimRowView(View):
    """One row of the dims table; ``state`` is the word of `DimRow`, ``label`` what the page says."""

    site: str
    declared: str
    range: str
    allowed: str
    suggested: str
    state: SizeState
    label: str


class SuggestionView(View):
    """Code that defines the Dims to declare, and what it keeps."""

    code: str
    sites: str
    summary: str
    proof: str
    proven: bool
    alternatives: tuple[str, ...]


class GuardView(View):
    """One guard: ``verdict`` is ``breaks`` or ``unknown``."""

    verdict: GuardVerdict
    text: str
    counterexample: str
    witness: str
    allowed: str
    note: str
    proof: str
    proven: bool
    found_in: str
    cause: str
    source: SourceView | None


class UnparsedView(View):
    """A guard that could not be read."""

    text: str
    why: str
    found_in: str


class TableView(View):
    """A plain table, without a head where ``heads`` is empty; ``folded`` rows are under ``more``.

    ``kinds`` says what a column holds: ``number``, ``code``, or empty for words.
    """

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    folded: tuple[tuple[str, ...], ...] = ()
    more: str = ""
    kinds: tuple[ColumnKind, ...] = ()

    def __post_init__(self) -> None:
        if self.heads and any(len(row) != len(self.heads) for row in (*self.rows, *self.folded)):
            raise ValueError(f"has {len(self.heads)} heads and a row of another number of cells")

    def kind(self, column: int) -> str:
        """What a column holds; words where nothing is said."""
        return self.kinds[column] if column < len(self.kinds) else ""


class GuardsView(View):
    """All guards; ``troubled`` are those that break or are undecided."""

    summary: str
    troubled: tuple[GuardView, ...]
    more: str
    holding: TableView | None
    holding_label: str
    unparsed: tuple[UnparsedView, ...]
    more_unparsed: str


class PrecisionView(View):
    """What half precision does to the program; ``stays`` lists what stays in float32."""

    title: str
    summary: str
    stays: TableView | None


class TypesView(View):
    """The dtypes of the program for one target.

    ``planned`` has what is of another type inside engines, ``precision`` is there where another than the program's own
    was asked for.
    """

    target: str
    counts: TableView
    int64_note: str
    int64: TableView | None
    float64: TableView | None
    unsupported: TableView | None
    planned: TableView | None
    precision: PrecisionView | None


class MemoryView(View):
    """Bytes at the maximum of every range."""

    sums: TableView
    largest: TableView | None


class MetadataView(View):
    """How the recorded values of nodes were found."""

    summary: str
    defects: TableView | None
    unchecked: TableView | None


class GraphView(View):
    """The picture of the top level, which works without JavaScript, and the data for the explorer."""

    summary: str
    picture: Picture
    payload: str
    layout_note: str


class SegmentView(View):
    """One engine: what it holds, what enters and leaves."""

    title: str
    summary: str
    crossing: TableView
    sizes: TableView | None


class PartitionView(View):
    """What goes into engines; ``strip`` has a box for each step of the execution, where there is more than one.

    ``tried`` is what the real builder said of them, where it was asked, under ``tried_summary``.
    """

    summary: str
    strip: Picture | None
    strip_note: str
    segments: tuple[SegmentView, ...]
    more_segments: str
    boundaries: TableView | None
    tried_summary: str = ""
    tried: TableView | None = None


class PointRowView(View):
    """One output at one set of sizes; ``state`` is ``agrees``, ``unstable``, ``differs``, ``failed`` or ``skipped``."""

    point: str
    sizes: str
    output: str
    max_abs: str
    max_rel: str
    allowed: str
    state: PointState
    why: str


class VerificationView(View):
    """The comparison with the original; ``state`` is ``agrees``, ``differs`` or ``unknown``."""

    state: Agreement
    text: str
    rows: tuple[PointRowView, ...]
    folded: tuple[PointRowView, ...]
    more: str
    allowed: str
    culprit: str
    source: SourceView | None
    notes: tuple[str, ...]


class EngineView(View):
    """One engine as it was built: ``ports`` has its inputs with their sizes, and its outputs.

    ``layers`` counts those of its network, ``built`` has what they became.
    """

    title: str
    summary: str
    made: str
    layers: str
    ports: TableView
    built: EngineLayersView
    is_open: bool


class CompiledView(View):
    """What became of compiling."""

    summary: str
    verification: VerificationView | None
    engines: tuple[EngineView, ...]
    more_engines: str


class DimsView(View):
    """The dims table (``static`` rows are folded under ``static_label``) and what to declare instead."""

    rows: tuple[DimRowView, ...]
    static: tuple[DimRowView, ...]
    static_label: str
    suggestions: tuple[SuggestionView, ...]
    pinned: tuple[str, ...]
    tied: tuple[str, ...]
    conflicts: tuple[tuple[str, ...], ...]
