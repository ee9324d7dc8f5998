"""What a rule is: an id, a page, and a check from typed facts to hits."""

from __future__ import annotations

import inspect
import re
import textwrap
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from trtdiag.analysis.fallbacks import PartitionFacts
from trtdiag.analysis.finding import Hit, Severity
from trtdiag.analysis.tried_builds import TriedBuilds
from trtdiag.dims.facts import DimSystem
from trtdiag.dtypes.facts import DtypeFacts
from trtdiag.errors import InternalError
from trtdiag.frontend.program import Program
from trtdiag.lower.facts import Checked
from trtdiag.shapes.facts import MemoryEstimate, ShapeFacts, SymbolTable
from trtdiag.targets.target import Target

FACTS: tuple[type, ...] = (
    Program,
    Checked,
    SymbolTable,
    ShapeFacts,
    MemoryEstimate,
    DimSystem,
    DtypeFacts,
    PartitionFacts,
    TriedBuilds,
    Target,
)

_ID = re.compile(r"[A-Z]{3}[0-9]{3}")
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)+")

Check = Callable[..., Iterator[Hit]]


@dataclass(frozen=True)
class Rule:
    """One rule.

    Attributes:
        id: Three letters of the family and a number, never reused.
        name: Kebab case, names the bad pattern.
        severity: Of its hits, unless a hit says it is milder.
        page: The text of ``trtdiag explain``.
        needs: The types of the facts it reads, in the order of the check's parameters.
        does_without: Those of them that may be missing: their parameters then get ``None``.
        check: Yields one hit per occurrence; never prints, never raises for a fault of the model.
    """

    id: str
    name: str
    severity: Severity
    page: Page
    needs: tuple[type, ...]
    check: Check
    does_without: frozenset[type] = frozenset()

    @property
    def title(self) -> str:
        """The first line of the page."""
        return self.page.title

    @property
    def text(self) -> str:
        """What ``trtdiag explain`` prints."""
        lines = [f"{self.id} {self.name} ({self.severity.value})", "", self.title]
        for heading, text in self.page.sections:
            lines += ["", heading, textwrap.indent(text, "  ")]
        return "\n".join(lines) + "\n"


def rule(rule_id: str, name: str, severity: Severity) -> Callable[[Check], Rule]:
    """Turn a generator function over facts into a Rule; its docstring is the page.

    Raises:
        InternalError: The id, the name, the page or a parameter's type is not what a rule needs; names the file.
    """

    def build(check: Check) -> Rule:
        where = inspect.getsourcefile(check) or check.__module__
        if not _ID.fullmatch(rule_id):
            raise _refuse(where, f"id {rule_id!r} is not three capitals and three digits")
        if not _NAME.fullmatch(name):
            raise _refuse(where, f"name {name!r} is not kebab-case of two or more words")
        if not inspect.isgeneratorfunction(check):
            raise _refuse(where, "its check is not a generator function")
        needs, does_without = _needs(check, where)
        return Rule(rule_id, name, severity, parse_page(check.__doc__, where), needs, check, does_without)

    return build


def _needs(check: Check, where: str) -> tuple[tuple[type, ...], frozenset[type]]:
    hints = typing.get_type_hints(check)
    needs, does_without = [], set()
    for parameter in inspect.signature(check).parameters:
        fact: typing.Any = hints.get(parameter)
        members = [member for member in typing.get_args(fact) if member is not type(None)]
        if len(members) == 1 and len(typing.get_args(fact)) == 2:  # ``Fact | None``
            fact = members[0]
            does_without.add(fact)
        if fact not in FACTS:
            raise _refuse(where, f"parameter {parameter!r} has type {fact!r}, which is not a fact")
        needs.append(fact)
    if not set(needs) - does_without:
        raise _refuse(where, "its check reads no fact")
    return tuple(needs), frozenset(does_without)


def _refuse(where: str, because: str) -> InternalError:
    return InternalError(
        f"the rule in {where} is malformed",
        because=because,
        fix="follow the checklist 'add a rule' in CONTRIBUTING.md",
        reference="malformed-rule",
    )


# A rule's page, read from the docstring of its check.


SECTIONS = ("Why", "Example", "Fix safety", "Source")
_HEADING = re.compile(r"^([A-Z][A-Za-z ]*):$")


@dataclass(frozen=True)
class Page:
    """What ``trtdiag explain`` prints: ``title`` is one sentence, ``sections`` are heading and text in fixed order."""

    title: str
    sections: tuple[tuple[str, str], ...]


def parse_page(docstring: str | None, where: str) -> Page:
    """Read a page: the title on the first line, then the four sections, each with an indented text.

    Args:
        docstring: Of the check function.
        where: The rule's file, for the error.

    Raises:
        InternalError: A section is missing, empty, unknown or out of order.
    """
    if not docstring:
        raise _malformed(where, "it has no docstring")
    title, _, rest = inspect.cleandoc(docstring).partition("\n")
    found: list[tuple[str, list[str]]] = []
    for line in rest.splitlines():
        heading = _HEADING.match(line)
        if heading:
            found.append((heading[1], []))
        elif found:
            found[-1][1].append(line)
        elif line.strip():
            raise _malformed(where, f"text before the first section: {line.strip()!r}")
    headings = tuple(name for name, _ in found)
    if headings != SECTIONS:
        raise _malformed(where, f"its sections are {', '.join(headings) or 'absent'}; wanted {', '.join(SECTIONS)}")
    sections = tuple((name, textwrap.dedent("\n".join(lines)).strip()) for name, lines in found)
    empty = [name for name, text in sections if not text]
    if empty:
        raise _malformed(where, f"section {empty[0]} is empty")
    return Page(title, sections)


def _malformed(where: str, because: str) -> InternalError:
    return InternalError(
        f"the page of the rule in {where} is malformed",
        because=because,
        fix=f"write the docstring of the check with the sections {', '.join(SECTIONS)}",
        reference="malformed-rule-page",
    )
