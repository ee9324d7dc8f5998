"""A process that does not outlive the one that made it."""

from __future__ import annotations

import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # Source: linux/prctl.h


def end_with_parent(parent: int) -> None:
    """Let the system end this process when the thread that forked it ends, by force too; only Linux can.

    Args:
        parent: The process that forked this one; where it has ended already, this one ends now.
    """
    if sys.platform != "linux":
        return
    try:
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    except (ImportError, OSError, AttributeError):  # a Python or a C library without
        return
    if os.getppid() != parent:
        os._exit(1)
