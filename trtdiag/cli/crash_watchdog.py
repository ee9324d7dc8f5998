"""Outlives a command and says what it did when something ended it; a process of its own, which needs nothing of ours.

It reads lines ``step<TAB>fix`` from its standard input, and ``DONE`` where the command ends by itself, however it ends.
"""

from __future__ import annotations

import sys

DONE = "\x04"
"""In no step: they are single lines without control characters."""


def main() -> None:
    """Read until the command closes the pipe, or is no more."""
    step, fix = "", ""
    for line in sys.stdin.buffer:
        text = line.decode("utf-8", "replace").rstrip("\n")
        if text == DONE:
            return
        step, _, fix = text.partition("\t")
    if step:
        how = "a library crashed (TensorRT, CUDA or PyTorch), or the system ended the process"
        sys.stderr.write(ended_words(step, fix, f"{how}, as it does where memory runs out"))


def ended_words(step: str, fix: str, because: str) -> str:
    """What is said where something ended the process."""
    at = f", at this step: {step}" if step else ""
    return (
        f"error: something outside of Python ended the process{at}\n"
        f"  because: {because}\n"
        f"  fix: {fix}\n"
        "  [process-ended]\n"
    )


if __name__ == "__main__":
    main()
