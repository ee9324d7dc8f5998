"""Reads torch's own text: export errors and logs, of every version since 2.1, with whatever noise stands around.

Nothing is dropped in silence: a sentence that states a condition is either a ``TextGuard`` with its condition, or a
``TextGuard`` without one that says why, or a line of ``unread``.  ``torch_text_lines`` frees the lines from what other
tools put around them, ``torch_text_sentences`` reads one sentence, ``torch_text_stacks`` where it comes from.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from trtdiag.dims.torch_text_lines import MOST_CHARACTERS, clean_lines
from trtdiag.dims.torch_text_sentences import (
    MOST_GUARD_CHARACTERS,
    MOST_STATEMENT_CHARACTERS,
    Created,
    Outside,
    Parser,
    Solved,
    TextGuard,
    read_sentence,
    read_specialised,
)
from trtdiag.dims.torch_text_stacks import MOST_LINES, advice_in, named_at, stack_around, stack_in

__all__ = ["MOST_GUARD_CHARACTERS", "Created", "ExportErrorText", "Outside", "Solved", "TextGuard", "read_export_error"]

MOST_GUARDS = 10_000
"""So many different conditions are read, which takes seconds; of the others the number is named as unread."""

_SHOWN = 400
_SHORTEST = 12  # a shorter line tells nothing
_MOST_STACKS = 200  # so many data-dependent conditions get their stack


@dataclass(frozen=True)
class ExportErrorText:
    """What an error text says.

    Attributes:
        guards: Its conditions, in order, each once.
        unread: Statements about conditions that were not understood.
        suggestions: The lines of torch's own suggested fixes.
        violated: The dims named in ``Constraints violated (h, w)!``.
        outside: Examples that lie outside their declared range.
        created: What a log says of the symbols: their sources, examples and ranges.
        solved: Sizes that torch's solver ended at; no conditions, but the example is among them.
    """

    guards: tuple[TextGuard, ...]
    unread: tuple[str, ...]
    suggestions: tuple[str, ...]
    violated: tuple[str, ...] = ()
    outside: tuple[Outside, ...] = ()
    created: tuple[Created, ...] = ()
    solved: tuple[Solved, ...] = ()


@dataclass(frozen=True)
class _Statement:
    """A sentence of torch's with its continuation lines; ``start`` and ``end`` are line numbers."""

    text: str
    start: int
    end: int


# Fixed words of every sentence that is read; where none stands in a line, the line is noise.
_BEGINS = ("Not all values of ", "You marked ", "The values of ")
_TELLING = (
    *_BEGINS,
    "data-dependent expression",
    "[guard added]",
    "guard was added: ",
    "Guard failed: ",
    "Runtime assertion failed for expression ",
    "evaluate_expr(",
    "EXTENDED_DEBUG_GUARD_ADDED=",
    "inferred a static shape of ",
    " not in range [",
    "set_replacement ",
    "create_symbol ",
    "Expected input",
    "Constraints violated (",
)
_CONTINUING = _TELLING[:-1]  # the last is a heading
# These stand in the middle of a sentence, which may be all that is left of it.
_MIDDLE = ("inferred to be a constant", "specialized it to be a constant", "a specialized value of ")
_CUT = re.compile(
    r"(?=(?:- )?(?:Not all values of |You marked |The values of |Suggested fixes:|Specializations unexpectedly req))"
)
# The first line after a sentence that is none of its own.
_ENDS = re.compile(
    r"\s*(?:- |File \"|Traceback |Suggested fixes:|For more |Set TORCH|The error above|User [Ss]tack|Caused by"
    r"|Specializations unexpectedly|consider using|```|The following |[\w.]*(?:Error|Exception|Warning): )"
)
_VIOLATED = re.compile(r"Constraints violated \((?P<names>[^)]{1,2000})\)")
_SUGGESTION = re.compile(
    r"^\s*-?\s*(?P<line>[A-Za-z_]\w{0,200} = (?:Dim\(.{0,300}|None\b.{0,60}|-?[\w+*/ ().-]{1,200}))$"
)
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
        reader = _Reader(clean_lines(text))
        reader.read()
    if len(text) > MOST_CHARACTERS:
        reader.unread[f"... {len(text) - MOST_CHARACTERS} more characters, not looked at"] = None
    return reader.result()


