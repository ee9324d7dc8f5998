"""Guards that no op needs: torch asked for them while it worked out a size, and later ones do not."""

from __future__ import annotations

from trtdiag.graph.source import Stack

# The function of torch, the innermost frame of the guard's stack -> which torch asks there, and its source.
_FUNCTIONS = {
    "div_rtn": "torch before 2.13 asks whether a pooling's windows divide its input, and the op does not need it"
    " (pytorch pull request 183774)",
}


def needless(stack: Stack) -> str:
    """Why a guard with this stack is none of the model's; empty where nothing is known to that effect."""
    inner = stack.frames[-1] if stack.frames else None
    return "" if inner is None or inner.package != "torch" else _FUNCTIONS.get(inner.function, "")
