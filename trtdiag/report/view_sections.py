"""What single sections of the page show, as final strings; the pieces they are made of are in `view`."""

from __future__ import annotations

from trtdiag.report.view import GuardsView, TableView
from trtdiag.report.view_words import ChangeState, GuardVerdict, RunsIn, SeverityWord, SizeState, View


class SplitView(View):
    """One cause that keeps ops out of engines: ``outcome`` says what would be without it, ``finding`` is its id."""

    op: str
    reason: str
    code: str
    calls: str
    where: str
    engines: str
    ops: str
    crossing: str
    finding: str


class SplitsView(View):
    """What splits the engines.

    ``outcomes`` are the counterfactuals in words; ``folded`` rows (under ``more``) cost no engine; ``minimum`` is the
    partition with other values of ``min_segment_ops``.
    """

    summary: str
    outcomes: tuple[str, ...]
    rows: tuple[SplitView, ...]
    folded: tuple[SplitView, ...]
    more: str
    minimum: TableView | None


class GuardLineView(View):
    """A guard on a symbol in one line; ``verdict`` is ``holds``, ``breaks`` or ``unknown``."""

    text: str
    verdict: GuardVerdict
    where: str


class SymbolRowView(View):
    """A symbol, or an input dim that is none: where it comes from, its ranges, its guards and what is wrong with it.

    ``state`` is the word for the style (``ok``, ``breaks``, ``pinned``, ``unbounded``), ``verdict`` what the page says.
    """

    name: str
    origin: str
    born: str
    range: str
    profile: str
    expressions: str
    guards: tuple[GuardLineView, ...]
    more_guards: str
    uses: str
    state: SizeState
    verdict: str


class InputsView(View):
    """Inputs and symbols in one table, and the guards in full; ``inputs`` has every input with its shape."""

    inputs: TableView | None
    rows: tuple[SymbolRowView, ...]
    note: str
    guards: GuardsView


class StripPieceView(View):
    """A step of the execution as a piece of a bar: ``width`` is in proportion to its ops, but never too thin to see."""

    x: str
    width: str
    kind: RunsIn
    title: str
    label: str
    label_x: str


class StripView(View):
    """The execution as one bar, and how many pieces of each kind it has."""

    pieces: tuple[StripPieceView, ...]
    badges: tuple[str, ...]
    note: str


class CoverageView(View):
    """Where each op runs."""

    summary: str
    table: TableView | None


class NoWorkView(View):
    """What the exported graph holds that is no work, and what lowering made of the graph."""

    summary: str
    table: TableView | None
    passes: TableView | None


class ChangeView(View):
    """A finding that is new, fixed or unchanged since the earlier report."""

    state: ChangeState
    id: str
    severity: SeverityWord
    word: str
    message: str


class ComparisonView(View):
    """What changed since an earlier report; ``folded`` findings are unchanged."""

    summary: str
    earlier: str
    changes: tuple[ChangeView, ...]
    folded: tuple[ChangeView, ...]
    more: str
    numbers: TableView
    symbols: TableView | None
    notes: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.numbers.heads) != 3:
            raise ValueError("has numbers in other columns than what, before and now")


class SettingsView(View):
    """What was asked for and with what: ``settings`` are the options, ``versions`` the program and the machine."""

    settings: TableView | None
    versions: TableView
    command: str


class SpeedView(View):
    """What ``bench`` measured: a table for each set of sizes, under its title."""

    summary: str
    tables: tuple[TimesView, ...]


class TimesView(View):
    """The ways to run the program at one set of sizes."""

    title: str
    table: TableView