class _Reader:
    """Walks the lines once and collects what they say."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.parser = Parser()
        self.guards: dict[TextGuard, None] = {}
        self.unread: dict[str, None] = {}
        self.suggestions: dict[str, None] = {}
        self.violated: dict[str, None] = {}
        self.outside: dict[Outside, None] = {}
        self.created: dict[Created, None] = {}
        self.solved: dict[Solved, None] = {}
        self.stated: set[str] = set()
        self.beyond = 0
        self.stacks = 0

    def result(self) -> ExportErrorText:
        if self.beyond:
            self.unread[f"... {self.beyond} more statements, beyond the first {MOST_GUARDS} conditions"] = None
        suggestions = tuple(self.suggestions)
        if not (self.guards or suggestions or self.unread):
            suggestions = _bare_suggestions(self.lines)
        return ExportErrorText(
            tuple(self.guards),
            tuple(self.unread),
            suggestions,
            tuple(self.violated),
            tuple(self.outside),
            tuple(self.created),
            tuple(self.solved),
        )

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
            elif "Suggested fixes:" in line and not any(phrase in line for phrase in _BEGINS):
                index = self.suggested(index + 1)
            elif any(phrase in line for phrase in _TELLING) or any(phrase in line for phrase in _MIDDLE):
                index = self.telling(index)
            else:
                index += 1

    def telling(self, index: int) -> int:
        """Read the line, and what continues it; the number of the line after that."""
        line, following = self.lines[index], index + 1
        head = line[:4000]
        if "Constraints violated (" in head:
            for match in _VIOLATED.finditer(head):
                self.violated.update(dict.fromkeys(name.strip() for name in match["names"].split(", ")))
        pieces = [line]
        if len(line) > 20 and sum(map(line.count, (*_BEGINS, "Suggested fixes:", "Specializations unexp"))) > 1:
            pieces = _CUT.split(line)
        for number, piece in enumerate(pieces):
            if "Suggested fixes:" in piece:
                rest = piece.partition("Suggested fixes:")[2].strip()
                self.suggestions.update({rest: None} if rest else {})
                return self.suggested(following)
            if len(pieces) > 1 and not any(phrase in piece for phrase in (*_TELLING, *_MIDDLE)):
                continue
            statement = _Statement(piece[: MOST_STATEMENT_CHARACTERS + 1], index, following)
            if number == len(pieces) - 1 and any(phrase in piece for phrase in _CONTINUING):
                statement = self.continued(statement)
                following = statement.end
            self.state(statement)
        return following

    def continued(self, statement: _Statement) -> _Statement:
        """The statement with the lines that go on with it: up to an empty line, or one that begins something else."""
        parts, length, end = [statement.text], len(statement.text), statement.end
        while end < len(self.lines) and end < statement.start + MOST_LINES and length < MOST_STATEMENT_CHARACTERS:
            line = self.lines[end]
            if not line.strip() or _ENDS.match(line) or any(phrase in line for phrase in _TELLING):
                break
            parts.append(line.strip())
            length += len(line)
            end += 1
        return _Statement("\n".join(parts), statement.start, end)

    def state(self, statement: _Statement) -> None:
        repeated = statement.text in self.stated
        if repeated and ("data-dependent" not in statement.text or self.stacks >= _MOST_STACKS):
            return
        if len(self.guards) >= MOST_GUARDS:
            self.beyond += 1
            return
        self.stated.add(statement.text)
        found = read_sentence(statement.text, self.parser)
        match found:
            case TextGuard():
                self.guards[self.placed(found, statement)] = None
            case Outside():
                self.outside[found] = None
            case Created():
                self.created[found] = None
            case Solved():
                self.solved[found] = None
            case str():
                self.unread[found[:_SHOWN]] = None
            case None:
                pass

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
                return replace(guard, stack=stack_in(list(_frames(self.lines, statement.end + heading + 1))))
        elif "[guard added]" in statement.text:
            return replace(guard, stack=named_at(statement.text.partition("\n")[0]))
        return guard

    def suggested(self, index: int) -> int:
        """Read suggested fixes from line ``index`` on; the number of the line after them."""
        blank = False
        while index < len(self.lines) and len(self.suggestions) < MOST_GUARDS:
            line = self.lines[index]
            match = _SUGGESTION.match(line[:600])
            if match is not None:
                self.suggestions[match["line"].strip()] = None
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
                break
            for found in read_specialised(line, kind, self.parser):
                if len(self.guards) < MOST_GUARDS:
                    self.guards[found] = None
                else:
                    self.beyond += 1
            index += 1
        return index


def _frames(lines: Sequence[str], start: int) -> Iterator[str]:
    """Lines of a stack: up to the first empty one."""
    for line in lines[start : start + MOST_LINES]:
        if not line.strip():
            return
        yield line


def _bare_suggestions(lines: Sequence[str]) -> tuple[str, ...]:
    """A text that is nothing but pasted suggestions, without their heading."""
    present = [line for line in lines if line.strip()]
    if not 0 < len(present) <= MOST_LINES:
        return ()
    found = [_SUGGESTION.match(line[:600]) for line in present]
    return tuple(match["line"].strip() for match in found if match is not None) if all(found) else ()
