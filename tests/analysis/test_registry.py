"""Which rules there are, and which words name them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from trtdiag.analysis import rules as rules_package
from trtdiag.analysis.finding import Evidence, Hit, Severity
from trtdiag.analysis.registry import left_out, matching, ordered, page, rules
from trtdiag.analysis.rule import Rule, rule
from trtdiag.errors import InternalError, UserError
from trtdiag.frontend.program import Program
from trtdiag.pipeline.analyze import analyze


@rule("ZZZ101", "an-example", Severity.INFO)
def example(program: Program) -> Iterator[Hit]:
    """Title.

    Why:
        a

    Example:
        b

    Fix safety:
        c

    Source:
        d
    """
    yield Hit(program.label, (Evidence("fact", "source"),))


def other(rule_id: str, name: str) -> Rule:
    return replace(example, id=rule_id, name=name)


def test_every_file_below_rules_gives_exactly_one_rule() -> None:
    folder = Path(rules_package.__path__[0])
    files = sorted(p.relative_to(folder) for p in folder.rglob("*.py") if p.name != "__init__.py")
    sources = sorted(Path(r.check.__code__.co_filename).relative_to(folder) for r in rules())
    assert sources == files


def test_a_rule_lies_in_its_family_and_is_named_after_its_file() -> None:
    for entry in rules():
        path = Path(entry.check.__code__.co_filename)
        assert path.parent.name == entry.id[:3].lower()
        assert entry.check.__name__ == entry.name.replace("-", "_")


def test_rules_are_ordered_and_computed_once() -> None:
    ids = [entry.id for entry in rules()]
    assert ids == sorted(ids)
    assert rules() is rules()


def test_no_two_rules_share_an_id_or_a_name() -> None:
    with pytest.raises(InternalError, match="ZZZ101 is taken"):
        ordered([example, other("ZZZ101", "another-name")], {})
    with pytest.raises(InternalError, match="an-example is taken"):
        ordered([example, other("ZZZ102", "an-example")], {})


def test_a_retired_id_stays_retired() -> None:
    with pytest.raises(InternalError, match="retired: merged into ZZZ102"):
        ordered([example], {"ZZZ101": "merged into ZZZ102"})


@pytest.mark.parametrize(
    ("selector", "ids"),
    [
        ("ZZZ101", {"ZZZ101"}),
        ("zzz101", {"ZZZ101"}),
        (" ZZZ1 ", {"ZZZ101", "ZZZ102"}),
        ("ZZZ", {"ZZZ101", "ZZZ102", "ZZZ201"}),
        ("an-example", {"ZZZ101"}),
    ],
)
def test_selectors(selector: str, ids: set[str]) -> None:
    among = (example, other("ZZZ102", "second-one"), other("ZZZ201", "third-one"))
    assert matching(selector, among) == ids


@pytest.mark.parametrize("selector", ["", "  ", "GRD999", "example", "an", "ZZZ1011"])
def test_a_selector_that_names_nothing_is_the_users_error(selector: str) -> None:
    with pytest.raises(UserError) as caught:
        matching(selector, (example,))
    assert caught.value.reference == "unknown-rule"
    assert repr(selector) in caught.value.message


def test_the_longer_selector_counts_and_ignore_where_they_are_alike() -> None:
    among = (example, other("ZZZ102", "second-one"), other("YYY201", "third-one"))

    def left(select: str, ignore: str) -> set[str]:
        return {r.id for r in among} - set(left_out(among, select.split(), ignore.split()))

    assert left("ZZZ101", "ZZZ") == {"ZZZ101"}
    assert left("an-example", "ZZZ10") == {"ZZZ101"}
    assert left("ZZZ", "ZZZ101") == {"ZZZ102"}
    assert left("ZZZ", "ZZZ") == left("ZZZ101", "an-example") == set()
    assert left("", "ZZZ") == {"YYY201"}


def test_what_leaves_no_rule_is_refused_before_the_work() -> None:
    every = list(dict.fromkeys(r.id[:3] for r in rules()))
    for select, ignore, why in (["grd"], ["GRD"], "select has grd, and ignore has GRD"), ([], every, "ignore has ART"):
        with pytest.raises(UserError, match="no rule is left") as caught:
            analyze("no-such-file.pt2", select=select, ignore=ignore)
        assert caught.value.because.startswith(why)
    with pytest.raises(UserError, match="'GRD999' names no rule"):
        analyze("no-such-file.pt2", select=["GRD999"])


def test_near_matches_are_offered() -> None:
    with pytest.raises(UserError, match="did you mean guard-breaks-range"):
        page("gaurd-break-range")
    with pytest.raises(UserError, match="GRD301"):
        page("GDR301")


def test_a_page_is_found_by_id_and_by_name() -> None:
    assert page("grd301") == page("guard-breaks-range")
    text = page("GRD301")
    assert text.startswith("GRD301 guard-breaks-range (error)\n\nA guard does not hold")
    assert "\nFix safety\n  Unsafe when it narrows" in text


def test_the_beginning_of_an_id_is_no_page() -> None:
    with pytest.raises(UserError) as caught:
        page("GRD")
    assert caught.value.because == "it is the id or the name of one rule that is asked for"


def test_the_catalogue_holds_every_rule_with_its_page() -> None:
    for entry in rules():
        assert entry.text == page(entry.id)
        assert entry.title.endswith(".")
        assert len(entry.title) <= 110
