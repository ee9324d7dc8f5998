"""What TensorRT-RTX's builder says of networks, for each GPU generation, beside what its target says.

Shared by ``real_builder_calls.py`` and ``real_builder_parity.py``.  Rows are kept in a file beside the results as they
come, so that a run that was ended goes on where it stood.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from case_pool import Pool, Row

from trtdiag.engine.backend import Profile, get_backend
from trtdiag.engine.build_watch import Watch
from trtdiag.errors import EngineBuildError
from trtdiag.network import Network
from trtdiag.options import CompileOptions
from trtdiag.targets import Target, get_rtx_target, get_target, installed_rtx_version

Networks = Callable[[Target], "tuple[Network, Profile] | str"]
"""The network that is written for a target, and the sizes to build it for, or why there is none."""
CASE_S = 180.0
"""Seconds after which a process that answers nothing is ended."""


class Answers:
    """The target's answers and the builder's, of the release that is installed."""

    def __init__(self) -> None:
        self.release = get_rtx_target(None)
        self.base = get_target(self.release.api)
        self._backend = get_backend("tensorrt-rtx")

    def row(self, networks: Networks) -> Row:
        """By generation what both say; ``static`` alone where there is no network.

        What the target has for all generations at once is built for all of them at once, and where that is refused for
        each.  Where the target has none, the network of its TensorRT is built, so that what is too strict is seen.
        """
        gpus = self.release.gpus
        begun = time.perf_counter()
        said: dict[str, bool] = {}
        words: dict[str, str] = {}
        why: dict[str, str] = {}
        whole = networks(self.release.on(gpus))
        if not isinstance(whole, str):
            words = dict.fromkeys(gpus, self.words(whole, gpus, self.release))
            said = dict.fromkeys(gpus, True)
        if isinstance(whole, str) or words[gpus[0]]:
            base: Any = None
            for gpu in gpus:
                own = networks(self.release.on((gpu,)))
                said[gpu] = not isinstance(own, str)
                if not isinstance(own, str):
                    words[gpu] = self.words(own, (gpu,), self.release)
                    continue
                why[gpu] = own
                base = networks(self.base) if base is None else base
                if isinstance(base, str):
                    return {"state": "no network", "static": base}
                words[gpu] = self.words(base, (gpu,), self.base)
        state = "agree"
        if any(bool(words[gpu]) is said[gpu] for gpu in gpus):  # converted and refused, or the other way round
            state = "refused" if any(said[gpu] and words[gpu] for gpu in gpus) else "stricter"
        return {
            "state": state,
            "said": [gpu for gpu in gpus if said[gpu]],
            "built": [gpu for gpu in gpus if not words[gpu]],
            "static": next(iter(why.values()), ""),
            "words": {gpu: text for gpu, text in words.items() if text},
            "s": round(time.perf_counter() - begun, 2),
        }

    def words(self, made: tuple[Network, Profile], gpus: Sequence[str], target: Target) -> str:
        """The builder's words where it refuses, else nothing."""
        network, profile = made
        options = replace(CompileOptions(backend="tensorrt-rtx"), gpu=tuple(gpus))
        try:
            self._backend.build(network, profile, options, target, Watch())
        except EngineBuildError as error:
            return f"{error.message}: {error.because}"[:600]
        return ""


def serve(answer: Callable[[str], Row]) -> None:
    """A row for each key that comes in, one a line; for the processes of a ``Pool``."""
    out, sys.stdout = sys.stdout, sys.stderr  # what libraries print is no row
    print(json.dumps({"ready": True}), file=out, flush=True)
    for line in sys.stdin:
        key = line.strip()
        print(json.dumps({"begin": key}), file=out, flush=True)
        try:
            row = answer(key)
        except Exception as error:  # one case must not end the others
            row = {"state": "error", "note": f"{type(error).__name__}: {error}"[:600]}
        print(json.dumps({"key": key, **row}), file=out, flush=True)


