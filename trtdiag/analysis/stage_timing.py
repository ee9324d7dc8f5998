"""How the stages of one run went; imports nothing heavy, for the command line shows it before torch is there."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StageTiming:
    """How one stage went: ``state`` is ``ok``, ``failed`` or ``not run``; wall seconds; the failure's message."""

    name: str
    state: str
    seconds: float
    message: str = ""
