"""Options, frozen and defined once; the command line and ``pyproject.toml`` fill the same fields."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AnalyzeOptions:
    """What to analyse for, and what to report.

    Attributes:
        target: TensorRT version to answer for (``8.6``, ``10.16``, ``11.4``); ``None``: the installed one, else the
            newest known.
        select: Rules to run: ids, beginnings of ids, names; empty selects all.
        ignore: Rules to leave out, same words.
    """

    target: str | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
