"""Any text is read: arbitrary, damaged, huge; limits are kept and named."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from tests.harness.rows import thinned
from tests.harness.texts import texts
from tests.random_cases import cases
from trtdiag.dims.torch_text.conditions import MOST_GUARD_CHARACTERS
from trtdiag.dims.torch_text.read import MOST_GUARDS, read_export_error
from trtdiag.errors import DimsError
from trtdiag.fixdims.error_text.from_text import fix_text
from trtdiag.fixdims.fix import Fix
from trtdiag.symbolic import ProofKind

MESSAGES: list[str] = [
    json.loads(line)["message"]
    for line in (Path(__file__).parents[1] / "guards" / "texts.jsonl").read_text(encoding="utf-8").splitlines()
]
LIMIT_S = 2.0
SIZE = "L['x'].size()[2]"
GUARD = f"  - Not all values of h = {SIZE} in the specified range 16 <= h <= 2160 satisfy the generated guard "

# Pieces of torch's sentences, so that arbitrary texts get far into the reader.
PIECES = st.sampled_from(
    [
        "Not all values of ",
        "h = L['x'].size()[2]",
        " in the specified range ",
        "2 <= h <= 9",
        " satisfy the generated guard ",
        "are valid because h was inferred to be a constant (",
        "You marked h as dynamic but your code specialized it to be a constant (7)",
        "The values of ",
        " must always be equal.",
        " must always be related to the values of ",
        " by dy = 12 - dx.",
        "Could not guard on data-dependent expression ",
        "Eq(u0, 1)",
        "Caused by: (a/b.py:7 in forward)",
        'User Stack:\n  File "a.py", line 99999999999, in f\n    if n == 1:\n',
        "create_symbol s0 = 4 for L['x'].size()[0] [2, int_oo]",
        "eval Ne(s0, 20) [guard added]",
        "Suggested fixes:\n",
        "  h = 8*_h - 1\n",
        "  _h = Dim('_h', min=1, max=2)\n",
        "h = None  # 0",
        "64 not in range [135, 2160]",
        "def specializations(x):\n",
        "assert x.size()[0] == 1\n",
        "a specialized value of 1",
        "Constraints violated (h)! ",
        "\x1b[31m",
        "&lt;&#39;",
        "\u2264\u201c",
        "(" * 50,
        "9" * 50,
        "h // 0 == 1",
        "h % -3 == 1",
        "1 / h > 2**70",
        "\n",
        "\r",
        "> ",
        "| ",
    ]
)


def answer(text: str) -> Fix | None:
    """The fix, or ``None`` where the text states no condition; anything else that is raised is a bug."""
    with suppress(DimsError):
        return fix_text(text, limit_s=LIMIT_S)
    return None


@given(texts())
@settings(max_examples=cases(200), deadline=None)
@pytest.mark.slow  # quick: pieces of messages in any order
def test_arbitrary_text_is_read(text: str) -> None:
    answer(text)


@given(st.lists(PIECES | texts(max_size=5), max_size=14).map("".join))
@settings(max_examples=cases(150), deadline=None)
def test_pieces_of_messages_in_any_order_are_read(text: str) -> None:
    answer(text)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A real message, cut, with characters dropped or lines shuffled."""
    text = draw(st.sampled_from(MESSAGES))
    start, end = sorted((draw(st.integers(0, len(text))), draw(st.integers(0, len(text)))))
    kind = draw(st.sampled_from(["cut", "hole", "shuffled", "dropped", "twice"]))
    if kind == "cut":
        return text[start:end]
    if kind == "hole":
        return text[:start] + text[end:]
    if kind == "shuffled":
        return "\n".join(draw(st.permutations(text.splitlines())))
    if kind == "twice":
        return text[start:] + text[:end]
    places = set(draw(st.lists(st.integers(0, max(0, len(text) - 1)), max_size=20)))
    return "".join(char for index, char in enumerate(text) if index not in places)


@pytest.mark.slow  # quick: pieces of messages in any order are read
@given(damaged())
@settings(max_examples=cases(150), deadline=None)
def test_damaged_messages_are_read(text: str) -> None:
    fix = answer(text)
    assert fix is None or not (fix.unread and fix.proof.proven)


