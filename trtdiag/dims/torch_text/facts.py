"""What torch's own text says: conditions, examples, symbols, and where it may be cut."""

from __future__ import annotations

from dataclasses import dataclass, field

from trtdiag.graph.source import NO_STACK, Stack
from trtdiag.symbolic import Range
from trtdiag.symbolic.expr import Condition


@dataclass(frozen=True)
class TextGuard:
    """One condition that an error text states.

    Attributes:
        text: The condition as written.
        condition: Over the sources in the text (``Sym("L['x'].size()[2]")``); ``None`` where it could not be read.
        why: Why it could not be read.
        names: Source -> the user's Dim name, as far as the text says it.
        kind: ``guard``, ``constant``, ``specialised`` (never declared dynamic), ``equal``, ``related``,
            ``data-dependent`` (not decided), ``asserted`` (on a size from data: it has to hold).
        asked: The declared range, as far as the text says it; torch's stand-ins for infinity are open ends.
        stack: Where it comes from, as far as the text says it.
        advice: The ``torch._check`` lines that torch offers for it.
    """

    text: str
    condition: Condition | None
    why: str
    names: tuple[tuple[str, str], ...] = ()
    kind: str = "guard"
    asked: Range = field(default=Range())
    stack: Stack = NO_STACK
    advice: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outside:
    """An example size that lies outside its declared range."""

    value: int
    range: Range


@dataclass(frozen=True)
class Created:
    """What a log line ``create_symbol`` says: a symbol, its source, its example and its range."""

    symbol: str
    source: str
    example: int
    range: Range


@dataclass(frozen=True)
class Solved:
    """The one size that torch's solver left for a dim."""

    source: str
    name: str
    value: int


Sentence = TextGuard | Outside | Created | Solved


@dataclass(frozen=True)
class Cut:
    """A line that may go on otherwise than it was read: a sentence may be cut there, or a part of one lost.

    Attributes:
        line: Its number, from 1.
        text: What it says.
    """

    line: int
    text: str


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
        cuts: Lines behind which a terminal or a log may have broken a sentence, so that it may say something else.
    """

    guards: tuple[TextGuard, ...]
    unread: tuple[str, ...]
    suggestions: tuple[str, ...]
    violated: tuple[str, ...] = ()
    outside: tuple[Outside, ...] = ()
    created: tuple[Created, ...] = ()
    solved: tuple[Solved, ...] = ()
    cuts: tuple[Cut, ...] = ()

    def repeats(self, earlier: ExportErrorText) -> bool:
        """Whether all conditions were stated before: torch raises the same error again as another type."""
        said = {(guard.condition, guard.text) for guard in earlier.guards}
        return (
            all((guard.condition, guard.text) in said for guard in self.guards)
            and {*self.unread} <= {*earlier.unread}
            and {*self.solved} <= {*earlier.solved}
        )
