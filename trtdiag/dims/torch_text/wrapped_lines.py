"""Undoes what terminals, loggers and mail programs do to long lines: cut at a width, or broken between words.

A cut line is as long as the terminal is wide; behind a line that was broken between words there is no room for the
next word.  Where neither is so, or where torch's words begin, a line ends as it was written.  Joins are guesses until
the sentence is read: ``Join`` says how sure each is, and ``torch_text_joins`` reads the sentence in the other ways too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from trtdiag.dims.torch_text.lines import Physical, prefix_end
from trtdiag.dims.torch_text.phrases import MENDED, STARTS
from trtdiag.grouping import grouped

_CHUNK = 32
"""Widths are compared among so many lines, and as many before and behind them: a log has parts of several tools."""

_LEAST_WIDTH = 16  # of a wrapped line without its prefix
_PADDING = 2  # so many spaces at a cut may be lost by copying
_SURE = 2  # so many lines that are broken at one width are no accident
_MOST_PIECES = 400
_MOST_PREFIX = 100  # so many characters of a broken prefix are looked at
_NEAR = 8  # breaks with the same characters around them, as of a prefix that is broken in each line, count once

_BY_FIRST = {first: tuple(s for s in STARTS if s[:3] == first) for first in {start[:3] for start in STARTS}}
_OTHER_START = re.compile(
    r"[\w.]{1,200}(?:Error|Exception|Warning)\b(?:: |:$|\(|$)|eval \w"
    r"|(?:def|raise|assert|return) |[^\w\s]?\^{3,}"
    r"|(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) +\d|[\[(]?\d{4}-\d\d-\d\d|[EWIDVF]\d{4} \d\d:"
)
_SUGGESTION = re.compile(r"[^\W\d]\w{0,200} = (?:Dim\(|None\b|[\w+*/ ().-]{1,200}$)")
_HYPHENATED = re.compile(r"[^\W\d_]-$")


def _broken_phrases() -> tuple[re.Pattern[str], dict[str, list[tuple[str, str]]]]:
    """A pattern of what may end a line inside a phrase, and what then follows, with what stood between."""
    parts = ((phrase[:at], phrase[at:]) for phrase in MENDED for at in range(1, len(phrase.rstrip())))
    heads = grouped(
        (head.rstrip(), (rest.strip(), " " * (len(head) - len(head.rstrip()) + len(rest) - len(rest.lstrip()))))
        for head, rest in parts
    )
    ordered = sorted(heads, key=len, reverse=True)
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, ordered))})$"), heads


_BROKEN, _RESTS = _broken_phrases()
_MOST_HEAD = max(map(len, MENDED))
_LAST_WORDS = frozenset(head[head.rfind(" ") + 1 :] for head in _RESTS)


@dataclass(frozen=True)
class Join:
    """Where a line was joined to the one behind it.

    Attributes:
        at: Where the next line's text begins in the joined line.
        glue: What was put between them.
        sure: Whether widths or words leave no other reading of this join.
    """

    at: int
    glue: str
    sure: bool


@dataclass
class Pasted:
    """Lines as they were written, as far as that is known.

    Attributes:
        lines: Their text without prefixes.
        numbers: The number of the pasted line that each begins with, from 1.
        joins: Line -> where it was joined.
        open: Lines behind which the width would let the next one be a continuation, though it was not joined.
        records: Lines that begin a record of a log, for they have a prefix behind a line without one.
    """

    lines: list[str] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    joins: dict[int, list[Join]] = field(default_factory=dict)
    open: set[int] = field(default_factory=set)
    records: set[int] = field(default_factory=set)


def starts(text: str) -> bool:
    """Whether ``text`` begins something of torch's, a traceback's or a logger's, so that it continues nothing."""
    text = text.lstrip()
    words = text.removeprefix("- ")
    if any(words.startswith(start) or start.startswith(words) for start in _BY_FIRST.get(words[:3], ())):
        return True
    return _OTHER_START.match(text) is not None


@dataclass(frozen=True)
class _Widths:
    """What the widths of some lines say: the widest, how many end there, and how many were broken before it."""

    widest: int
    cuts: int
    breaks: int

    @property
    def wrapped(self) -> bool:
        """Whether lines end at a width oftener than by accident."""
        return self.cuts + self.breaks >= _SURE

    @property
    def cut(self) -> bool:
        """Whether they are cut there, so that no space is lost."""
        return self.breaks == 0

    @property
    def broken(self) -> bool:
        """Whether they are broken between words."""
        return self.breaks >= max(_SURE, self.cuts)


