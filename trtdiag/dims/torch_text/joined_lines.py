"""Reads a sentence that lies on several pasted lines, in every way in which they may have been one line.

A sentence is certain where all ways that read at all say the same, or where widths and torch's own words leave one.
Where they do not, the likeliest is taken and the line is named behind which it may be otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from trtdiag.dims.torch_text.conditions import MOST_ENDS, closed_ends
from trtdiag.dims.torch_text.facts import Created, Outside, Sentence, TextGuard
from trtdiag.dims.torch_text.hints import read_hint
from trtdiag.dims.torch_text.phrases import BEGINS
from trtdiag.dims.torch_text.sentences import SOURCE, WHERE, read_sentence
from trtdiag.symbolic import free_symbols

_MOST_UNSURE = 4  # of so many joins all ways are tried, of more the uniform ones
_TOKEN = re.compile(r"\w+$")
# What cannot begin anything but the rest of a condition; a dash and a number may be an item of a list.
_GOES_ON = re.compile(r"(?:[+*/%<>=!&|)\]]|(?:and|or)\b|-\s*[^\s\d])")
_MAY_GO_ON = re.compile(r"(?:[+*/%<>=!&|)\]]|(?:and|or)\b|-\s*[\dL(])")
# Words of torch's behind the condition: where they stand, it is whole.
_ENDED = re.compile(
    r"\[guard added\]|, where \{| on node|, hint=|\(unhinted|\(Size-like|\(hinted|\"\s*$|\[[^\]]*, [^\]]*\]"
)

# Sentences from torch's first word to where the condition begins, or to their end where they have none.
_NAME = r"[^\W\d]\w*"
_SITE = rf"(?:{_NAME} = )?(?:{SOURCE}|\w+\({SOURCE}\)|{_NAME}(?:[.\[][\w.'\[\]()]*)?)"
_BETWEEN = rf"(?:-?\d+ <= )?(?:{SOURCE}|{_NAME})(?: <= (?:-?\d+|[A-Za-z_]\w*(?:\(\))?))?"
_WHOLE = re.compile(
    rf"Not all values of {_SITE}(?: in the specified range(?: {_BETWEEN})?)?"
    r" (?:satisfy the generated guard \S"
    rf"|are valid because (?:{SOURCE}|{_NAME}) was inferred to be (?:a constant \(-?\d+\)|equal to \S))"
    rf"|You marked {_SITE} as dynamic but your code specialized it to be a constant \(-?\d+\)"
    rf"|The values of {_SITE} and {_SITE} must always be equal"
    rf"|The values of {_SITE} must always be related to the values of {_SITE} by {_NAME} = \S"
)
_RANGED = re.compile(r"create_symbol .*\[[^\[\]]+, [^\[\]]+\](?: |$)")
_SPACED_KEY = re.compile(r"'[^'\s]*\s[^']*'")


@dataclass(frozen=True)
class Piece:
    """A pasted line's share of a sentence.

    Attributes:
        text: Its text.
        line: Its number in what was pasted, from 1.
        glue: What stood between it and the next piece, ``None`` where nothing says that they belong together.
        sure: Whether the widths say so beyond doubt.
        open: Whether the width leaves it open that the next line goes on with it.
    """

    text: str
    line: int
    glue: str | None = None
    sure: bool = False
    open: bool = False


@dataclass(frozen=True)
class Settled:
    """What a sentence says.

    Attributes:
        found: As of ``read_sentence``.
        count: How many of the pieces belong to it.
        cut: The piece behind which it may go on otherwise, ``None`` where it is certain.
    """

    found: Sentence | str | None
    count: int
    cut: Piece | None = None


def settle(pieces: Sequence[Piece], following: str | None, *, unknown_before: bool) -> Settled:
    """Read the sentence that begins with the first piece.

    Args:
        pieces: Lines that may belong to it, in order.
        following: The line behind them, ``None`` where it surely begins something else.
        unknown_before: Whether words of no known prefix stand before the sentence, so that they may stand in its midst.
    """
    found: dict[object, tuple[Sentence, str]] = {}
    end = len(pieces)
    for end in _ends(pieces):
        found = _whole(pieces[:end])
        if found:
            break
    if not found:
        return _not_whole(pieces, following)
    chosen, text = next(iter(found.values()))
    cut = None
    if len(found) > 1:
        cut = next((piece for piece in pieces[: end - 1] if not piece.sure), None)
    cut = cut or _in_a_name(pieces[:end], chosen) or _earlier_end(pieces, end, chosen, text)
    behind = pieces[end].text if end < len(pieces) else following
    if cut is None and behind is not None:
        last = pieces[end - 1]
        if _may_go_on(chosen, text, behind, wide=last.open or last.glue is not None, unknown_before=unknown_before):
            cut = last
    return Settled(chosen, end, cut)


def _ends(pieces: Sequence[Piece]) -> list[int]:
    """Numbers of pieces that may make up the sentence, the likeliest first."""
    ends = [end + 1 for end in closed_ends([piece.text for piece in pieces])]
    return list(dict.fromkeys((len(pieces), *reversed(ends), 1)))


def _is_whole(text: str, found: Sentence | str | None) -> bool:
    """Whether ``text``, a sentence on one line, has every word that torch puts there, so that nothing of it is lost."""
    if found is None or isinstance(found, str) or (isinstance(found, TextGuard) and found.condition is None):
        return False
    if "where {'" in text and WHERE.search(text) is None:
        return False
    if isinstance(found, Created):
        return _RANGED.search(text) is not None
    head = next((text.find(head) for head in BEGINS if head in text), None)
    return head is None or _WHOLE.match(" ".join(text[head:].split())) is not None


def _texts(pieces: Sequence[Piece]) -> list[str]:
    """The texts that the pieces may have been, the likeliest first."""
    if len(pieces) == 1:
        return [pieces[0].text.strip()]
    options: list[tuple[str, ...]] = []
    for piece in pieces[:-1]:
        likely = " " if piece.glue is None else piece.glue
        options.append((likely,) if piece.sure else (likely, "" if likely else " "))
    unsure = sum(len(option) > 1 for option in options)
    ways: Iterable[tuple[str, ...]]
    if unsure <= _MOST_UNSURE:
        ways = product(*options)
    else:
        ways = (tuple(option[way % len(option)] for option in options) for way in (0, 1))
        ways = (*ways, *(tuple(option[0] if len(option) == 1 else glue for option in options) for glue in ("", " ")))
    return list(dict.fromkeys(_joined(pieces, glues) for glues in ways))


def _joined(pieces: Sequence[Piece], glues: tuple[str, ...]) -> str:
    """The pieces on one line, each run of spaces as one."""
    text = pieces[0].text
    for piece, behind, glue in zip(pieces, pieces[1:], glues, strict=False):
        exact = piece.sure and glue == ""
        text = (text if exact else text.rstrip()) + glue + (behind.text if exact else behind.text.lstrip())
    return " ".join(text.split())


def _said(found: Sentence) -> object:
    """What counts of a sentence: two that agree in it are one."""
    if isinstance(found, TextGuard):
        return (found.condition, found.names, found.asked, found.kind)
    return found


def _whole(pieces: Sequence[Piece]) -> dict[object, tuple[Sentence, str]]:
    """Each different sentence that the pieces may be, with its text."""
    found: dict[object, tuple[Sentence, str]] = {}
    for text in _texts(pieces):
        read = read_hint(text) or read_sentence(text)
        if read is not None and not isinstance(read, str) and _is_whole(text, read):
            found.setdefault(_said(read), (read, text))
    return found


def _in_a_name(pieces: Sequence[Piece], chosen: Sentence) -> Piece | None:
    """The piece at whose end a name was broken, so that the space in it may be none of its own."""
    if len(pieces) == 1 or not isinstance(chosen, TextGuard) or chosen.condition is None:
        return None
    for source in (*free_symbols(chosen.condition), *(source for source, _ in chosen.names)):
        key = _SPACED_KEY.search(source)
        if key is not None and not any(key[0] in piece.text for piece in pieces):
            return pieces[0]
    return None


def _earlier_end(pieces: Sequence[Piece], end: int, chosen: Sentence, text: str) -> Piece | None:
    """The piece behind which the sentence may have ended, so that what follows was none of its own."""
    for before in [e for e in _ends(pieces[:end]) if e < end][:MOST_ENDS]:
        last = pieces[before - 1]
        if last.sure or _GOES_ON.match(pieces[before].text.lstrip()):
            continue
        found = _whole(pieces[:before])
        if not found or all(said == _said(chosen) for said in found):
            continue
        if text.endswith(".") and not last.text.rstrip().endswith("."):
            continue
        if any(_ENDED.search(piece.text) for piece in pieces[before:end]):
            continue
        return last
    return None


def _may_go_on(chosen: Sentence, text: str, behind: str, *, wide: bool, unknown_before: bool) -> bool:
    """Whether the sentence may go on with a line that does not read as its continuation."""
    behind = behind.lstrip()
    if isinstance(chosen, TextGuard):
        if chosen.kind == "constant" or _ENDED.search(text):
            return False
        if chosen.kind == "equal" and "must always be equal" in text:
            return False
    elif isinstance(chosen, Outside):
        return False
    if text.endswith("."):
        return behind[:1].isdigit() and text[-2:-1].isdigit()
    return wide or unknown_before or _touches(text, behind)


def _touches(text: str, behind: str) -> bool:
    """Whether the last number or name may be cut, or an operator follows."""
    token = _TOKEN.search(text)
    if _MAY_GO_ON.match(behind):
        return True
    if token is None:
        return text.endswith((".", "'")) and behind[:1].isalnum()
    return behind[:1].isdigit() if token[0].isdigit() else behind[:1].isalnum() or behind[:1] == "_"


def _not_whole(pieces: Sequence[Piece], following: str | None) -> Settled:
    """What a sentence says that has not all of torch's words; of several lines none is certain."""
    text = "\n".join(piece.text.strip() for piece in pieces)
    if len(pieces) > 1 and pieces[0].glue is not None:
        text = _texts(pieces)[0]
    found = read_hint(text) or read_sentence(text)
    last = pieces[-1]
    doubtful = len(pieces) > 1 or (following is not None and (last.open or _touches(last.text.rstrip(), following)))
    if found is None or isinstance(found, str) or (isinstance(found, TextGuard) and found.condition is None):
        doubtful = doubtful and found is None and last.open
    return Settled(found, len(pieces), last if doubtful else None)
