"""A nested ``dynamic_shapes`` as Python text, laid out as a formatter leaves it."""

from __future__ import annotations

import importlib
import re
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from trtdiag.dims.plan import Leaf

WIDTH = 100
_STEP = 4
_NO_MAX = re.compile(r"\w+ = Dim\((?!.*max=).*\)")

MISSING_MAX = "  # give it max=: TensorRT builds for sizes up to one"
"""What stands behind a Dim that has no largest size."""

LeafText = Callable[[Leaf], str]


def assigned(variable: str, value: Any, leaf_text: LeafText) -> str:
    """``variable = ...`` with one line for each input, longer ones broken further."""
    head = f"{variable} = "
    flat = head + _flat(value, leaf_text)
    # A formatter joins a broken tuple of one item that fits on a line, and nothing else.
    alone = isinstance(value, tuple) and len(value) == 1 and len(flat) <= WIDTH
    if isinstance(value, (dict, list, tuple)) and value and not alone:
        return head + _broken(value, 0, leaf_text)
    return flat


def with_missing_maxima(code: str) -> str:
    """The code with a word at each Dim that has no largest size."""
    return "".join(f"{line}{MISSING_MAX if _NO_MAX.fullmatch(line) else ''}\n" for line in code.splitlines())


def quoted(value: Any) -> str:
    """``repr`` with double quotes where that changes nothing else."""
    text = repr(value)
    if isinstance(value, str) and text.startswith("'") and '"' not in text and "\\" not in text:
        return f'"{text[1:-1]}"'
    return text


def containers(value: Any) -> Iterator[Any]:
    """Every container in a nested value."""
    if isinstance(value, (dict, list, tuple, deque)):
        yield value
        for part in value.values() if isinstance(value, dict) else value:
            yield from containers(part)


def named_tuples(value: Any) -> set[type]:
    """The classes of the named tuples in a nested value."""
    return {type(found) for found in containers(value) if hasattr(found, "_fields")}


def import_lines(value: Any, *, uses_dim: bool) -> tuple[list[str], list[str]]:
    """Import lines that a nested value needs, and definitions for classes that cannot be imported."""
    standard, other, defined = set(), set(), []
    if uses_dim:
        other.add("from torch.export import Dim")
    if any(isinstance(found, deque) for found in containers(value)):
        standard.add("from collections import deque")
    for found in sorted(named_tuples(value), key=lambda kind: kind.__name__):
        if _importable(found):
            other.add(f"from {found.__module__} import {found.__name__}")
            continue
        standard.add("from collections import namedtuple")
        fields = ", ".join(quoted(field) for field in found._fields)  # type: ignore[attr-defined]
        defined.append("# Put the class of your inputs here: torch compares it.")
        defined.append(f'{found.__name__} = namedtuple("{found.__name__}", [{fields}])')
    lines = sorted(standard) + ([""] if standard and other else []) + sorted(other)
    return lines, defined


def _importable(found: type) -> bool:
    try:
        module = importlib.import_module(found.__module__)
    except (ImportError, ValueError):
        return False
    return getattr(module, found.__name__, None) is found


def _parts(value: Any) -> tuple[str, list[tuple[str, Any]], str]:
    """Opening text, the parts each with what stands before it, closing text."""
    if isinstance(value, dict):
        return "{", [(f"{quoted(key)}: ", part) for key, part in value.items()], "}"
    if isinstance(value, list):
        return "[", [("", part) for part in value], "]"
    if isinstance(value, deque):
        return "deque(", [("", list(value))], ")"
    if hasattr(value, "_fields"):
        return f"{type(value).__name__}(", [(f"{f}=", p) for f, p in zip(value._fields, value, strict=True)], ")"
    return "(", [("", part) for part in value], ")"


def _flat(value: Any, leaf_text: LeafText) -> str:
    if value is None:
        return "None"
    if isinstance(value, Leaf):
        return leaf_text(value)
    opening, parts, closing = _parts(value)
    comma = "," if type(value) is tuple and len(value) == 1 else ""
    return opening + ", ".join(before + _flat(part, leaf_text) for before, part in parts) + comma + closing


def _broken(value: Any, indent: int, leaf_text: LeafText) -> str:
    opening, parts, closing = _parts(value)
    inner = indent + _STEP
    lines = [opening]
    for before, part in parts:
        text = _flat(part, leaf_text)
        nested = isinstance(part, (dict, list, tuple, deque)) and len(part) > 0
        if nested and inner + len(before) + len(text) + 1 > WIDTH:
            text = _broken(part, inner, leaf_text)
        comma = "" if isinstance(value, deque) else ","  # a lone argument: a formatter adds none
        lines.append(" " * inner + before + text + comma)
    return "\n".join([*lines, " " * indent + closing])