class _Around:
    """Widths of the lines around a line, found when they are first asked for."""

    def __init__(self, physical: Sequence[Physical]) -> None:
        self.physical = physical
        chunks = range(0, len(physical), _CHUNK)
        widest = [max(line.prefix + len(line.text) for line in physical[at : at + _CHUNK]) for at in chunks]
        self.widest = [max(widest[max(0, at - 1) : at + 2]) for at in range(len(widest))]
        self.known: dict[tuple[int, bool], _Widths] = {}

    def room(self, index: int) -> bool:
        """Whether the whole line behind fits on the line, so that nothing was wrapped there."""
        line, behind = self.physical[index], self.physical[index + 1]
        if behind.prefix and line.prefix:
            return False  # widths without prefixes have to be asked
        return line.prefix + len(line.text) + 1 + len(behind.text) <= self.widest[index // _CHUNK]

    def widths(self, index: int, *, bodies: bool) -> _Widths:
        """The widths around the line, with or without prefixes."""
        chunk = index // _CHUNK
        if (chunk, bodies) not in self.known:
            lines = self.physical[max(0, (chunk - 1) * _CHUNK) : (chunk + 2) * _CHUNK + 1]
            self.known[chunk, bodies] = _widths(lines, bodies=bodies)
        return self.known[chunk, bodies]


def unwrapped(physical: Sequence[Physical]) -> Pasted:
    """The lines with wraps undone. Cost: linear."""
    found = Pasted()
    around = _Around(physical)
    suggesting = False
    index, last = 0, len(physical) - 1
    while index <= last:
        start, text = index, physical[index].text
        if not text and not physical[index].prefix:
            found.lines.append("")
            found.numbers.append(start + 1)
            suggesting = False
            index += 1
            continue
        joins: list[Join] = []
        while index < last and len(joins) < _MOST_PIECES:
            joined = _glue(index, around, suggesting=suggesting)
            if joined is None:
                break
            glue, sure = joined
            behind = physical[index + 1].text
            behind = behind if glue == "" and sure else behind.lstrip()
            text = f"{text if glue == '' and sure else text.rstrip()}{glue}"
            joins.append(Join(len(text), glue, sure))
            text += behind
            index += 1
        if joins:
            if physical[start].prefix:
                text, joins = _bare_again(text, joins)
            found.joins[len(found.lines)] = joins
        if index < last and _may_go_on(index, around):
            found.open.add(len(found.lines))
        if start and physical[start].prefix and physical[start - 1].text and not physical[start - 1].prefix:
            found.records.add(len(found.lines))
        text = text.rstrip()
        found.lines.append(text)
        found.numbers.append(start + 1)
        suggesting = "Suggested fixes:" in text or (suggesting and _SUGGESTION.match(text.strip()) is not None)
        index += 1
    return found


def _bare_again(text: str, joins: list[Join]) -> tuple[str, list[Join]]:
    """The joined line without the rest of a prefix that was itself broken."""
    lost = prefix_end(text)
    return text[lost:], [replace(join, at=join.at - lost) for join in joins if join.at > lost]


def _length(line: Physical, bodies: bool) -> int:
    return len(line.text) + (0 if bodies else line.prefix)


def _widths(lines: Sequence[Physical], *, bodies: bool) -> _Widths:
    lengths = [_length(line, bodies) for line in lines]
    widest = max(lengths, default=0)
    cuts: set[str] = set()
    breaks: set[str] = set()
    for line, length, behind in zip(lines, lengths, lines[1:], strict=False):
        if length * 2 < widest or not line.text or not behind.text or behind.text.isspace():
            continue
        if (not bodies and behind.prefix) or starts(behind.text):
            continue
        if length == widest:
            cuts.add(line.text[-_NEAR:] + behind.text[:_NEAR])
        elif length < widest - _PADDING and length + 1 + _first(behind.text) > widest:
            breaks.add(line.text[-_NEAR:] + behind.text[:_NEAR])
    return _Widths(widest, len(cuts), len(breaks))


def _first(text: str) -> int:
    """How long the first word is."""
    return len("".join(text.split(maxsplit=1)[:1]))


def _may_go_on(index: int, around: _Around) -> bool:
    """Whether the width leaves it open that the next line goes on with this one."""
    line, behind = around.physical[index], around.physical[index + 1]
    if not line.text or not behind.text or around.room(index) or starts(behind.text):
        return False
    first = _first(behind.text)
    return any(
        _length(line, bodies) + 1 + first > around.widths(index, bodies=bodies).widest for bodies in (False, True)
    )


def _prefix_goes_on(line: Physical, behind: Physical) -> bool:
    """Whether the line is the first part of a prefix, as ``- app.export - ERROR``, that ends on the line behind it."""
    text = line.text.rstrip()
    if not text or not line.prefix or behind.prefix or len(text) > _MOST_PREFIX:
        return False
    return prefix_end(f"{text} {behind.text.lstrip()[:_MOST_PREFIX]}") > len(text)


def _glue(index: int, around: _Around, *, suggesting: bool) -> tuple[str, bool] | None:
    """What stood between a line and the next if that goes on with it, and whether it is sure."""
    line, behind = around.physical[index], around.physical[index + 1]
    if not behind.text or not (line.text or line.prefix):
        return None
    text, follows = line.text.rstrip(), behind.text.strip()
    if not follows or not (text or not behind.prefix):  # an empty line; a prefix alone may be broken off its line
        return None
    if text[text.rfind(" ") + 1 :] in _LAST_WORDS:
        broken = _BROKEN.search(text[-_MOST_HEAD:])
        for rest, glue in _RESTS[broken[0]] if broken is not None else ():
            if follows.startswith(rest) or (len(follows) >= _LEAST_WIDTH // 2 and rest.startswith(follows)):
                return glue, True
    bodies = bool(line.prefix and behind.prefix)
    if (behind.prefix and not bodies) or around.room(index):
        return None
    width = around.widths(index, bodies=bodies)
    length = _length(line, bodies)
    if not width.wrapped or width.widest < _LEAST_WIDTH or length + 1 + _first(follows) <= width.widest:
        return None
    new = starts(follows) or (suggesting and _SUGGESTION.match(follows) is not None)
    if new and not _prefix_goes_on(line, behind):
        return None
    if width.cut:
        missing = width.widest - length
        return (" " * missing, True) if missing <= _PADDING else None
    if length == width.widest:
        last = len(text) - max(text.rfind(" "), 0)
        return ("" if last + _first(follows) > width.widest else " "), False
    if _HYPHENATED.search(text) and follows[:1].isalpha():
        return "", False
    return " ", width.broken and length < width.widest - _PADDING
