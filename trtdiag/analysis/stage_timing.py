"""How the stages of one run went; imports nothing heavy, for the command line shows it before torch is there."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class StageTiming:
    """How one stage went: ``state`` is ``ok``, ``failed`` or ``not run``; wall seconds; the failure's message.

    ``fault`` is the exception that ended it, where that was a fault of trtdiag and the analysis went on without it.
    """

    name: str
    state: str
    seconds: float
    message: str = ""
    fault: Exception | None = field(default=None, compare=False, repr=False)
