"""What an op is called with besides tensors: stride, padding, dims, dtypes, by the names of its schema."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch.fx import Node

from trtdiag.graph.operators import arguments_of, named_arguments, operator_of, value_arguments
from trtdiag.report.drawing.shape_words import ShapeWords
from trtdiag.wording import one_line

_LONGEST_CHARS = 120
_UNSAID = frozenset({"device", "generator", "layout", "memory_format", "out", "pin_memory"})
"""Arguments that say nothing of what is computed: the panel has them, boxes do not."""
_SEPARATOR = " · "


class OpArgument(NamedTuple):
    """One argument: its name and value in words, and whether the call gives another value than the default."""

    name: str
    text: str
    given: bool


def op_arguments(node: Node, words: ShapeWords) -> tuple[OpArgument, ...]:
    """The arguments of a call that are no tensors, in the order of the schema, sizes by the user's names."""
    op = operator_of(node)
    if op is None:
        return ()
    found = []
    for name, value in named_arguments(node, op).items():
        no_tensor = value is None and any(argument.name == name for argument in value_arguments(op))
        text = "" if no_tensor else _text(value, words)
        if text:
            given = not _same(value, arguments_of(op)[name].default)
            found.append(OpArgument(name, one_line(text, _LONGEST_CHARS), given))
    return tuple(found)


def short_arguments(shape: str, arguments: Sequence[OpArgument], most: int) -> str:
    """The second line of a box: the shape, and behind it the arguments that are no defaults as far as there is room."""
    told = shape
    for argument in arguments:
        if not argument.given or argument.name in _UNSAID:
            continue
        longer = (
            f"{told}{', ' if told != shape else _SEPARATOR if told else ''}{argument.name} {_folded(argument.text)}"
        )
        if len(longer) <= most:
            told = longer
    return told


def _folded(text: str) -> str:
    """``2`` for ``[2, 2]``."""
    items = set(text.removeprefix("[").removesuffix("]").split(", "))
    return items.pop() if text.startswith("[") and len(items) == 1 and text != "[]" else text


def _same(value: object, default: object) -> bool:
    """Whether a call gives the default; ``True`` is not 1."""
    if isinstance(value, (list, tuple)) and isinstance(default, (list, tuple)):
        return len(value) == len(default) and all(map(_same, value, default))
    return type(value) is type(default) and not isinstance(value, (Node, torch.Tensor)) and value == default


def _text(value: object, words: ShapeWords) -> str:
    """The value as it is written; empty for what is a tensor."""
    if isinstance(value, Node):
        return words.number(value)
    if isinstance(value, (list, tuple)):
        items = [_text(item, words) for item in value]
        return f"[{', '.join(items)}]" if all(items) else ""
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, torch.Tensor):
        return ""
    return str(value).removeprefix("torch.")
