"""The page of a sweep: final strings in plain lists and dicts, which ``sweep.html.j2`` places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from trtdiag import __version__
from trtdiag.fleet.comparison import Change, SweepComparison
from trtdiag.fleet.facts import Measured
from trtdiag.fleet.options import SweepOptions
from trtdiag.fleet.rows import STATES, Row
from trtdiag.fleet.totals import Totals
from trtdiag.report.html import page_assets
from trtdiag.report.page import Part, fold_label, folding_table
from trtdiag.report.shown_paths import short_paths, with_short_paths
from trtdiag.report.templates import html_piece
from trtdiag.wording import amount, bytes_text, one_line, seconds_text

_PAGE_CLASS = {"crashed": "error", "killed": "error", "timed out": "error", "not run": "incomplete", "failed": "error"}
"""How a state is coloured where it is not one of a report; ``differs`` is an error, too."""
_TEXT_CHARS = 110
_ALONE_CHARS = 400  # where there is no report that says the rest
_NAME_CHARS = 80
_MOST_CHANGES = 200
_SHOWN_CHANGES = 20
_MOST_RULES = 4
_MOST_OPS = 8
_VERDICTS = {
    "crashed": "crashed",
    "killed": "killed",
    "timed out": "timed out",
    "not run": "not run",
    "failed": "failed",
    "differs": "with other outputs",
    "error": "with errors",
    "incomplete": "incomplete",
    "warning": "with warnings",
    "clean": "clean",
}
Times = Mapping[str, Measured]
Measures = Sequence[Times]


def sweep_page(
    rows: Sequence[Row],
    measured: Measures,
    totals: Totals,
    comparison: SweepComparison | None,
    options: SweepOptions,
    name: str,
) -> str:
    """The page: one file that needs no network; reports are beside it."""
    assets = page_assets(("report.css", "sweep.css"), ("scripted.css",), ("sweep.js",))
    view = with_short_paths(sweep_view(rows, measured, totals, comparison, options, name))
    return html_piece("sweep.html.j2", view=view, **assets)


def sweep_view(
    rows: Sequence[Row],
    measured: Measures,
    totals: Totals,
    comparison: SweepComparison | None,
    options: SweepOptions,
    name: str,
) -> Part:
    """All that the page shows."""
    order = sorted(range(len(rows)), key=lambda at: STATES.index(rows[at].state))
    asked = set(options.steps)
    varied = varied_in(rows)
    worst = rows[order[0]].state if rows else "clean"
    heads = _heads(asked)
    return {
        "name": one_line(name),
        "status": page_class(worst),
        "headline": headline(totals),
        "states": [
            {"state": state, "class": page_class(state), "count": f"{totals.states[state]:,}"}
            for state in totals.states
        ],
        "heads": heads,
        "rows": [_row(rows[at], measured[at], asked, varied) for at in order],
        "rules": _rules(totals),
        "ops": _ops(totals),
        "comparison": None if comparison is None else _comparison(comparison),
        "settings": _settings(options, rows),
        "footer": f"trtdiag {__version__}. What is measured (seconds, memory, times of calls) differs from run to run.",
    }


def page_class(state: str) -> str:
    """The class that colours a state."""
    return "error" if state == "differs" else _PAGE_CLASS.get(state, state)


def headline(totals: Totals) -> str:
    """``1,000 programs in 2,000 cases: 12 with errors, 30 with warnings, 1,958 clean``."""
    cases = f" in {amount(totals.rows, 'case')}" if totals.rows != totals.programs else ""
    told = ", ".join(f"{count:,} {_VERDICTS[state]}" for state, count in totals.states.items())
    return f"{amount(totals.programs, 'program')}{cases}: {told}"


def varied_in(rows: Sequence[Row]) -> tuple[bool, ...]:
    """Which of target, precision, generation and type of GPU are not the same in all rows."""
    columns = zip(*(row.id[1:] for row in rows), strict=True)
    return tuple(any(one != other for one, other in pairwise(column)) for column in columns)


def variant_of(row: Row, varied: Sequence[bool]) -> str:
    """What tells a row from others of its program: ``10.16, fp16``."""
    return ", ".join(each for each, shown in zip(row.id[1:], varied, strict=True) if shown and each)


def _heads(asked: set[str]) -> list[dict[str, str]]:
    number = "number"
    found = [("program", ""), ("verdict", ""), ("findings", ""), ("dims", "")]
    found += [("engines", number), ("ops inside", number), ("weights", number)]
    found += [("built", number)] if "compile" in asked else []
    found += [("compared", "")] if asked & {"compile", "verify"} else []
    found += [("a call", number)] if "bench" in asked else []
    return [{"text": text, "kind": kind} for text, kind in (*found, ("seconds", number))]


def _cell(head: str, text: str, rank: float | None = None, kind: str = "number") -> Part:
    """A cell; ``rank`` is what it is sorted by where its text says that otherwise."""
    return {"head": head, "text": text, "rank": "" if rank is None else f"{rank:.6g}", "kind": kind}


def _row(row: Row, times: Times, asked: set[str], varied: Sequence[bool]) -> Part:
    found, built = row.diagnosis, row.built
    engines = None if found is None else found.engines
    share = None if found is None or not found.ops else (found.ops_in_engines or 0) / found.ops
    weights = None if found is None else found.weight_bytes
    cells = [
        _cell("findings", _findings(row), -_severity(row), ""),
        _cell("dims", _dims(row), None if found is None else -found.wrong_dims, ""),
        _cell("engines", "" if engines is None else f"{engines:,}"),
        _cell("ops inside", "" if share is None else f"{share:.0%}", share),
        _cell("weights", "" if weights is None else bytes_text(weights), weights),
    ]
    if "compile" in asked:
        size = None if built is None else built.engine_bytes
        cells.append(_cell("built", "" if size is None else bytes_text(size), size))
    if asked & {"compile", "verify"}:
        cells.append(_cell("compared", row.compared or "", None, ""))
    if "bench" in asked:
        ms = times["bench"].ms if "bench" in times else {}
        ours = ms.get("trtdiag")
        others = [f"{way} {each:.3g}" for way, each in ms.items() if way != "trtdiag"]
        told = "" if ours is None else f"{ours:.3g} ms{f' ({chr(44).join(others)})' if others else ''}"
        cells.append(_cell("a call", told, ours))
    seconds = sum(each.seconds for each in times.values())
    cells.append(_cell("seconds", seconds_text(seconds) if times else "", seconds))
    reports = list(row.reports.items())
    return {
        "name": one_line(short_paths(row.program), _NAME_CHARS),
        "variant": variant_of(row, varied),
        "href": reports[0][1] if reports else "",
        "more": [{"text": step, "href": href} for step, href in reports[1:]],
        "also": _also(row),
        "state": row.state,
        "class": page_class(row.state),
        "rank": str(STATES.index(row.state)),
        "text": one_line(short_paths(_without_state(row)), _TEXT_CHARS if row.diagnosis else _ALONE_CHARS),
        "cells": cells,
    }


def _without_state(row: Row) -> str:
    """The verdict without what the word before it says."""
    return "" if row.state == "clean" and row.text == "No findings" else row.text


def _findings(row: Row) -> str:
    """``GRD301 x2, TYP401``, errors first."""
    if row.diagnosis is None:
        return ""
    counts = Counter(hit.rule for hit in row.diagnosis.findings if hit.severity != "info")
    told = [rule if count == 1 else f"{rule} x{count:,}" for rule, count in counts.items()]
    more = f" and {len(told) - _MOST_RULES} more" if len(told) > _MOST_RULES else ""
    return ", ".join(told[:_MOST_RULES]) + more


def _also(row: Row) -> str:
    """What a row is found by, too, and does not show: rules that note something, ops that stay with PyTorch."""
    if row.diagnosis is None:
        return ""
    notes = [hit.rule for hit in row.diagnosis.findings if hit.severity == "info"]
    return " ".join(dict.fromkeys((*notes, *(each.op for each in row.diagnosis.left[:_MOST_OPS]))))


def _severity(row: Row) -> float:
    """Errors before warnings, many before few."""
    counts = Counter(hit.severity for hit in (() if row.diagnosis is None else row.diagnosis.findings))
    return counts["error"] * 1_000_000 + counts["warning"]


def _dims(row: Row) -> str:
    found, fixed = row.diagnosis, row.fixed
    told = []
    if found is not None and found.dims:
        told.append(f"{found.dynamic_dims} of {found.dims} dynamic" if found.dynamic_dims else "all fixed")
        if found.wrong_dims:
            told.append(f"{found.wrong_dims} wrong")
    if fixed is not None and fixed.outcome != "unchanged":
        told.append(("corrected, proven" if fixed.proven else "corrected") if fixed.file else fixed.outcome)
    return "; ".join(told)


def _rules(totals: Totals) -> Part | None:
    rows = [
        {
            "rule": each.rule,
            "name": each.name,
            "severity": each.severity,
            "word": {"info": "note"}.get(each.severity, each.severity),
            "programs": f"{each.programs:,}",
            "share": f"{each.programs / totals.programs:.0%}",
            "findings": f"{each.findings:,}",
        }
        for each in totals.rules
    ]
    return {"rows": rows} if rows else None


def _ops(totals: Totals) -> Part | None:
    rows = [
        (each.op, one_line(each.why), f"{each.engines:,}", f"{each.calls:,}", f"{each.programs:,}")
        for each in totals.ops
    ]
    heads = ("op", "why", "engines that it costs", "calls", "programs")
    return folding_table(heads, rows, ("code", "", "number", "number", "number"))


def _comparison(found: SweepComparison) -> Part:
    return {
        "earlier": one_line(found.earlier),
        "summary": comparison_line(found),
        "regressions": _changes(found.regressions),
        "improvements": _changes(found.improvements),
        "added": _named(found.added, "new row"),
        "gone": _named(found.gone, "row that is gone", "rows that are gone"),
    }


def comparison_line(found: SweepComparison) -> str:
    """``2 regressions, 1 improvement, 997 unchanged, 1 new, 1 gone``."""
    counts = (len(found.regressions), len(found.improvements), found.unchanged, len(found.added), len(found.gone))
    told = [amount(counts[0], "regression"), amount(counts[1], "improvement"), f"{counts[2]:,} unchanged"]
    told += [f"{count:,} {word}" for count, word in zip(counts[3:], ("new", "gone"), strict=True) if count]
    return ", ".join(told)


def _changes(changes: Sequence[Change]) -> Part:
    shown = [
        {"row": one_line(each.row), "href": each.report, "words": [one_line(word) for word in each.words]}
        for each in changes[:_MOST_CHANGES]
    ]
    hidden = len(changes) - _SHOWN_CHANGES
    label = (
        fold_label(f"{hidden:,} more", hidden, _MOST_CHANGES - _SHOWN_CHANGES, "all in results.json")
        if hidden > 0
        else ""
    )
    return {"rows": shown[:_SHOWN_CHANGES], "folded": shown[_SHOWN_CHANGES:], "more": label}


def _named(labels: Sequence[str], word: str, plural: str = "") -> Part | None:
    if not labels:
        return None
    return {"label": amount(len(labels), word, plural), "names": [one_line(each) for each in labels[:_MOST_CHANGES]]}


def _settings(options: SweepOptions, rows: Sequence[Row]) -> Part | None:
    def all_of(column: int) -> str:
        return ", ".join(dict.fromkeys(filter(None, (row.id[column] for row in rows))))

    told: list[tuple[str, Any]] = [
        ("steps", ", ".join(options.steps)),
        ("targets", all_of(1)),
        ("precisions", all_of(2)),
        ("GPU generations", all_of(3)),
        ("types of GPU", all_of(4)),
        ("backend", options.backend or ""),
        *((name.replace("_", "-"), one_line(str(value))) for name, value in options.options.items()),
        ("time limit of a case", seconds_text(options.time_limit_s)),
    ]
    return folding_table(("option", "value"), [(name, str(value)) for name, value in told if value])
