"""Where a layer comes from: what an error, a report and a bisection name."""

from __future__ import annotations

from dataclasses import dataclass

from trtdiag.graph.source import Frame


@dataclass(frozen=True, slots=True)
class Origin:
    """The op that a layer was written for (``aten.relu.default``), its graph node, and the line it stands in."""

    op: str
    node: str
    frame: Frame | None = None

    def __str__(self) -> str:
        where = f" at {self.frame}" if self.frame is not None else ""
        return f"{self.op} ({self.node}){where}"
