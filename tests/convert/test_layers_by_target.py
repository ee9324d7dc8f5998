"""docs/layers-by-target.md says what converters and targets say."""

from __future__ import annotations

import pytest

from tests.convert.layers_of_ops import PAGE, cells, page, row

# An op for each layer of 10 and 11 that a single call can become, and one that is the same on all targets.
QUICK = (
    "aten.cumsum.default",
    "aten.gelu.default",
    "aten.group_norm.default",
    "aten.scaled_dot_product_attention.default",
)


def test_rows_are_what_converters_write() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    for name in QUICK:
        found = row(name)
        assert found is not None
        assert f"| {name} | {cells(found)} |" in lines, "python -m tests.convert.layers_of_ops writes the page"


def test_no_row_is_missing() -> None:
    """What 10 and 11 have and 8.6 lacks is used by some op, or the page says where."""
    text = PAGE.read_text(encoding="utf-8")
    for kind in ("Attention", "Cumulative"):
        assert f"| {kind}" in text or f", {kind}" in text


@pytest.mark.slow
def test_the_whole_page_is_what_is_written() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()
