"""Names and bounds of Dims in words that both Python and torch take."""

from __future__ import annotations

import keyword
import re
from collections.abc import Container, Iterable
from itertools import chain, count

import sympy

from trtdiag.symbolic.ranges import Range

RESERVED = frozenset({"Dim", "torch", "dynamic_shapes", "deque", "namedtuple"})


class Names:
    """Gives out identifiers, each once: a name that is taken or cannot be used gets ``_2``, ``_3``, ..."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(RESERVED) | set(taken)

    def take(self, wanted: str, *, derived: bool) -> str:
        """A name like ``wanted``; with ``derived``, one that torch can compute with."""
        base = wanted if wanted.isidentifier() else _identifier(wanted)
        name, number = base, 2
        while name in self._taken or keyword.iskeyword(name) or (derived and not _computable(name)):
            name, number = f"{base}_{number}", number + 1
        self._taken.add(name)
        return name


def _identifier(text: str) -> str:
    """``text`` with everything that no identifier can have replaced by ``_``."""
    kept = "".join(part if f"_{part}".isidentifier() else "_" for part in text)
    return kept if kept.isidentifier() else f"_{kept}"


def _computable(name: str) -> bool:
    """Whether sympy reads the name as a symbol: torch names ``2*Dim("N")`` through it, where ``N`` is a function."""
    try:
        return isinstance(sympy.sympify(name), sympy.Symbol)
    except (sympy.SympifyError, TypeError, AttributeError):
        return False


def free_name(base: str, taken: Container[str]) -> str:
    """``base``, else the first of ``base_2``, ``base_3``, ... that is not taken."""
    return next(name for name in chain([base], (f"{base}_{number}" for number in count(2))) if name not in taken)


def identifier(name: str) -> str:
    """A Python name for a dim: ``h`` as it is, ``x.shape[2]`` as ``x_dim2``."""
    plain = re.sub(r"\.shape\[(\d+)\]$", r"_dim\1", name)
    return re.sub(r"[\W_]+", "_", plain).strip("_") or "dim"


def bounds_text(range_: Range) -> str:
    """The ends of a range as keyword arguments, ``min=2, max=64``; an open end is left out."""
    ends = (("min", range_.min), ("max", range_.max))
    return ", ".join(f"{end}={value}" for end, value in ends if value is not None)
