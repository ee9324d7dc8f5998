"""Reads texts without torch's sentences: nothing but suggested fixes, or nothing but guards."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from trtdiag.dims.torch_text.facts import TextGuard
from trtdiag.dims.torch_text.joined_lines import Piece, Settled, settle
from trtdiag.dims.torch_text.sentences import SOURCE

_MOST_LINES = 200
SUGGESTION = re.compile(r"^\s*-?\s*(?P<line>[^\W\d]\w{0,200} = (?:Dim\(.{0,300}|None\b.{0,60}|-?[\w+*/ ().-]{1,200}))$")
_SIZE = re.compile(rf"{SOURCE}|\b[^\W\d][\w.\[\]']{{0,200}}\.(?:size\(\)\[|size\(|shape\[)\d")
_COMPARED = re.compile(r"[<>=!]=|[<>]|\b(?:Eq|Ne|Le|Lt|Ge|Gt)\(")
_MARKS = " \t-*`"
_AS_SENTENCE = "Guard failed: "


def bare_suggestions(lines: Sequence[str]) -> tuple[str, ...]:
    """Pasted suggestions without their heading; empty where the text has anything else."""
    present = [line for line in lines if line.strip()]
    if not 0 < len(present) <= _MOST_LINES:
        return ()
    found = [SUGGESTION.match(line[:600]) for line in present]
    return tuple(match["line"].strip() for match in found if match is not None) if all(found) else ()


def bare_guards(lines: Sequence[str], numbers: Sequence[int]) -> list[Settled]:
    """Conditions on sizes that stand on lines of their own, each with what follows it up to the next, as of ``settle``.

    Args:
        lines: Without prefixes.
        numbers: Of the lines in what was pasted.
    """
    starts = [i for i, line in enumerate(lines) if _is_guard(line)][:_MOST_LINES]
    found = []
    for start, behind in zip(starts, [*starts[1:], len(lines)], strict=False):
        end = next((i for i in range(start + 1, behind) if not lines[i].strip()), behind)
        texts = [lines[start].strip(_MARKS), *lines[start + 1 : end]]
        pieces = [Piece(text.strip(_MARKS if i == 0 else None), numbers[start + i]) for i, text in enumerate(texts)]
        pieces[0] = Piece(_AS_SENTENCE + pieces[0].text, pieces[0].line)
        settled = settle(pieces[:_MOST_LINES], None, unknown_before=False)
        if isinstance(settled.found, TextGuard):
            before = lines[start - 1].strip() if start and start - 1 not in starts else ""
            if before and not before.endswith((":", ".", "```")):  # the guard may be the end of that line
                settled = replace(settled, cut=settled.cut or Piece(before, numbers[start - 1]))
            found.append(settled)
    return found


def _is_guard(line: str) -> bool:
    """Whether the line begins with a size that is compared, in Python's words or sympy's."""
    if ".s" not in line and "L[" not in line:
        return False
    text = line[:2000].strip(_MARKS)
    size = _SIZE.search(text)
    if size is None or _COMPARED.search(text) is None:
        return False
    before = text[: size.start()]
    return (
        re.fullmatch(r"(?:[\s(\d*+/%<>=!-]|\b(?:and|or|not|Eq|Ne|Le|Lt|Ge|Gt|Mod|Max|Min|FloorDiv)\b)*", before)
        is not None
    )
