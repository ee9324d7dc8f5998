"""Answers to wrapped and prefixed texts: the same as to what torch wrote, or not called proven."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.dims.pasted import PREFIXES, WIDTHS, pasted
from trtdiag.dims.torch_text.read import read_export_error
from trtdiag.errors import DimsError
from trtdiag.fixdims.error_text.from_text import fix_text
from trtdiag.fixdims.fix import Fix

TEXTS: dict[str, str] = {
    entry["id"]: entry["message"]
    for entry in map(
        json.loads, (Path(__file__).parents[1] / "guards" / "texts.jsonl").read_text(encoding="utf-8").splitlines()
    )
}
LEAST_SAME = 0.9  # of soft wraps: where two readings are possible, the right answer is to say so
FEW = ("a004", "a013", "a024", "a046", "g042", "g061", "g105")
FEW_WIDTHS = (40, 79, 112)


class Answers:
    """What is answered to texts; those that read the same are solved once."""

    def __init__(self) -> None:
        self.known: dict[Any, tuple[bool, Any]] = {}

    def of(self, text: str) -> tuple[bool, Any]:
        """Whether it is called proven, and what it is."""
        read = read_export_error(text)
        guards = tuple((g.condition, g.names, g.asked, g.kind, str(g.stack), g.advice) for g in read.guards)
        doubts = (bool(read.unread), bool(read.cuts))
        key = (guards, doubts, read.suggestions, read.violated, read.outside, read.created, read.solved)
        if key not in self.known:
            self.known[key] = answered(text)
        return self.known[key]


def answered(text: str) -> tuple[bool, Any]:
    try:
        fix = fix_text(text)
    except DimsError:
        return False, None
    return fix.proven, (fix.proven, fix.outcome, fix.code, tuple(check.code for check in fix.checks))


def compared(
    names: Iterable[str], widths: Iterable[int]
) -> tuple[list[tuple[str, ...]], Counter[tuple[str, str, bool]]]:
    """The texts that are proven and other than unwrapped, and how many are the same, by kind and prefix."""
    answers = Answers()
    wrong: list[tuple[str, ...]] = []
    counts: Counter[tuple[str, str, bool]] = Counter()
    places = list(widths)
    for name in names:
        _, wanted = answers.of(TEXTS[name])
        for width in places:
            for wrap in ("hard", "soft"):
                for number, prefix in enumerate(PREFIXES):
                    every = (number + width) % 2 == 0
                    proven, found = answers.of(pasted(TEXTS[name], wrap, width, prefix, every=every))
                    counts[wrap, prefix, found == wanted] += 1
                    if proven and found != wanted:
                        wrong.append((name, wrap, str(width), prefix, "every" if every else "wrapped"))
    return wrong, counts


def share_same(counts: Counter[tuple[str, str, bool]], wrap: str) -> float:
    same, other = (
        sum(n for (kind, _, is_same), n in counts.items() if kind == wrap and is_same is s) for s in (True, False)
    )
    return same / (same + other)


@pytest.mark.slow  # quick: tests/dims/test_torch_text_fuzz.py reads wrapped texts
def test_a_sample_of_wrapped_texts() -> None:
    wrong, counts = compared(FEW, FEW_WIDTHS)
    assert wrong == []
    assert share_same(counts, "soft") >= LEAST_SAME


@pytest.mark.parametrize("name", ["g020", "g060", "g109"])
def test_a_prefix_cut_behind_its_level_is_none_of_the_condition(name: str) -> None:
    prefix = PREFIXES["logging"](0)
    level_end = len(prefix) - len(" - ")
    wrong, counts = compared([name], [level_end])
    assert wrong == []
    assert counts["hard", "logging", True] == 1


@pytest.mark.parametrize("name", ["g020", "g109", "g116"])
@pytest.mark.parametrize("width", [44, 80])
def test_a_log_that_ends_within_a_prefix_adds_nothing_to_the_condition(name: str, width: int) -> None:
    text = pasted(TEXTS[name], "hard", width, "logging", every=False)
    (wanted,) = {guard.condition for guard in read_export_error(TEXTS[name]).guards}
    record = text.rindex("2024-", 0, text.index("Suggested fixes:"))
    for end in range(record, record + len(PREFIXES["logging"](0)) + 1):
        read = read_export_error(text[:end])
        assert {guard.condition for guard in read.guards} == {wanted} or read.cuts, text[record:end]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_every_text_at_every_width(part: int) -> None:
    wrong, counts = compared(TEXTS, WIDTHS[part::8])
    assert wrong == []
    for prefix in PREFIXES:
        own = Counter({key: count for key, count in counts.items() if key[1] == prefix})
        assert share_same(own, "soft") >= LEAST_SAME


SIZE = "L['x'].size()[2]"
HEAD = f"  - Not all values of h = {SIZE} in the specified range satisfy the generated guard "


def bound(fix: Fix) -> int | None:
    (leaf,) = fix.plan.leaves.values()
    return fix.plan.range_of(leaf.root).max


def test_a_bound_that_may_be_cut_is_not_proven() -> None:
    fix = fix_text(f"{HEAD}2 <= {SIZE} and {SIZE} <= 21\n60\n")
    assert not fix.proven
    assert any("line 1 may be cut" in entry.why for entry in fix.unread)


def test_a_bound_cut_at_the_width_of_the_terminal_is_whole() -> None:
    line = f"{HEAD}2 <= {SIZE} and {SIZE} <= 2160"
    width = len(line) - 2
    first = (
        'torch._dynamo.exc.UserError: Constraints violated (h)! For more information, run with TORCH_LOGS="+dynamic". '
    )
    text = "\n".join((first * 2)[at : at + width] for at in range(0, 2 * len(first), width))
    fix = fix_text(f"{text}\n{line[:width]}\n{line[width:]}\n\nSuggested fixes:\n  h = Dim('h', max=2160)\n")
    assert fix.proven
    assert bound(fix) == 2160


@pytest.mark.parametrize("prefix", ["my-host :: ", "job<7> step=4 ~ "])
def test_a_prefix_of_no_known_form_hides_no_bound(prefix: str) -> None:
    line = f"{HEAD}2 <= {SIZE} and {SIZE} <= 2160"
    fix = fix_text(f"{prefix}{line[:-2]}\n{prefix}{line[-2:]}\n")
    assert not fix.proven or bound(fix) == 2160


def test_a_cut_name_makes_no_input() -> None:
    line = (
        "  - The values of dy = L['past_key'].size()[0] and dx = L['past_key_values'].size()[1] must always be equal."
    )
    for at in range(20, len(line), 5):
        fix = fix_text(f"{line[:at]}\n{line[at:]}\n")
        assert not fix.proven or set(fix.plan.leaves) == {"past_key.shape[0]", "past_key_values.shape[1]"}


def test_lines_of_a_log_behind_a_sentence_are_none_of_it() -> None:
    text = f"{HEAD}({SIZE} % 8) == 0.\nINFO step 3\nloss: 0.1\n"
    assert fix_text(text).proven


def test_the_line_that_may_be_cut_is_named() -> None:
    text = f"step 1\nstep 2\n{HEAD}{SIZE} <= 21\n60\n"
    assert [cut.line for cut in read_export_error(text).cuts] == [3]
