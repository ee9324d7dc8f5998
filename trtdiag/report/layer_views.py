"""What the page shows of the layers of built engines, as final strings."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LayerOpView:
    """One op that a layer computes; ``code`` is the line as it was recorded."""

    op: str
    node: str
    module: str
    where: str
    code: str


@dataclass(frozen=True)
class LineView:
    """A source line, short, with its whole path in ``full``."""

    short: str
    full: str


@dataclass(frozen=True)
class LayerRowView:
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


@dataclass(frozen=True)
class EngineLayersView:
    """The layers of one engine, in order; ``why`` says why there are none, or no times."""

    label: str
    summary: str
    rows: tuple[LayerRowView, ...]
    more: str
    timed: bool
    why: str