def long(piece: str, length: int = cases(1_000_000)) -> str:
    return piece * (length // len(piece))


# Each is quadratic for a reader that is not careful: at a million characters that would take hours.
HARD = {
    "sources": long("L['x'"),
    "brackets": GUARD + long("("),
    "closing brackets": GUARD + long(")"),
    "beginnings": long("- Not all values of "),
    "marked": long("You marked "),
    "values": long("The values of L['x'] = "),
    "unclosed": long("- Not all values of h = L['x satisfy the generated guard L['x\n"),
    "escapes": long("\x1b]"),
    "colours": long("[1;"),
    "entities": long("&amp;"),
    "spaces": GUARD + long(" ") + "x",
    "blanks": long(" "),
    "quote marks": long("> "),
    "caused by": "Could not guard on data-dependent expression Eq(u0, 1)\nCaused by: " + long("a/"),
    "checks": "data-dependent expression Eq(u0, 1)\ninsert one of the following checks\n  1. torch._check(" + long("("),
    "suggestion": "Suggested fixes:\n  h = " + long("8*"),
    "named": GUARD[:24] + long("h = ") + GUARD,
    "range": "- Not all values of h in the specified range " + long("1 <= ") + "h satisfy the generated guard h == 1",
    "short lines": long("\n"),
    "escaped lines": GUARD + long("\\n"),
    "specialisations": "def specializations(x):\n" + long("assert x.size()[0] == 1 and "),
}


# Quick: the ends and each third; random pieces of messages are read, too.
@thinned("name", HARD, every=3)
def test_hard_texts_are_read(name: str) -> None:
    fix = answer(HARD[name])
    assert fix is None or fix.changes or fix.unread or fix.checks


def test_a_guard_of_many_characters_is_named_unread() -> None:
    fix = fix_text(f"{GUARD}{' + '.join([SIZE] * 2000)} == 0")
    assert not fix.proven
    assert str(MOST_GUARD_CHARACTERS) in fix.unread[0].why


def test_a_guard_just_below_the_limit_is_read() -> None:
    terms = " + ".join(f"({SIZE} + {index}) // {index + 2}" for index in range(500))
    assert MOST_GUARD_CHARACTERS * 0.7 < len(terms) < MOST_GUARD_CHARACTERS
    read = read_export_error(f"{GUARD}({terms}) >= 0")
    assert read.guards[0].condition is not None


def test_deep_nesting_is_named_unread() -> None:
    fix = fix_text(f"{GUARD}{'(' * 5000}{SIZE}{')' * 5000} == 1")
    assert fix.unread
    fix = fix_text(f"{GUARD}{'-' * 15000}{SIZE} == 1")
    assert fix.unread


def test_more_guards_than_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_GUARDS == 10_000
    monkeypatch.setattr("trtdiag.dims.torch_text.read.MOST_GUARDS", 300)  # the real one takes seconds
    text = "".join(f"{GUARD}({SIZE} + {index}) != 7.\n" for index in range(350))
    read = read_export_error(text)
    assert len(read.guards) == 300
    assert read.unread == ("... 50 more statements, beyond the first 300 conditions",)


@pytest.mark.slow  # quick: more guards than the limit are counted, and hard texts are read
def test_many_guards_are_answered_in_part() -> None:
    text = "".join(f"{GUARD}({SIZE} * {index + 2}) // {index + 3} != 7.\n" for index in range(1000))
    fix = fix_text(text)
    assert not fix.proven
    assert any("more conditions" in entry.text for entry in fix.unread)


@pytest.mark.parametrize(
    ("guard", "range_"),
    [
        (f"({SIZE} % {2**62}) == 0", "16 <= h <= 2160"),
        (f"({SIZE} % {2**62}) == 0", ""),
        (f"({SIZE} % 8) == 0", f"2 <= h <= {2**63 - 5}"),
        pytest.param(f"(({SIZE} * {SIZE}) % {2**61 - 1}) != 0", f"3 <= h <= {2**63}", marks=pytest.mark.slow),
        (f"{SIZE} <= {2**200}", ""),
        pytest.param(f"({SIZE} // {10**30}) == 0", f"h <= {10**39}", marks=pytest.mark.slow),
        (f"({SIZE} ** 60) % 7 == 1", "h <= 100"),
    ],
)
def test_huge_numbers_do_not_exhaust_memory(guard: str, range_: str) -> None:
    text = f"- Not all values of h = {SIZE} in the specified range {range_} satisfy the generated guard {guard}."
    fix = fix_text(text, limit_s=LIMIT_S)
    assert fix.changes or fix.conflicts or fix.proof.kind is ProofKind.NONE or fix.outcome
    for change in fix.changes:
        assert change.after
