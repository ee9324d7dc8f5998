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
class LayerRowView:
    """One layer; ``folded`` ops stand under ``more``.  ``moves``: it computes no op of the program."""

    place: str
    ops: tuple[LayerOpView, ...]
    folded: tuple[LayerOpView, ...]
    more: str
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
