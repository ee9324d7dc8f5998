"""The names of ops as the page's own copy of the JSON has them: what one expects next packs to nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

_NUMBERED = re.compile(r"(.+)_(0|[1-9][0-9]{0,8})", re.DOTALL | re.ASCII)


def with_short_names(report: dict[str, Any]) -> dict[str, Any]:
    """The report with ``add`` for each op of an engine that is called after the last: ``add``, ``add_1``, ``add_2``.

    Other names stand behind ``=``.  The page's script takes it back where the report is saved.
    """
    partition = report["partition"]
    if partition is None:
        return report
    following: dict[str, int] = {}
    segments = [{**each, "ops": _short(each["ops"], following)} for each in partition["segments"]]
    return {**report, "partition": {**partition, "segments": segments}}


def _short(names: Iterable[str], following: dict[str, int]) -> list[str]:
    told = []
    for name in names:
        numbered = _NUMBERED.fullmatch(name)
        base, number = (numbered[1], int(numbered[2])) if numbered else (name, 0)
        expected = f"{base}_{following[base]}" if following.get(base) else base
        told.append(base if name == expected and not base.startswith("=") else f"={name}")
        following[base] = number + 1
    return told
