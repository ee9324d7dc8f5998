"""Random expressions and guards as Python text, and what Python itself says about them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from types import CodeType

from hypothesis import strategies as st

NAMES = ("a", "b")


@st.composite
def constants(draw: st.DrawFn) -> str:
    return str(draw(st.one_of(st.integers(-4, 9), st.sampled_from((16, 28, 32)))))


def _joined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    divisor = st.one_of(st.integers(1, 9).map(str), st.integers(-5, -1).map(str), inner)
    return st.one_of(
        st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(inner, st.sampled_from(("//", "%")), divisor).map(lambda t: f"({t[0]} {t[1]} ({t[2]}))"),
        st.tuples(inner, st.sampled_from(("//", "%")), divisor).map(lambda t: f"({t[0]} {t[1]} ({t[2]}))"),
        st.tuples(st.sampled_from(("min", "max")), inner, inner).map(lambda t: f"{t[0]}({t[1]}, {t[2]})"),
        inner.map(lambda t: f"(-{t})"),
        st.tuples(inner, st.integers(0, 3)).map(lambda t: f"(({t[0]})**{t[1]})"),
        st.tuples(inner, inner, inner).map(lambda t: f"({t[0]} if {t[1]} > {t[2]} else {t[2]})"),
    )


def expressions(names: tuple[str, ...] = NAMES, leaves: int = 6) -> st.SearchStrategy[str]:
    """Integer expressions over ``names``, divisions by expressions that may be zero included."""
    leaf = st.one_of(st.sampled_from(names), st.sampled_from(names), constants())
    return st.recursive(leaf, _joined, max_leaves=leaves)


@lru_cache(maxsize=64)
def compiled(text: str) -> CodeType:
    """The text as Python's code."""
    return compile(text, "<guard>", "eval")


@dataclass(frozen=True)
class Guard:
    """A comparison (``parts`` empty) or a junction of guards."""

    text: str
    kind: str = "compare"
    parts: tuple[Guard, ...] = ()

    def truth(self, values: dict[str, int]) -> bool | None:
        """True, False, or None where it divides by zero: the logic of three values."""
        if self.kind == "compare":
            try:
                return bool(eval(compiled(self.text), {"min": min, "max": max}, dict(values)))
            except ZeroDivisionError:
                return None
        inner = [part.truth(values) for part in self.parts]
        if self.kind == "not":
            return None if inner[0] is None else not inner[0]
        decisive = self.kind == "or"
        if decisive in inner:
            return decisive
        return None if None in inner else not decisive


def _junction(kind: str, parts: tuple[Guard, ...]) -> Guard:
    return Guard("(" + f" {kind} ".join(part.text for part in parts) + ")", kind, parts)


def guards(names: tuple[str, ...] = NAMES, leaves: int = 4) -> st.SearchStrategy[Guard]:
    """Comparisons of expressions, joined by and, or, not."""
    side = expressions(names, leaves)
    relation = st.sampled_from(("==", "!=", "<", "<=", ">", ">="))
    # Half of them compare a remainder with a small number, as real guards do.
    plain = st.tuples(side, relation, side).map(lambda t: Guard(f"({t[0]} {t[1]} {t[2]})"))
    residue = st.tuples(side, st.integers(2, 12), relation, st.integers(0, 5)).map(
        lambda t: Guard(f"({t[0]} % {t[1]} {t[2]} {t[3]})")
    )
    leaf = st.one_of(plain, residue)
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.tuples(st.sampled_from(("and", "or")), st.tuples(inner, inner)).map(lambda t: _junction(*t)),
            inner.map(lambda g: Guard(f"(not {g.text})", "not", (g,))),
        ),
        max_leaves=3,
    )


def boxes(most: int = 30) -> st.SearchStrategy[dict[str, tuple[int, int]]]:
    """A small range for each name; one value, and zero and below, included."""
    one = st.tuples(st.integers(-3, 12), st.integers(0, most)).map(lambda t: (t[0], t[0] + t[1]))
    return st.fixed_dictionaries(dict.fromkeys(NAMES, one))


def points(box: dict[str, tuple[int, int]]) -> list[dict[str, int]]:
    """All points of a box in lexicographic order."""
    spans = [range(low, high + 1) for low, high in box.values()]
    return [dict(zip(box, values, strict=True)) for values in product(*spans)]


def value_of(text: str, values: dict[str, int]) -> int | None:
    """What Python computes, None where it divides by zero."""
    try:
        return int(eval(compiled(text), {"min": min, "max": max}, dict(values)))
    except ZeroDivisionError:
        return None
