"""Export errors of torch 2.1 to 2.13, verbatim: every condition is read or named, and means what the text says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from tests.guards.text_exceptions import OTHER_THAN_TRUTH, UNPARSED
from tests.harness.rows import each
from tests.random_cases import some
from trtdiag.dims.torch_text.facts import TextGuard
from trtdiag.dims.torch_text.read import read_export_error
from trtdiag.symbolic.evaluate_array import holds_array
from trtdiag.symbolic.tree import free_symbols

HERE = Path(__file__).parent
TEXTS: dict[str, dict[str, Any]] = {
    entry["id"]: entry for entry in map(json.loads, (HERE / "texts.jsonl").read_text().splitlines())
}
MEASURED: dict[str, dict[str, Any]] = json.loads((HERE / "measured.json").read_text())
MESSAGES = {name: entry["message"] for name, entry in TEXTS.items()} | {
    f"live-{name}": entry["message"] for name, entry in MEASURED.items() if entry.get("message")
}

# Every way in which torch states a condition, told apart by its fixed words alone.
STATES_A_CONDITION = re.compile(
    "satisfy the generated guard|are valid because|must always be equal|must always be related"
    r"|You marked \S+ as dynamic|data-dependent expression|\[guard added\]|this guard was added"
    "|Runtime assertion failed for expression|Guard failed:"
)


def stated(text: str) -> set[str]:
    """The distinct statements of a text, each from its fixed words to the end of its line."""
    head = text.partition("Suggested fixes:")[0]
    return {line.strip() for line in head.splitlines() if STATES_A_CONDITION.search(line)}


@each("name", MESSAGES)
def test_no_condition_is_dropped(name: str) -> None:
    read = read_export_error(MESSAGES[name])
    # Two statements may say the same condition, so the reader may give fewer only where texts repeat.
    assert len(read.guards) + len(read.unread) >= len(stated(MESSAGES[name]))
    for guard in read.guards:
        assert guard.text.strip()
        assert (guard.condition is None) == bool(guard.why)


def test_what_is_not_parsed_is_known() -> None:
    unparsed = {
        name: sorted([guard.text for guard in read.guards if guard.condition is None] + list(read.unread))
        for name, read in ((name, read_export_error(text)) for name, text in MESSAGES.items())
    }
    assert {name: texts for name, texts in unparsed.items() if texts} == {
        name: sorted(texts) for name, (texts, _why) in UNPARSED.items()
    }


def single_variable() -> list[str]:
    """Texts whose truth is about one variable and was checked by enumeration."""
    return [
        name
        for name, entry in TEXTS.items()
        if entry["truth_checked_by_enumeration"] and entry["truth"] and len(entry["truth"]["vars"]) == 1
    ]


def over_one(guards: tuple[TextGuard, ...], variable: str) -> list[tuple[str, TextGuard]]:
    """Guards about the variable alone, each with the symbol that stands for it."""
    found = []
    for guard in guards:
        if guard.condition is None:
            continue
        symbols = free_symbols(guard.condition)
        names = {source for source, name in guard.names if name == variable}
        if len(symbols) != 1:
            continue
        (symbol,) = symbols
        if symbol in names or symbol.partition(".size()")[0] == variable:
            found.append((symbol, guard))
    return found


@each("name", some(single_variable(), 6))
def test_conditions_mean_what_the_program_needs(name: str) -> None:
    truth = TEXTS[name]["truth"]
    ((variable, (low, high)),) = truth["vars"].items()
    values = np.arange(low, high + 1)
    needed = np.array([bool(eval(truth["pred"], {variable: int(value)})) for value in values])

    found = over_one(read_export_error(TEXTS[name]["message"]).guards, variable)
    allowed = np.ones(len(values), dtype=bool)
    for symbol, guard in found:
        assert guard.condition is not None
        allowed &= holds_array(guard.condition, {symbol: values})

    assert found
    other, _why = OTHER_THAN_TRUTH.get(name, ([], ""))
    assert list(values[allowed != needed]) == other
