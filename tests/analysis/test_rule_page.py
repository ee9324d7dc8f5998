"""A rule's docstring is its page; whatever is wrong with it stops the import and names the file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from trtdiag.analysis.finding import Evidence, Hit, Severity
from trtdiag.analysis.rule import SECTIONS, parse_page, rule
from trtdiag.errors import InternalError
from trtdiag.frontend.program import Program

GOOD = """One sentence.

    Why:
        Because of this.

        And a second paragraph.

    Example:
        x = 1
            indented

    Fix safety:
        Safe.

    Source:
        Here.
    """


def check_with(docstring: str | None) -> Callable[[Program], Iterator[Hit]]:
    def check(program: Program) -> Iterator[Hit]:
        yield Hit(program.label, (Evidence("fact", "source"),))

    check.__doc__ = docstring
    return check


def test_page_keeps_title_sections_and_relative_indents() -> None:
    page = parse_page(GOOD, "file.py")
    assert page.title == "One sentence."
    assert tuple(name for name, _ in page.sections) == SECTIONS
    texts = dict(page.sections)
    assert texts["Why"] == "Because of this.\n\nAnd a second paragraph."
    assert texts["Example"] == "x = 1\n    indented"


@pytest.mark.parametrize("section", SECTIONS)
def test_a_missing_section_names_the_file(section: str) -> None:
    heading = GOOD.index(f"    {section}:\n")
    rest = GOOD[heading + 1 :]
    following = min((rest.index(f"    {s}:\n") for s in SECTIONS if f"    {s}:\n" in rest), default=len(rest))
    without = GOOD[:heading] + rest[following:]
    with pytest.raises(InternalError) as caught:
        rule("ZZZ101", "some-name", Severity.INFO)(check_with(without))
    assert "test_rule_page.py" in caught.value.message
    assert section not in caught.value.because.partition(";")[0]


@pytest.mark.parametrize(
    ("docstring", "because"),
    [
        (None, "no docstring"),
        ("Only a title.", "absent"),
        (GOOD.replace("Safe.", ""), "Fix safety is empty"),
        (GOOD.replace("Why:", "Reason:"), "Reason"),
        (GOOD.replace("    Why:", "    stray text\n\n    Why:"), "stray text"),
        (GOOD.replace("Source:", "Why:"), "Why, Example, Fix safety, Why"),
    ],
)
def test_malformed_pages(docstring: str | None, because: str) -> None:
    with pytest.raises(InternalError) as caught:
        parse_page(docstring, "rules/zzz.py")
    assert because in caught.value.because
    assert "rules/zzz.py" in caught.value.message


def returns_a_list(program: Program) -> list[Hit]:
    return []


def takes_text(program: str) -> Iterator[Hit]:
    yield Hit(program, (Evidence("fact", "source"),))


def takes_nothing() -> Iterator[Hit]:
    yield Hit("", ())


@pytest.mark.parametrize(
    ("rule_id", "name", "check", "because"),
    [
        ("GRD1", "two-words", check_with(GOOD), "three capitals and three digits"),
        ("grd101", "two-words", check_with(GOOD), "three capitals and three digits"),
        ("GRD101", "NotKebab", check_with(GOOD), "kebab-case"),
        ("GRD101", "oneword", check_with(GOOD), "kebab-case"),
        ("GRD101", "two-words", returns_a_list, "generator"),
        ("GRD101", "two-words", takes_text, "not a fact"),
        ("GRD101", "two-words", takes_nothing, "reads no fact"),
    ],
)
def test_malformed_rules(rule_id: str, name: str, check: Any, because: str) -> None:
    if check.__doc__ is None:
        check.__doc__ = GOOD
    with pytest.raises(InternalError) as caught:
        rule(rule_id, name, Severity.INFO)(check)
    assert because in caught.value.because


def test_the_facts_are_read_from_the_annotations() -> None:
    made = rule("ZZZ101", "some-name", Severity.INFO)(check_with(GOOD))
    assert made.needs == (Program,)
    assert made.title == "One sentence."
