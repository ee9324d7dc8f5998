"""Conditions on sizes, told to torch while it traces."""

from __future__ import annotations

import torch


def expect(condition: bool | torch.SymBool, message: str) -> None:
    """Record that ``condition`` holds, as a guard or for sizes born from data as an assertion.

    Raises:
        RuntimeError: torch knows that it does not hold.
    """
    torch._check(condition, lambda: message)  # type: ignore[no-untyped-call]  # noqa: SLF001 - the documented way, in spite of its name
