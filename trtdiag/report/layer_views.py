"""What the page shows of the layers of built engines, as final strings."""

from __future__ import annotations

from trtdiag.report.view_words import View


class LayerOpView(View):
    """One op that a layer computes; ``code`` is the line as it was recorded."""

    op: str
    node: str
    module: str
    where: str
    code: str


class LineView(View):
    """A source line, short, with its whole path in ``full``."""

    short: str
    full: str


class LayerRowView(View):
    """One layer: its first ops by name, where they come from, and all of it in ``ops``, which are folded under ``all``.

    ``moves``: it computes no op of the program.
    """

    place: str
    nodes: str
    modules: str
    lines: tuple[LineView, ...]
    ops: tuple[LayerOpView, ...]
    all: str
    moves: bool
    note: str
    kind: str
    name: str
    precision: str
    tactic: str
    time: str
    share: str


class EngineLayersView(View):
    """The layers of one engine, in order; ``why`` says why there are none, or no times."""

    label: str
    summary: str
    rows: tuple[LayerRowView, ...]
    more: str
    timed: bool
    why: str
