"""Live exports that a practitioner would try: a report for each, no guard dropped, the allowed sizes as measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.guards import cases
from tests.guards.asks import Span
from tests.guards.live_exceptions import OTHER_THAN_MEASURED, UNREAD
from tests.models.library import live_cases, needs_library
from trtdiag.frontend.dim_sites import Sites
from trtdiag.frontend.program import InputDim
from trtdiag.frontend.read_guards import read_guard
from trtdiag.pipeline.analyze import analyze
from trtdiag.report.report import Report
from trtdiag.symbolic.evaluate_array import Array, evaluate_array, holds_array
from trtdiag.symbolic.expr import And, Sym, Truth
from trtdiag.symbolic.tree import free_symbols

MEASURED: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "measured.json").read_text())

# One of each kind: residue, split, sizes from data.  Branches and sums are quick in tests/fixdims.  Nested floors
# (patch14_merge2) take 5 s and are slow: the quick run has them in tests/fixdims/test_choose_cases.py.
QUICK = (
    "conv_deconv_3mod4",
    "chunk2_gate",
    "nonzero_branch",
)


def report_of(name: str) -> Report:
    with needs_library(name):
        return analyze(cases.build(name))


def spans(spec: Any) -> dict[str, Span]:
    """The ranges that a case asks for, by name."""
    if isinstance(spec, Span):
        return {spec.name: spec}
    inner = spec.values() if isinstance(spec, dict) else spec if isinstance(spec, (tuple, list)) else ()
    return {name: span for part in inner for name, span in spans(part).items()}


def dims_of(report: Report, names: list[str]) -> list[InputDim]:
    """The input dims with these declared names."""
    return [dim for tensor in report.analysis.program.inputs for dim in tensor.dims if dim.declared_name in names]


def check_every_guard_is_read_or_named(name: str, report: Report) -> None:
    dims = report.analysis.dims
    assert dims.rows
    assert sorted(guard.text for guard in dims.unparsed) == sorted(UNREAD.get(name, ([], ""))[0])
    assert all(guard.why for guard in dims.unparsed)
    # Each guard that torch recorded is judged, or holds for any sizes, or is named as unread.
    judged, unread = {c.condition for c in dims.constraints}, {guard.text for guard in dims.unparsed}
    sites = Sites(report.analysis.program)
    for guard in report.analysis.program.guards:
        if str(guard.condition) not in unread:
            condition = read_guard(guard, sites)
            parts = condition.args if isinstance(condition, And) else (condition,)
            assert set(parts) - {Truth(True)} <= judged


def allowed_count(report: Report, symbol: str, values: Array, dims: list[InputDim], asked: dict[str, Span]) -> int:
    """How many values of a symbol satisfy every constraint on it and keep each of its dims in the asked range.

    Other sizes are as in the example, as they were when this was measured, those of the same Dim as this one; a size
    born from data has none.
    """
    allowed = np.ones(len(values), dtype=bool)
    for dim in dims:
        assert dim.declared_name is not None
        sizes = evaluate_array(dim.expr, {symbol: values})
        allowed &= (sizes >= asked[dim.declared_name].low) & (sizes <= asked[dim.declared_name].high)
    hints, names = report.analysis.program.hints, report.analysis.program.names
    for constraint in report.analysis.dims.constraints:
        others = set(constraint.symbols) - {symbol}
        if symbol in constraint.symbols and others <= set(hints):
            rest = {name: values if names[name] == names[symbol] else np.int64(hints[name]) for name in others}
            allowed &= holds_array(constraint.condition, {symbol: values, **rest})
    return int(allowed.sum())


def alone_in(dims: list[InputDim], symbol: str) -> list[InputDim]:
    """Those dims whose size this symbol decides and no other."""
    return [dim for dim in dims if free_symbols(dim.expr) == {symbol}]


def check_allowed_sizes_are_those_measured(name: str, report: Report) -> None:
    asked = spans(cases.CASES[name].make().spec)
    differing = {}
    for measured in MEASURED[name]["allowed"]:
        dims = dims_of(report, measured["dims"])
        symbols = {dim.expr.name: asked[dim.declared_name or ""] for dim in dims if isinstance(dim.expr, Sym)}
        # Where the export fails, torch is left to its own dims, and ties those of one Dim only if the model does.
        if not symbols or len(symbols) > 1 < len(measured["dims"]):
            differing["/".join(measured["dims"])] = "no symbol of its own"
            continue
        counts = {
            allowed_count(report, symbol, np.arange(span.low, span.high + 1), alone_in(dims, symbol), asked)
            for symbol, span in symbols.items()
        }
        count = ", ".join(map(str, sorted(counts)))
        if count != str(measured["count"]):
            differing["/".join(measured["dims"])] = f"{count} for {measured['count']}"
    assert differing == OTHER_THAN_MEASURED.get(name, ({}, ""))[0]


@pytest.mark.parametrize("name", live_cases(QUICK))
def test_live_case(name: str) -> None:
    report = report_of(name)
    check_every_guard_is_read_or_named(name, report)
    if MEASURED.get(name, {}).get("allowed"):
        check_allowed_sizes_are_those_measured(name, report)
