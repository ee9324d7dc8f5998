"""Static answers beside the real builder's: every call of ``tests/convert`` as a network, built for every generation.

    python benchmarks/real_builder_calls.py --calls calls.pt --most 1      one of each op, dtype and kind of sizes
    python benchmarks/real_builder_calls.py --calls calls.pt               every call; those that have rows are kept
    python benchmarks/real_builder_calls.py --calls calls.pt --only 'matmul|conv' --again        these once more

Needs ``tensorrt-rtx`` and no GPU; nothing is run.  A call that the target converts for all GPU generations at once is
built for all of them at once; where that is refused, and where the target converts it for some only, for each
generation.  Where the target refuses what its TensorRT of the same builder (11.4, 10.16) converts, that network is
handed to the builder, which may build what we refuse.  Calls that neither converts have no network and are counted
apart.  Sizes are those that the tests compare.  The calls are those of ``benchmarks/gpu/converters.py``.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks" / "gpu"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from builder_answers import Answers, Networks, answered, kept_rows, key_of, serve, shown, written
from converters import Call, collected, in_turn

from trtdiag.errors import TrtdiagError
from trtdiag.targets import Target, get_rtx_target, installed_rtx_version

RESULTS = Path(__file__).with_name("results")


def networks_of(call: Call) -> Networks:
    """The network of a call for a target."""
    from converters_worker import dtypes_of

    from tests.convert import op_check
    from tests.convert.on_backend import profile_of
    from tests.convert.op_samples import overload

    op = overload(call["op"])
    assert op is not None

    def network(target: Target) -> Any:
        lacking = dtypes_of((call["args"], call["kwargs"])) - {*target.dtypes, "int64", "float64"}
        if lacking:
            return f"dtype: no {', '.join(sorted(lacking))}"
        op_check.GREATEST = call["greatest"]
        kept: list[Any] = []

        def keep(converted: Any, compared: Any) -> None:
            kept.append((converted.network, profile_of(converted.network, [one.inputs for one in compared])))

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

    return network


def _anything(expected: torch.Tensor, actual: torch.Tensor) -> None:
    """The tests compared the results; here they only say which sizes there are."""
    del expected, actual


def distinct(calls: list[Call]) -> list[Call]:
    """Each call once, though several test files check it."""
    return list({call["text"]: call for call in reversed(calls)}.values())[::-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="regular expression of the ops")
    parser.add_argument("--most", type=int, default=10_000, help="calls of each op, dtype and kind of sizes")
    parser.add_argument("--again", action="store_true", help="hand calls over that have rows, too")
    parser.add_argument("--limit-s", type=float, default=36_000, help="begin no call after that, collecting apart")
    parser.add_argument("--calls", type=Path, help="where the calls of the tests are, or are kept")
    parser.add_argument("--json", type=Path, help="default: results/rtx-calls-VERSION.json")
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
        calls = distinct(collected(1, "", asked.log))
        if asked.calls is not None:
            torch.save(calls, asked.calls)
    by_key = {key_of(call["text"]): call for call in calls}
    chosen = [call for call in calls if re.search(asked.only, call["op"])]
    keys = [key_of(chosen[number]["text"]) for number in in_turn(chosen, asked.most)]
    version = (installed_rtx_version() or "").rpartition(".")[0]
    path = asked.json or RESULTS / f"rtx-calls-{version}.json"
    rows_file, begun = path.with_suffix(".rows.jsonl"), time.monotonic()
    with TemporaryDirectory() as folder:
        held = Path(folder) / "calls.pt"
        torch.save(by_key, held)
        command = [sys.executable, __file__, "--answer", str(held)]
        answered(command, keys, keys if asked.again else (), rows_file, asked.limit_s, asked.log)
    kept = kept_rows(rows_file)  # of earlier runs, too
    rows = [{**row, "call": by_key[key]["text"][:200]} for key, row in kept.items() if key in by_key]
    shown(rows, get_rtx_target(None).gpus)
    first = {key_of(calls[number]["text"]) for number in in_turn(calls, 1)}
    more = {
        "calls": len(by_key),
        "of_each": len(first),
        "asked": len(rows),
        "asked_of_each": sum(row["key"] in first for row in rows),
        "command": f"benchmarks/real_builder_calls.py --most {asked.most}",
    }
    print(json.dumps(written(path, rows, more)), f"{time.monotonic() - begun:.0f} s")


def answer(calls: dict[str, Call]) -> None:
    """Rows for the keys of calls that come in."""
    logging.getLogger("torch").setLevel(logging.CRITICAL)
    torch.set_num_threads(1)
    answers = Answers()
    serve(lambda key: answers.row(networks_of(calls[key])))


if __name__ == "__main__":
    main()
