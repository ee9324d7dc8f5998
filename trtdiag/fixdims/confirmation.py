"""How far a found declaration was tried: exported, run on shapes, run on tensors."""

from __future__ import annotations

from collections.abc import Sequence

from trtdiag.fixdims.export_result import Run
from trtdiag.fixdims.fix import REFUSES, Confirmation
from trtdiag.fixdims.loop import Found
from trtdiag.frontend.real_run import RunOutcome

MOST_REFUSAL_CHARACTERS = 300


def confirmation(found: Found, refused: Sequence[str], *, assumed: bool) -> Confirmation:
    """What the last try says of itself.

    Args:
        found: The search.
        refused: As ``refusals`` gives them.
        assumed: Whether the export passed with checks that the model does not have yet.
    """
    runs = () if found.last is None or not found.confirmed else found.last.on_data.runs
    return Confirmation(
        found.confirmed and not refused,
        found.rounds,
        _on_shapes(found),
        _open(found, refused, assumed=assumed),
        _distinct([run for run in runs if run.outcome is RunOutcome.PASSED]),
        _not_on_data(found, runs),
    )


def refusals(found: Found) -> list[str]:
    """Sizes that the program admits and fails at, with torch's words."""
    refused = () if found.last is None else found.last.refused
    return [f"{_sizes(sizes)}: {words[:MOST_REFUSAL_CHARACTERS]}" for sizes, words in refused]


def _on_shapes(found: Found) -> tuple[str, ...]:
    if found.last is None or not found.confirmed:
        return ()
    return tuple(_sizes(corner.sizes) for corner in found.last.corners if not corner.refusal and corner.sizes)


def _not_on_data(found: Found, runs: Sequence[Run]) -> tuple[str, ...]:
    if found.last is None or not found.confirmed:
        return ()
    if found.last.on_data.unrun:
        return (found.last.on_data.unrun,)
    words = {
        RunOutcome.UNRUN: "at {sizes}: {words}",
        RunOutcome.UNDECIDED: "not decided at {sizes}, where it fails for what the inputs hold: {words}",
    }
    return tuple(
        words[run.outcome].format(sizes=_sizes(run.sizes), words=run.words[:MOST_REFUSAL_CHARACTERS])
        for run in runs
        if run.outcome in words
    )


def _open(found: Found, refused: Sequence[str], *, assumed: bool) -> str:
    if assumed:
        return "exported with the checks assumed, not yet written into the model"
    if refused:
        return f"{REFUSES}: {refused[0]}"
    if found.last is not None and found.last.unrun:
        return f"not run at its smallest and largest sizes: {found.last.unrun}"
    return ""


def _distinct(runs: Sequence[Run]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_sizes(run.sizes) for run in runs if run.sizes))


def _sizes(sizes: Sequence[tuple[str, int]]) -> str:
    return ", ".join(f"{site} = {size}" for site, size in sizes)
