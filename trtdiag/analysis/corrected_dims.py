"""What to declare instead, as a fix with its proof."""

from __future__ import annotations

from trtdiag.analysis.finding import Applicability, Evidence, Fix
from trtdiag.analysis.guard_groups import proof_text
from trtdiag.dims.facts import DimSuggestion, DimSystem

_JOINT = "declare one of these dims from the other, make one of them static, or change the line"


def corrected_dims(dims: DimSystem, symbols: tuple[str, ...]) -> Fix | None:
    """The fix that declares the suggested Dims of these symbols; ``None`` where there is no suggestion.

    It is SAFE only where every requested value is kept: anything narrower takes inputs away.  A relation of several
    dims gets the suggested Dims only where they are shown to satisfy it.
    """
    suggestions = _suggestions(dims, symbols)
    if len(symbols) > 1 and not all(s.proof.proven for s in suggestions):
        return Fix(_JOINT, Applicability.MANUAL)
    if not suggestions:
        return None
    covered = {symbol for suggestion in suggestions for symbol in suggestion.symbols}
    lines = [line for suggestion in suggestions for line in suggestion.code]
    lines += [f"# {row.site}: {row.suggested}" for row in dims.rows if row.symbol in covered and row.suggested]
    complete = all(s.kept is not None and s.kept[0] == s.kept[1] and s.proof.proven for s in suggestions)
    return Fix(
        f"declare {', '.join(s.spelled for s in suggestions)} ({'; '.join(s.summary for s in suggestions)})",
        Applicability.SAFE if complete else Applicability.UNSAFE,
        "\n".join(dict.fromkeys(lines)),
    )


def correction_evidence(dims: DimSystem, symbols: tuple[str, ...]) -> tuple[Evidence, ...]:
    """That the suggested Dims satisfy the guards, with the proof, and what else could be said."""
    facts = []
    for suggestion in _suggestions(dims, symbols):
        claim = "satisfies every guard" if suggestion.proof.proven else "satisfies the guards on it alone"
        facts.append(Evidence(f"{suggestion.spelled} {claim}", proof_text(suggestion.proof)))
        facts += [Evidence(f"instead: {words}", "another Dim") for words in suggestion.alternatives if _other(words)]
    return tuple(facts)


def _suggestions(dims: DimSystem, symbols: tuple[str, ...]) -> list[DimSuggestion]:
    return [suggestion for suggestion in dims.suggestions if set(suggestion.symbols) & set(symbols)]


def _other(words: str) -> bool:
    return not words.startswith("allowed by the guards")
