"""Dims of a decoder that change alike are told once, with what differs."""

from __future__ import annotations

from dataclasses import replace

from sample_fixes import change, fix, line

from trtdiag.fixdims.fix import Change, Reason
from trtdiag.report.fix_notebook import fix_snippet
from trtdiag.report.fix_text import fix_text
from trtdiag.report.similar_changes import change_groups

CAT = line("decoder.py", 15, "k = torch.cat([past, k], 2)")
LAYERS = 9


def batch_of(layer: int, after: str = "batch: 1..8", kept: tuple[int, int] = (8, 8)) -> Change:
    name = f"b{layer}"
    why = (Reason(f"batch == {name}", CAT),)
    site = f"cache[{layer}].shape[0]"
    return change(
        site, name=name, before=f"{name}: 1..8", after=after, kind="shared", why=why, kept=kept, lost="", allowed=""
    )


def past_of(layer: int) -> Change:
    name = f"p{layer}"
    return change(
        f"cache[{layer}].shape[2]", name=name, before=f"{name} <= 128", after=f"{name}: 1..128", kind="range",
        why=(Reason(f"{name} >= 1", CAT),), kept=(128, 128), lost="",
    )  # fmt: skip


def test_changes_alike_are_one() -> None:
    made = [each for layer in range(LAYERS) for each in (batch_of(layer), past_of(layer))]
    batches, pasts = change_groups(made)
    assert batches.heads == ["b0, b1, b2, b3, b4, b5, b6 and 2 more: 1..8  ->  batch: 1..8"]
    assert pasts.heads == [f"p{layer} <= 128  ->  p{layer}: 1..128" for layer in range(LAYERS)]
    text = fix_text(replace(fix(), changes=tuple(made)), width=100)
    assert text.count("because") == text.count("keeps") == text.count("proof") == 2
    assert "keeps     all 8 values of each" in text
    assert f"and {LAYERS - 1} like it (--json has all)" in text
    at = " ".join(text.split())
    assert "at cache[0].shape[0], cache[1].shape[0], cache[2].shape[0], cache[3].shape[0] and 5 more" in at
    html = fix_snippet(replace(fix(), changes=tuple(made)))
    assert html.count("and 8 like it") == 2


def test_what_differs_by_more_than_names_stays_apart() -> None:
    other_range = batch_of(1, after="batch: 1..4", kept=(4, 8))
    elsewhere = replace(batch_of(2), why=(Reason("batch == b2", line("decoder.py", 99, "other")),))
    as_asked = replace(batch_of(3), after="b3: 1..8")
    groups = change_groups([batch_of(0), other_range, elsewhere, as_asked, replace(as_asked, name="b4")])
    assert [len(group.changes) for group in groups] == [1] * 5
