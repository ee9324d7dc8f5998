"""What changed between two JSON reports: findings by fingerprint, engines, symbols, times."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

Body: TypeAlias = Mapping[str, Any]
"""A report in plain lists and dicts that fit the schema."""
_FEW_OPS, _SOME_OPS = 0.25, 0.5
"""Own choice: shares of equal ops under which two reports are of different programs: whatever their inputs and names,
or without a common input or of another name.  Two convolutional nets with an input ``image`` have a third in common."""
_NUMBER = re.compile(r"(?:_\d+)+$")
_ENDS, _SIZES = ("min", "max"), ("min", "opt", "max")
OURS = "trtdiag"
"""The compiled program among the ways to run a program."""


def compared(before: Body, after: Body, earlier: str) -> dict[str, Any]:
    """What changed from one report to another, as the schema has it: new findings, fixed ones, unchanged ones.

    Args:
        before: The earlier one.
        after: The later one.
        earlier: How to name the earlier one.
    """
    old = {finding["fingerprint"]: finding for finding in before["findings"]}
    now = {finding["fingerprint"] for finding in after["findings"]}
    return {
        "earlier": earlier,
        "unlike": _unlike(before, after),
        "notes": list(_notes(before, after)),
        "new": [_change(each) for each in after["findings"] if each["fingerprint"] not in old],
        "fixed": [_change(each) for each in before["findings"] if each["fingerprint"] not in now],
        "unchanged": [
            _change(each, old[each["fingerprint"]]) for each in after["findings"] if each["fingerprint"] in old
        ],
        "engines": {"before": _engines(before), "after": _engines(after)},
        "symbols": list(_symbols(before, after)),
        "calls": list(_calls(before, after)),
    }


def _unlike(before: Body, after: Body) -> str | None:
    """Why these are two programs and not two states of one; ``None`` where they are alike."""
    kinds, inputs = ([_ops(body) for body in (before, after)], [_inputs(body) for body in (before, after)])
    every = kinds[0] | kinds[1]
    share = (kinds[0] & kinds[1]).total() / every.total() if every else 1.0
    labels = [body["program"]["label"] for body in (before, after)]
    if share < _FEW_OPS or (share < _SOME_OPS and (labels[0] != labels[1] or not inputs[0] & inputs[1])):
        named = f" ({labels[0]} and {labels[1]})" if labels[0] != labels[1] else ""
        return f"two different programs{named}: {share:.0%} of their ops are the same"
    return None


def _ops(body: Body) -> Counter[str]:
    """How often each kind of op occurs, told by the names of nodes: ``linear_3`` is a ``linear``."""
    split = body["partition"]
    if split is None:
        return Counter()
    nodes = [node for segment in split["segments"] for node in segment["ops"]]
    nodes += [each["node"] for each in split["left_to_pytorch"]]
    return Counter(_NUMBER.sub("", node) for node in nodes)


def _inputs(body: Body) -> set[tuple[str, int]]:
    return {(each["name"], len(each["dims"])) for each in body["program"]["inputs"]}


def sizes_text(sizes: Mapping[str, int]) -> str:
    """``batch=4, h=640``."""
    return ", ".join(f"{name}={size}" for name, size in sorted(sizes.items())) or "its fixed sizes"


def _change(finding: Body, before: Body | None = None) -> dict[str, Any]:
    """A finding, and the severity that it had before where that was another."""
    severity = None if before is None or before["severity"] == finding["severity"] else before["severity"]
    return {
        **{key: finding[key] for key in ("id", "rule", "severity")},
        "severity_before": severity,
        "message": finding["message"],
        "fingerprint": str(finding["fingerprint"]),
    }


def _engines(body: Body) -> dict[str, Any] | None:
    """How a program was split; ``None`` where nothing was planned."""
    split = body["partition"]
    if split is None:
        return None
    inside = sum(len(segment["ops"]) for segment in split["segments"])
    built = body["compiled"] and body["compiled"]["engines"]
    return {
        "engines": len(split["segments"]),
        "ops_in_engines": inside,
        "ops": inside + sum(bool(each["computes"]) for each in split["left_to_pytorch"]),
        "engine_bytes": None if built is None else sum(engine["bytes"] for engine in built),
        "latency_ms": dict(_latencies(built or ())),
    }


def _latencies(engines: Iterable[Body]) -> Iterator[tuple[str, float]]:
    """Milliseconds of each engine's layers together, where they were timed."""
    for engine in engines:
        times = [layer["time_ms"] for layer in engine["built"]["layers"] if layer["time_ms"] is not None]
        if times:
            yield f"engine {engine['index']}", float(sum(times))


def _symbols(before: Body, after: Body) -> Iterator[dict[str, Any]]:
    """Those whose range or profile changed, by the user's name; ``None`` on the side without such a symbol."""
    old, now = (
        {
            each["name"]: {"range": _only(each["range"], _ENDS), "profile": _only(each["profile"], _SIZES)}
            for each in body["symbols"] or ()
        }
        for body in (before, after)
    )
    for name in dict.fromkeys((*now, *old)):
        if old.get(name) != now.get(name):
            yield {"name": name, "before": old.get(name), "after": now.get(name)}


def _only(part: Body | None, keys: tuple[str, ...]) -> dict[str, Any] | None:
    """The part with these keys: a report of a later version may have more, which are none of the comparison's."""
    return None if part is None else {key: part[key] for key in keys}


def _calls(before: Body, after: Body) -> Iterator[dict[str, Any]]:
    """Milliseconds of a call of the compiled program by sizes; ``None`` where that was not measured."""
    old, now = (
        {
            sizes_text(result["sizes"]): way["ms"]["median"]
            for result in (body["bench"] or {"results": ()})["results"]
            for way in result["ways"]
            if way["way"] == OURS and way["ms"] is not None
        }
        for body in (before, after)
    )
    for sizes in dict.fromkeys((*now, *old)):
        yield {"sizes": sizes, "before_ms": old.get(sizes), "after_ms": now.get(sizes)}


def _notes(before: Body, after: Body) -> Iterator[str]:
    """What makes the two hard to compare: another program, target, version or device."""
    for what, then, today in (
        ("program", before["program"]["label"], after["program"]["label"]),
        ("TensorRT", before["target"], after["target"]),
        ("trtdiag", before["tool"]["version"], after["tool"]["version"]),
    ):
        if then != today:
            yield f"Another {what}: {then} then, {today} now"
    timed = [body["bench"]["device"] for body in (before, after) if body["bench"] is not None]
    if len(timed) == 2 and timed[0] != timed[1]:
        yield f"Calls were timed on another device: {timed[0]} then, {timed[1]} now"
