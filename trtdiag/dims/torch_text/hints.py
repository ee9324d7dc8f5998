"""Reads torch's sentences about one dim of one input: its hint, its range, the form that its size must have.

Source: torch 2.13, ``_export/non_strict_utils.py`` (hints) and ``_export/utils.py`` (sizes given at run time).
"""

from __future__ import annotations

import re

from trtdiag.dims.torch_text.facts import TextGuard
from trtdiag.dims.torch_text.sentences import range_of
from trtdiag.symbolic import ExpressionError, Relation, all_of, compare, free_symbols, parse_expr
from trtdiag.symbolic.build import linear_terms, mod
from trtdiag.symbolic.conditions import within
from trtdiag.symbolic.expr import Num, Sym

_NUMBER = r"-?[\w()]{1,40}"
_ZERO_ONE = re.compile(r"0/1 specialized due to hint of (?P<value>[01])\s+for\s+dimension\s+(?P<site>\S{1,400})")
_AUTO_ZERO_ONE = re.compile(
    r"dimension (?P<site>\S{1,400}) 0/1 specialized;.{1,80}with a sample input with hint = (?P<value>[01])", re.DOTALL
)
_CONFLICTING = re.compile(
    rf"specified min/max range of \[(?P<low>{_NUMBER}), (?P<high>{_NUMBER})\],\s+conflicting with the inferred "
    rf"min/max range of \[(?P<least>{_NUMBER}), (?P<most>{_NUMBER})\],\s+for (?P<site>\S{{1,400}})"
)
_GIVEN = re.compile(
    r"Expected input (?:at )?\*?(?P<site>\S{1,400}\.shape\[\d{1,3}\])(?: = -?\d{1,40})? to be "
    r"(?:(?P<relation>equal to|>=|<=) (?P<value>-?\d{1,40}),? but got"
    r"|of the form (?P<form>\S.{0,400}), where (?P<symbol>\w{1,200}) is an integer)"
)
_NAMELESS = re.compile(
    r"Expected shape\[(?P<dim>\d{1,3})\] = (?P<size>-?\d{1,40}) of input Tensor to be of the form "
    r"(?P<form>\S.{0,400}), where"
)
_RELATIONS = {"equal to": Relation.EQ, ">=": Relation.GE, "<=": Relation.LE}


def read_hint(text: str) -> TextGuard | None:
    """The condition that a sentence about a single dim states, ``None`` where ``text`` is no such sentence."""
    text = " ".join(text.split())
    taken = _ZERO_ONE.search(text) or _AUTO_ZERO_ONE.search(text)
    if taken is not None:
        site = taken["site"].rstrip(".,")
        shown = f"{site} == {taken['value']}"
        return TextGuard(shown, compare(Relation.EQ, Sym(site), int(taken["value"])), "", kind="constant")
    conflict = _CONFLICTING.search(text)
    if conflict is not None:
        return _conflicting(conflict)
    given = _GIVEN.search(text)
    if given is not None:
        return _given(given)
    nameless = _NAMELESS.search(text)
    if nameless is None:
        return None
    why = f"torch does not name the input; its example has size {nameless['size']} in dim {nameless['dim']}"
    return TextGuard(f"a size of the form {nameless['form']}", None, why)


def _conflicting(match: re.Match[str]) -> TextGuard:
    """The range that torch inferred, beside the one that was asked for."""
    site = match["site"].rstrip(".,")
    inferred = range_of(match["least"], match["most"])
    asked = range_of(match["low"], match["high"])
    return TextGuard(f"{site} in {inferred}", all_of(within(Sym(site), inferred)), "", ((site, site),), asked=asked)


def _given(match: re.Match[str]) -> TextGuard:
    """What the exported program asks of a size that it was given."""
    site = match["site"]
    if match["form"] is None:
        relation = _RELATIONS[match["relation"]]
        kind = "specialised" if relation is Relation.EQ else "guard"
        condition = compare(relation, Sym(site), int(match["value"]))
        return TextGuard(f"{site} {relation.value} {match['value']}", condition, "", kind=kind)
    shown = f"{site} == {match['form']}"
    try:
        form = parse_expr(match["form"])
    except ExpressionError as error:
        return TextGuard(shown, None, str(error))
    terms, constant = linear_terms(form)
    if free_symbols(form) != {match["symbol"]} or len(terms) != 1 or not isinstance(terms[0][1], Sym):
        return TextGuard(shown, None, f"{match['form']} is no multiple of one integer and a constant")
    scale = terms[0][0]
    if scale.denominator != 1 or constant.denominator != 1 or scale < 1:
        return TextGuard(shown, None, f"{match['form']} has a factor that is no whole number above 0")
    rest = compare(Relation.EQ, mod(Sym(site), Num(int(scale))), int(constant) % int(scale))
    return TextGuard(shown, rest, "")
