"""Names made visible, and numbers in words."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from tests.harness.texts import texts
from trtdiag.wording import amount, bytes_text, one_line, seconds_text, share_text, utf8, visible


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain", "plain"),
        ("größe", "größe"),
        ("a\x00b\x1b[31m", "a\\x00b\\x1b[31m"),
        ("abc\u202egpj.exe", "abc\\u202egpj.exe"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("lone\ud800", "lone\\ud800"),
        ("\U000e0001tag", "\\U000e0001tag"),
        ("two\nlines\ttab", "two\nlines\ttab"),
    ],
)
def test_unseen_characters_are_spelled_out(raw: str, shown: str) -> None:
    assert visible(raw) == shown


@given(texts())
def test_visible_text_is_utf8_and_stable(raw: str) -> None:
    shown = visible(raw)
    shown.encode("utf-8")
    assert visible(shown) == shown
    assert not any(char in shown for char in "\x00\x1b\u202e\u2066")


@given(texts(), st.integers(min_value=8, max_value=40))
def test_one_line_keeps_the_limit_and_both_ends(raw: str, limit: int) -> None:
    shown = one_line(raw, limit)
    assert len(shown) <= limit
    assert "\n" not in shown
    whole = one_line(raw, 10**6)
    if len(whole) > limit:
        assert "…" in shown
        assert whole.startswith(shown.split("…")[0]) or "…" in whole


@given(st.text(alphabet=st.characters()))
def test_utf8_can_be_encoded(raw: str) -> None:
    utf8(raw + "\ud800").encode("utf-8")


def test_numbers_in_words() -> None:
    assert [amount(n, "box", "boxes") for n in (0, 1, 1200)] == ["0 boxes", "1 box", "1,200 boxes"]
    assert bytes_text(None) == "no maximum"
    assert [bytes_text(n) for n in (0, 1023, 1024, 2**30 - 1, 2**30, 3 * 2**50, 2**62)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "1,024.0 MiB",
        "1.0 GiB",
        "3.0 PiB",
        "4,096.0 PiB",
    ]
    assert [seconds_text(s) for s in (0.0, 0.0123, 0.5, 12.34)] == ["0 ms", "12 ms", "0.50 s", "12.3 s"]
    assert share_text((254, 2026)) == "254 of 2,026 values"
    assert share_text(None) == ""
