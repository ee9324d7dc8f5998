"""Reads torch's own text: export errors and logs, of every version since 2.1, with whatever noise stands around.

Nothing is dropped in silence: a sentence that states a condition is either a ``TextGuard`` with its condition, or a
``TextGuard`` without one that says why, or a line of ``unread``.  ``torch_text_lines`` frees the lines from what other
tools put around them, ``torch_text_sentences`` reads one sentence, ``torch_text_stacks`` where it comes from.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, fields, replace
from itertools import takewhile
from typing import Any

from trtdiag.dims.torch_text.facts import Created, Cut, ExportErrorText, Outside, Solved, TextGuard
from trtdiag.dims.torch_text.fragments import SUGGESTION, bare_guards, bare_suggestions
from trtdiag.dims.torch_text.joined_lines import Piece, Settled, settle
from trtdiag.dims.torch_text.lines import MOST_CHARACTERS, physical_lines
from trtdiag.dims.torch_text.phrases import BEGINS, MIDDLE, TELLING
from trtdiag.dims.torch_text.sentences import MOST_STATEMENT_CHARACTERS, read_specialised
from trtdiag.dims.torch_text.stacks import MOST_LINES, advice_in, named_at, stack_around, stack_in
from trtdiag.dims.torch_text.wrapped_lines import Pasted, starts, unwrapped

MOST_GUARDS = 10_000
"""So many different conditions are read, which takes seconds; of the others the number is named as unread."""

_ATTRIBUTES = {TextGuard: "guards", Outside: "outside", Created: "created", Solved: "solved"}
_SHOWN = 400
_SHORTEST = 12  # a shorter line tells nothing
_MOST_STACKS = 200  # so many data-dependent conditions get their stack


@dataclass(frozen=True)
class _Statement:
    """A sentence of torch's with its continuation lines.

    Attributes:
        text: Of its first line.
        pieces: All that may belong to it.
        start: Number of its first line in the mended text.
        end: Number of the first line behind it.
        following: That line, ``None`` where it surely begins something else.
        unknown_before: Whether something stands before it that is neither torch's nor a known prefix.
    """

    text: str
    pieces: tuple[Piece, ...]
    start: int
    end: int
    following: str | None = None
    unknown_before: bool = False


_HEADING = "Constraints violated ("  # nothing continues it
_STATING = (*TELLING, *MIDDLE)
_CONTINUED = tuple(phrase for phrase in TELLING if phrase != _HEADING)
_HEADS = (*BEGINS, "Suggested fixes:", "Specializations unexpectedly req")
_CUT = re.compile(rf"(?=(?:- )?(?:{'|'.join(_HEADS)}))")
# What may stand before a sentence on its line.
_BEFORE = re.compile(r"[\s\d.*-]*|.*(?:Error|Exception|Warning)[\w '\"(:-]*")
# Words of which every sentence has several, so that some are left whole wherever it is cut.
_LEFT_OVER = re.compile(
    r"(?P<all>satisfy the generated guard|are valid because|in the specified range|must always be (?:equal|related))"
    r"|values of|specified range|satisfy the|generated guard|valid because|was inferred|inferred to be|always be"
    r"|as dynamic but|code specialized|specialized it|be a constant"
)
_FEW_LEFT_OVER = 2  # so many of the short ones are no accident
_VIOLATED = re.compile(r"Constraints violated \((?P<names>[^)]{1,2000})\)")
_BLOCK = re.compile(r"def (?P<kind>specializations|specify_constraints)\(")
_BLOCK_LINE = re.compile(
    r"\s*(?:#.*|[\w.\[\]']+:|```\w*|return\b.*|assert .*|[\[\]()]|.*\.size\(\)\[.*|.*dynamic_dim\(.*)?$"
)


def read_export_error(text: str) -> ExportErrorText:
    """Every condition in an error text or log.

    Any text is taken.  Limits: ``MOST_CHARACTERS`` of the text, ``MOST_GUARDS`` different conditions, each of at most
    ``MOST_GUARD_CHARACTERS``; what lies beyond is named in ``unread``.

    Cost: linear in the length of the text.
    """
    with warnings.catch_warnings():  # Python warns of doubtful literals in what it parses
        warnings.simplefilter("ignore")
        reader = _Reader(unwrapped(physical_lines(text)))
        reader.read()
    if len(text) > MOST_CHARACTERS:
        reader.told["unread"][f"... {len(text) - MOST_CHARACTERS} more characters, not looked at"] = None
    return reader.result()


class _Reader:
    """Walks the lines once and collects what they say."""

    def __init__(self, pasted: Pasted) -> None:
        self.pasted = pasted
        self.lines = pasted.lines
        # By the attribute of ``ExportErrorText``, each once.
        self.told: dict[str, dict[Any, None]] = {entry.name: {} for entry in fields(ExportErrorText)}
        self.used: set[int] = set()
        self.stated: set[tuple[str, ...]] = set()
        self.beyond = 0
        self.stacks = 0

    def result(self) -> ExportErrorText:
        if self.beyond:
            self.told["unread"][f"... {self.beyond} more statements, beyond the first {MOST_GUARDS} conditions"] = None
        told = self.told
        if not (told["guards"] or told["suggestions"] or told["unread"]):
            told["suggestions"] = dict.fromkeys(bare_suggestions(self.lines))
            if not any(told[name] for name in ("suggestions", "outside", "solved", "created")):
                for settled in bare_guards(self.lines, self.pasted.numbers):
                    self.take(settled)
        return ExportErrorText(**{name: tuple(entries) for name, entries in told.items()})

    def read(self) -> None:
        index = 0
        while index < len(self.lines):
            line = self.lines[index]
            if len(line) < _SHORTEST:
                index += 1
                continue
            block = _BLOCK.search(line[:2000])
            if block is not None:
                index = self.block(index + 1, block["kind"])
            elif "Suggested fixes:" in line and not any(phrase in line for phrase in BEGINS):
                index = self.suggested(index + 1)
            elif any(phrase in line for phrase in _STATING):
                index = self.telling(index)
            else:
                index += 1
        self.left_over()

    def telling(self, index: int) -> int:
        """Read the line, and what continues it; the number of the line after that."""
        line, following = self.lines[index], index + 1
        head = line[:4000]
        if _HEADING in head:
            for match in _VIOLATED.finditer(head):
                self.told["violated"].update(dict.fromkeys(name.strip() for name in match["names"].split(", ")))
        spans = [(0, len(line))]
        if len(line) > 20 and sum(map(line.count, _HEADS)) > 1:
            places = sorted({0, *(match.start() for match in _CUT.finditer(line))})
            spans = list(zip(places, [*places[1:], len(line)], strict=True))
        self.used.add(index)
        for start, end in spans:
            piece = line[start:end]
            if "Suggested fixes:" in piece:
                rest = piece.partition("Suggested fixes:")[2].strip()
                self.told["suggestions"].update({rest: None} if rest else {})
                return self.suggested(following)
            if len(spans) > 1 and not any(phrase in piece for phrase in _STATING):
                continue
            begin = next((piece.find(phrase) for phrase in BEGINS if phrase in piece), 0)
            statement = _Statement(
                piece[: MOST_STATEMENT_CHARACTERS + 1],
                self.pieces(index, start, end),
                index,
                following,
                unknown_before=_BEFORE.fullmatch(piece[max(0, begin - 400) : begin]) is None,
            )
            if end == len(line) and (") ... " in piece or any(phrase in piece for phrase in _CONTINUED)):
                statement = self.continued(statement)
            following = self.state(statement)
        return following

    def pieces(self, index: int, start: int, end: int) -> tuple[Piece, ...]:
        """The pasted lines that a part of a mended line came from."""
        text, number = self.lines[index], self.pasted.numbers[index]
        joins = self.pasted.joins.get(index, [])
        found = []
        begin = 0
        for offset, join in enumerate(joins):
            if begin < end and join.at > start:
                share = text[max(begin, start) : min(join.at - len(join.glue), end)]
                found.append(Piece(share, number + offset, join.glue, join.sure))
            begin = join.at
        if begin < end:
            share = text[max(begin, start) : min(end, start + MOST_STATEMENT_CHARACTERS + 1)]
            found.append(Piece(share, number + len(joins), open=index in self.pasted.open))
        return tuple(found) or (Piece("", number),)

    def continued(self, statement: _Statement) -> _Statement:
        """The statement with the lines that may go on with it: up to an empty line, or one that begins another."""
        pieces, length, end = list(statement.pieces), len(statement.text), statement.end
        while end < len(self.lines) and end < statement.start + MOST_LINES and length < MOST_STATEMENT_CHARACTERS:
            if self.begins(end) or any(phrase in self.lines[end] for phrase in TELLING):
                break
            pieces += self.pieces(end, 0, len(self.lines[end]))
            length += len(self.lines[end])
            end += 1
        following = self.lines[end] if end < len(self.lines) and not self.begins(end) else None
        return replace(statement, pieces=tuple(pieces), end=end, following=following)

    def begins(self, index: int) -> bool:
        """Whether the line is empty or begins something else, so that it continues nothing."""
        return not self.lines[index].strip() or starts(self.lines[index]) or index in self.pasted.records

    def state(self, statement: _Statement) -> int:
        """Read the statement; the number of the line behind it."""
        whole = tuple(piece.text for piece in statement.pieces)
        repeated = whole in self.stated
        if repeated and ("data-dependent" not in statement.text or self.stacks >= _MOST_STACKS):
            return statement.end
        if len(self.told["guards"]) >= MOST_GUARDS:
            self.beyond += 1
            return statement.end
        self.stated.add(whole)
        settled = settle(statement.pieces, statement.following, unknown_before=statement.unknown_before)
        behind = [line for line in statement.pieces[settled.count :] if line.line > statement.pieces[0].line]
        if behind:  # these are none of its own
            end = next(
                i
                for i in range(statement.start + 1, statement.end + 1)
                if i == statement.end or self.pasted.numbers[i] >= behind[0].line
            )
            statement = replace(statement, end=end)
        self.used.update(range(statement.start, statement.end))
        found = settled.found
        self.take(replace(settled, found=self.placed(found, statement)) if isinstance(found, TextGuard) else settled)
        return statement.end

    def take(self, settled: Settled) -> None:
        """Keep what a sentence says, and where it may be cut."""
        if settled.cut is not None:
            self.cut(settled.cut.line, settled.cut.text)
        found = settled.found
        if isinstance(found, str):
            self.told["unread"][found[:_SHOWN]] = None
        elif found is not None:
            self.told[_ATTRIBUTES[type(found)]][found] = None

    def cut(self, number: int, text: str) -> None:
        """Note a line behind which a sentence may be cut."""
        self.told["cuts"][Cut(number, text.strip()[:_SHOWN])] = None

    def left_over(self) -> None:
        """Name lines that have words of a sentence whose beginning was not found."""
        found = [
            (index, match["all"] is not None)
            for index, line in enumerate(self.lines)
            if index not in self.used and (match := _LEFT_OVER.search(line)) is not None
        ]
        if any(whole for _, whole in found) or len(found) > _FEW_LEFT_OVER:
            for index, _ in found[:MOST_LINES]:
                self.cut(self.pasted.numbers[index], self.lines[index])

    def placed(self, guard: TextGuard, statement: _Statement) -> TextGuard:
        """The guard with the stack and the advice that the text gives for it."""
        if guard.kind == "data-dependent" and self.stacks < _MOST_STACKS:
            self.stacks += 1
            end = min(len(self.lines), statement.start + MOST_LINES)
            later = range(statement.start + 1, end)
            end = next((i for i in later if "Could not guard on" in self.lines[i]), end)
            stack = stack_around(self.lines, statement.start, end)
            return replace(guard, stack=stack, advice=advice_in(self.lines[statement.start : end]))
        if guard.kind == "constant":
            after = self.lines[statement.end : statement.end + 2]
            heading = next((i for i, line in enumerate(after) if line.strip().lower() == "user stack:"), None)
            if heading is not None:
                begin = statement.end + heading + 1
                return replace(guard, stack=stack_in([*takewhile(str.strip, self.lines[begin : begin + MOST_LINES])]))
        elif "[guard added]" in statement.text:
            return replace(guard, stack=named_at(statement.text.partition("\n")[0]))
        return guard

    def suggested(self, index: int) -> int:
        """Read suggested fixes from line ``index`` on; the number of the line after them."""
        blank = False
        while index < len(self.lines) and len(self.told["suggestions"]) < MOST_GUARDS:
            line = self.lines[index]
            match = SUGGESTION.match(line[:600])
            if match is not None:
                self.told["suggestions"][match["line"].strip()] = None
            elif line.strip() or blank:
                break
            else:
                blank = True
            index += 1
        return index

    def block(self, index: int, kind: str) -> int:
        """Read the lines of torch 2.1's ``specializations`` or ``specify_constraints`` function."""
        while index < len(self.lines):
            line = self.lines[index][:4000]
            if not _BLOCK_LINE.match(line) or _BLOCK.search(line):
                if line.strip() and not starts(line):
                    self.cut(self.pasted.numbers[index], line)
                break
            stated = read_specialised(line, kind)
            if len(stated) < line.partition("#")[0].count(".size()[") and kind == "specializations":
                self.cut(self.pasted.numbers[index], line)
            for found in stated:
                if len(self.told["guards"]) < MOST_GUARDS:
                    self.told["guards"][found] = None
                else:
                    self.beyond += 1
            index += 1
        return index
