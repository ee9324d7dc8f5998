"""How far a found declaration was tried: exported, run on shapes, run on tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trtdiag.fixdims.export_result import Run
from trtdiag.fixdims.fix import Confirmation, Refuted
from trtdiag.fixdims.search_result import SearchResult
from trtdiag.frontend.real_run import BESIDE_MODEL, RunOutcome
from trtdiag.symbolic.text import in_words

MOST_REFUSAL_CHARACTERS = 300


def confirmation(found: SearchResult, refused: Sequence[str], unlike: str, *, assumed: bool) -> Confirmation:
    """What the last try says of itself.

    Args:
        found: The search.
        refused: As ``refusals`` gives them.
        unlike: As ``unlike_model`` gives it.
        assumed: Whether the export passed with checks that the model does not have yet.
    """
    last = found.last if found.confirmed else None
    runs = () if last is None else last.on_data.runs
    names = {} if last is None else last.names
    corners = () if last is None else last.corners
    refuted = None
    if not assumed and (unlike or refused):
        refuted = Refuted.MODEL if unlike else Refuted.SIZES
    return Confirmation(
        found.confirmed and not refused and not unlike,
        found.rounds,
        tuple(_sizes(corner.sizes) for corner in corners if not corner.refusal and corner.sizes),
        _open(found, refuted, unlike or next(iter(refused), ""), assumed=assumed),
        tuple(dict.fromkeys(_sizes(run.sizes) for run in runs if run.outcome is RunOutcome.PASSED and run.sizes)),
        (last.on_data.unrun,) if last is not None and last.on_data.unrun else _not_on_data(runs, names),
        refuted,
    )


def refusals(found: SearchResult) -> list[str]:
    """Sizes that the program admits and fails at, with torch's words."""
    return [f"{sizes}: {words}" for sizes, words in _refused(found) if not words.startswith(BESIDE_MODEL)]


def unlike_model(found: SearchResult) -> str:
    """Where the program was seen to do something else than its model, and what; empty where it was not."""
    if found.last is not None and found.last.on_data.unlike:
        return f"with the example inputs {found.last.on_data.unlike}"
    differs = (f"at {sizes} {words}" for sizes, words in _refused(found) if words.startswith(BESIDE_MODEL))
    return next(differs, "")


def _refused(found: SearchResult) -> list[tuple[str, str]]:
    last = found.last
    if last is None:
        return []
    return [(_sizes(sizes), in_words(words, last.names)[:MOST_REFUSAL_CHARACTERS]) for sizes, words in last.refused]


def _not_on_data(runs: Sequence[Run], names: Mapping[str, str]) -> tuple[str, ...]:
    words = {
        RunOutcome.UNRUN: "at {sizes}: {words}",
        RunOutcome.UNDECIDED: "not decided at {sizes}, where it fails for what the inputs hold: {words}",
    }
    told = (
        words[run.outcome].format(sizes=_sizes(run.sizes), words=in_words(run.words, names)[:MOST_REFUSAL_CHARACTERS])
        for run in runs
        if run.outcome in words
    )
    return tuple(dict.fromkeys(told))  # the largest sizes are run once more, smaller ones beside them


def _open(found: SearchResult, refuted: Refuted | None, where: str, *, assumed: bool) -> str:
    if assumed:
        return "exported with the checks assumed, not yet written into the model"
    if refuted is not None:
        return f"{refuted.value}: {where}"
    if found.last is not None and found.last.unrun:
        return f"not run at its smallest and largest sizes: {found.last.unrun}"
    return ""


def _sizes(sizes: Sequence[tuple[str, int]]) -> str:
    return ", ".join(f"{site} = {size}" for site, size in sizes)
