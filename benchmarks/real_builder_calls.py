"""Static answers beside the real builder's: every call of ``tests/convert`` as a network, built for every generation.

    python benchmarks/real_builder_calls.py --json benchmarks/results/rtx-calls-1.7.json       with tensorrt-rtx 1.7
    python benchmarks/real_builder_calls.py --only 'matmul|conv' --most 99                     every call of some ops

Needs ``tensorrt-rtx`` and no GPU; nothing is run.  A call that the target converts for all GPU generations at once is
built for all of them at once; where that is refused, and where the target converts it for some only, for each
generation.  Where the target refuses what its TensorRT of the same builder (11.4, 10.16) converts, that network is
handed to the builder, which may build what we refuse.  Calls that neither converts have no network and are counted
apart.  Sizes are those that the tests compare.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks" / "gpu"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from case_pool import Pool, Row, rows_file
from converters import Call, collected, in_turn

from trtdiag.engine.backend import Backend, get_backend
from trtdiag.engine.watch import Watch
from trtdiag.errors import EngineBuildError, TrtdiagError
from trtdiag.options import CompileOptions
from trtdiag.targets import Target, get_rtx_target, get_target, installed_rtx_version

LAST = 180.0
"""Seconds after which a process that answers nothing is ended."""


class Builder:
    """Converts calls for a release and hands the networks to its builder."""

    def __init__(self, backend: Backend, release: Target) -> None:
        self.backend, self.release = backend, release
        self.base = get_target(release.api)

    def row(self, call: Call) -> Row:
        """What we say and what the builder says, by generation; ``static`` alone where there is no network."""
        gpus = self.release.gpus
        begun = time.perf_counter()
        said, words, why = {}, {}, {}
        whole = self._network(call, self.release.on(gpus))
        if not isinstance(whole, str):
            words = dict.fromkeys(gpus, self._built(whole, gpus, self.release))
            said = dict.fromkeys(gpus, True)
        if isinstance(whole, str) or words[gpus[0]]:
            base: Any = None
            for gpu in gpus:
                own = self._network(call, self.release.on((gpu,)))
                said[gpu] = not isinstance(own, str)
                if not isinstance(own, str):
                    words[gpu] = self._built(own, (gpu,), self.release)
                    continue
                why[gpu] = own
                base = self._network(call, self.base) if base is None else base
                if isinstance(base, str):
                    return {"state": "no network", "static": base}
                words[gpu] = self._built(base, (gpu,), self.base)
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

    def _network(self, call: Call, target: Target) -> Any:
        """The network and its profile, or why there is none."""
        from converters_worker import dtypes_of

        from tests.convert import op_check
        from tests.convert.on_backend import profile_of
        from tests.convert.op_samples import overload

        lacking = dtypes_of((call["args"], call["kwargs"])) - {*target.dtypes, "int64", "float64"}
        if lacking:
            return f"dtype: no {', '.join(sorted(lacking))}"
        op_check.GREATEST = call["greatest"]
        kept: list[Any] = []

        def keep(converted: Any, compared: Any) -> None:
            kept.append((converted.network, profile_of(converted.network, [one.inputs for one in compared])))

        op = overload(call["op"])
        assert op is not None
        try:
            outcome = op_check.check_op(
                op, call["args"], call["kwargs"], target=target, compare=_anything, also=keep, **call["options"]
            )
        except TrtdiagError as error:
            return f"{error.reference}: {error}"[:300]
        except RuntimeError as error:  # torch does not trace it alone
            return f"untraced: {error}"[:300]
        if outcome.limits:
            return next(f"{limit.code}: {limit.why}" for limit in outcome.limits.values())[:300]
        return kept[0]

    def _built(self, made: Any, gpus: Sequence[str], target: Target) -> str:
        """The builder's words where it refuses, else nothing."""
        network, profile = made
        options = replace(CompileOptions(backend="tensorrt-rtx"), gpu=tuple(gpus))
        try:
            self.backend.build(network, profile, options, target, Watch())
        except EngineBuildError as error:
            return f"{error.message}: {error.because}"[:600]
        return ""


def _anything(expected: torch.Tensor, actual: torch.Tensor) -> None:
    """The tests compared the results; here they only say which sizes there are."""
    del expected, actual


