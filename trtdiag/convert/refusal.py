"""How a converter says that it cannot take an op as it is."""

from __future__ import annotations

from trtdiag.graph.limit import Limit


class Refused(Exception):  # noqa: N818 - it is an answer, not a failure
    """Raised by a converter, caught by whoever asked: the op stays with PyTorch for this reason."""

    def __init__(self, limit: Limit) -> None:
        super().__init__(f"{limit.why} [{limit.code}]")
        self.limit = limit


def refuse(code: str, why: str, fix: str = "") -> Refused:
    """Return what to raise for a limit of this code, reason and fix."""
    return Refused(Limit(code, why, fix))