def key_of(text: str) -> str:
    """A key that is one word, the same in every run."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def answered(
    command: Sequence[str], keys: Sequence[str], again: Collection[str], kept: Path, limit_s: float, log: Path | None
) -> dict[str, Row]:
    """The rows of keys: those that are kept in a file, but for those asked ``again``, and those that come now.

    Args:
        command: Starts a process that answers (``serve``).
        keys: What to ask; those not reached in time have no row.
        again: Which of them to ask though there is a row.
        kept: The file of rows, one JSON a line; later rows of a key count.
        limit_s: No case begins after that.
        log: Where the process's errors go.
    """
    rows = kept_rows(kept)
    waiting = [key for key in keys if key not in rows or key in again]
    if waiting:
        for row in Pool(list(command), 1, limit_s, CASE_S, log, kept).rows(waiting):
            if row["state"] == "not run":
                continue
            rows[row["key"]] = row
            if row["state"] == "died":
                with open(kept, "a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
    return {key: rows[key] for key in keys if key in rows}


def kept_rows(path: Path) -> dict[str, Row]:
    """The rows of a file; its last line may be half of one."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.is_file() else []
    if lines and not lines[-1].endswith("\n"):
        path.write_text("".join(lines[:-1]), encoding="utf-8")
    return {row["key"]: row for row in (json.loads(line) for line in lines if line.endswith("\n"))}


def agreeing(rows: Sequence[Row], gpus: Sequence[str]) -> tuple[int, int]:
    """Of how many pairs of a row and a generation both say the same, and how many there are.

    What ended the process counts as said otherwise; rows without a network do not count.
    """
    compared = [row for row in rows if "built" in row]
    same = sum((gpu in row["said"]) is (gpu in row["built"]) for row in compared for gpu in gpus)
    return same, len(gpus) * (len(compared) + sum(row["state"] == "died" for row in rows))


def summary(rows: Sequence[Row], gpus: Sequence[str]) -> Row:
    """What the tables of the docs say."""
    same, pairs = agreeing(rows, gpus)
    return {
        "states": dict(Counter(row["state"] for row in rows).most_common()),
        "networks": sum("built" in row for row in rows),
        "pairs": pairs,
        "agree": same,
        "percent": round(100 * same / max(1, pairs), 2),
        "converted_and_refused": sum(row["state"] in ("refused", "died") for row in rows),
        "case_s": round(sum(row.get("s", 0) for row in rows)),
    }


_VARIES = re.compile(r"\d+|'[^']*'|\[[^\]]*\]|\([^)]*\)|__my\S+")


def shown(rows: Sequence[Row], gpus: Sequence[str]) -> None:
    """What does not agree, by cause."""
    causes: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for row in rows:
        if row["state"] in ("refused", "stricter"):
            apart = [gpu for gpu in gpus if (gpu in row["said"]) is not (gpu in row["built"])]
            text = row["words"].get(apart[0], "") if row["state"] == "refused" else row["static"]
            causes[row["state"], " ".join(apart), _VARIES.sub("#", text)[:240]].append(row["call"])
        elif row["state"] not in ("agree", "no network"):
            causes[row["state"], "", row.get("note", "")[:200]].append(row["call"])
    for (state, apart, text), calls in sorted(causes.items(), key=lambda one: -len(one[1])):
        print(f"{len(calls):5} {state:8} {apart}\n      {text}\n      as {calls[0][:160]}")


def written(path: Path, rows: Sequence[Row], more: Mapping[str, Any]) -> Row:
    """The file of all rows, one line a row, and what stands at its top; what all generations agree on is one word."""
    gpus = get_rtx_target(None).gpus
    top = {
        "tensorrt_rtx": installed_rtx_version(),
        "gpus": gpus,
        "cores": os.cpu_count(),
        **more,
        **summary(rows, gpus),
    }
    lines = []
    for row in sorted(rows, key=lambda row: row["call"]):
        if row["state"] == "agree" and len(row["built"]) == len(gpus):
            row = {"state": "agree", "built": "all", "call": row["call"]}
        lines.append(json.dumps({name: value for name, value in row.items() if name not in ("key", "s") and value}))
    path.write_text(json.dumps({"machine": top})[:-1] + ', "rows": [\n' + ",\n".join(lines) + "\n]}\n", "utf-8")
    return top