def answer(calls: list[Call]) -> None:
    """A row for each key that comes in: the number of a call."""
    out, sys.stdout = sys.stdout, sys.stderr  # what libraries print is no row
    logging.getLogger("torch").setLevel(logging.CRITICAL)
    torch.set_num_threads(1)
    builder = Builder(get_backend("tensorrt-rtx"), get_rtx_target(None))
    print(json.dumps({"ready": True}), file=out, flush=True)
    for line in sys.stdin:
        print(json.dumps({"begin": line.strip()}), file=out, flush=True)
        try:
            row = builder.row(calls[int(line)])
        except Exception as error:  # one case must not end the others
            row = {"state": "error", "note": f"{type(error).__name__}: {error}"[:600]}
        print(json.dumps({"key": line.strip(), **row}), file=out, flush=True)


_VARIES = re.compile(r"\d+|'[^']*'|\[[^\]]*\]|\([^)]*\)|__my\S+")


def shown(rows: list[Row], gpus: Sequence[str]) -> None:
    """How many agree, then what does not, by cause."""
    pairs = [(row, gpu) for row in rows if "built" in row for gpu in gpus]
    same = sum((gpu in row["said"]) is (gpu in row["built"]) for row, gpu in pairs)
    print(", ".join(f"{count} {state}" for state, count in Counter(row["state"] for row in rows).most_common()))
    print(f"{same} of {len(pairs)} calls and generations agree ({100 * same / max(1, len(pairs)):.2f} %)")
    causes: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for row in rows:
        if row["state"] in ("refused", "stricter"):
            apart = [gpu for gpu in gpus if (gpu in row["said"]) is not (gpu in row["built"])]
            text = row["words"].get(apart[0], "") if row["state"] == "refused" else row["static"]
            causes[row["state"], " ".join(apart), _VARIES.sub("#", text)[:240]].append(row["call"])
        elif row["state"] not in ("agree", "no network", "not run"):
            causes[row["state"], "", row.get("note", "")[:200]].append(row["call"])
    for (state, apart, text), calls in sorted(causes.items(), key=lambda one: -len(one[1])):
        print(f"{len(calls):5} {state:8} {apart}\n      {text}\n      as {calls[0][:160]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="regular expression of the ops")
    parser.add_argument("--most", type=int, default=99, help="calls of each op, dtype and kind of sizes")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--limit-s", type=float, default=3600, help="begin no call after that, collecting apart")
    parser.add_argument("--calls", type=Path, help="where the calls of the tests are, or are kept")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--log", type=Path, help="where the processes' errors go")
    parser.add_argument("--answer", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if asked.answer is not None:
        answer(torch.load(asked.answer, weights_only=False))
        return
    if asked.calls is not None and asked.calls.is_file():
        calls = torch.load(asked.calls, weights_only=False)
    else:
        calls = collected(asked.workers, "", asked.log)
        if asked.calls is not None:
            torch.save(calls, asked.calls)
    calls = [call for call in calls if re.search(asked.only, call["op"])]
    numbers = in_turn(calls, asked.most)
    release, begun = get_rtx_target(None), time.monotonic()
    with TemporaryDirectory() as folder:
        held = Path(folder) / "calls.pt"
        torch.save(calls, held)
        command = [sys.executable, __file__, "--answer", str(held)]
        pool = Pool(command, asked.workers, asked.limit_s, LAST, asked.log, rows_file(asked.json))
        rows = pool.rows([str(number) for number in numbers])
    for row in rows:
        call = calls[int(row.pop("key"))]
        row.update(op=call["op"], call=call["text"][:200])
    shown(rows, release.gpus)
    machine = {
        "tensorrt_rtx": installed_rtx_version(),
        "gpus": release.gpus,
        "calls": len(calls),
        "asked": len(numbers),
        "wall_s": round(time.monotonic() - begun),
        "command": " ".join(["benchmarks/real_builder_calls.py", *sys.argv[1:]]),
    }
    print(json.dumps(machine))
    if asked.json:
        asked.json.write_text(_text(machine, rows), encoding="utf-8")


def _text(machine: dict[str, Any], rows: list[Row]) -> str:
    """One line a call; what agrees for all generations is its call alone."""
    lines = []
    for row in sorted(rows, key=lambda row: (row["op"], row["call"])):
        if row["state"] == "agree" and len(row["built"]) == len(machine["gpus"]):
            row = {"state": "agree", "built": "all", "call": row["call"]}
        lines.append(json.dumps({name: value for name, value in row.items() if name not in ("op", "s") and value}))
    return json.dumps({"machine": machine})[:-1] + ', "rows": [\n' + ",\n".join(lines) + "\n]}\n"


if __name__ == "__main__":
    main()
