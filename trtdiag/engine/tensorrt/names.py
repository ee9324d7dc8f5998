"""The names that an engine's inputs and outputs have: unique also where an input is an output."""

from __future__ import annotations


def input_name(index: int, name: str) -> str:
    """The name of the engine's input of this index."""
    return f"input {index}: {name}"


def output_name(index: int, name: str) -> str:
    """The name of the engine's output of this index."""
    return f"output {index}: {name}"
