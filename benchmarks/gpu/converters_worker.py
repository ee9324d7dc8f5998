"""A process of ``benchmarks/gpu/converters.py``: collects calls of the tests, or runs the keys that it reads."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
# pytest imports a test file by its name alone; its comparisons are found there again.
sys.path.append(str(Path(__file__).resolve().parents[2] / "tests" / "convert"))

import torch
import without_expecttest  # noqa: F401  # before the samples
from torch.utils import _pytree as pytree
from worker_ready import say_ready

from tests.convert import op_check
from tests.convert.on_backend import Beside
from tests.convert.op_samples import Sample, overload
from trtdiag.errors import EngineBuildError, TrtdiagError
from trtdiag.graph.operators import target_name
from trtdiag.options import CompileOptions
from trtdiag.targets import get_target

torch.set_num_threads(1)
ROOT = Path(__file__).resolve().parents[2]
_OPTIONS = ("dynamic", "constants", "read", "shared")
_MOST_ELEMENTS = 1 << 18
"""Own choice: calls with more are there to meet a limit."""


def collect(tests: Sequence[str], to: Path) -> None:
    """Run the tests of some files, and keep every distinct call that they check.

    First no call is checked, which takes most of the time; the tests that fail without what a check gives, and so may
    not reach their other calls, run again with it.
    """
    import pytest

    checked = op_check.check_op
    calls: dict[str, dict[str, Any]] = {}
    failed: list[str] = []
    checks = False

    def recording(op: Any, args: Any, kwargs: Any = None, **options: Any) -> Any:
        kept = {name: options[name] for name in _OPTIONS if options.get(name)}
        key = f"{Sample(op, tuple(args), dict(kwargs or {}))} {kept}"
        if key not in calls and _elements((args, kwargs)) <= _MOST_ELEMENTS:
            calls[key] = {
                "op": target_name(op),
                "args": _copied(tuple(args)),
                "kwargs": _copied(dict(kwargs or {})),
                "options": kept,
                "greatest": op_check.GREATEST,
                "text": key,
                **_comparison(options.get("compare")),
            }
        return checked(op, args, kwargs, **options) if checks else op_check.Outcome({}, None, _AnyNumber())

    class Failed:
        def pytest_runtest_logreport(self, report: Any) -> None:
            if report.failed:
                failed.append(report.nodeid)

    op_check.check_op = recording
    from tests.convert import family_samples  # it takes the recording one

    whole = family_samples.converted

    def converted(name: str, *args: Any, **options: Any) -> int:
        if checks:
            return whole(name, *args, **options)
        options.pop("refused", None)  # whether it is, only a check says
        return whole(name, *args, **options)

    family_samples.converted = converted
    options = ["-q", "-m", "not slow and not gpu", "-p", "no:cacheprovider", "-p", "no:randomly"]
    pytest.main([*(str(ROOT / test) for test in tests), *options], plugins=[Failed()])
    if failed:
        checks = True
        pytest.main([*dict.fromkeys(str(ROOT / nodeid) for nodeid in failed), *options])
    torch.save(list(calls.values()), to)


class _AnyNumber(int):
    """As many as a test expects."""

    def __eq__(self, other: object) -> bool:
        return True

    __gt__ = __ge__ = __lt__ = __le__ = __eq__
    __hash__ = int.__hash__


def _copied(value: Any) -> Any:
    """Without the rest of the memory that a part of a tensor keeps."""
    return pytree.tree_map(lambda leaf: leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf, value)


def _elements(value: Any) -> int:
    return sum(leaf.numel() for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor))


def _comparison(compare: Any) -> dict[str, Any]:
    """What can be kept of a comparison: its parts of the greatest element, or where the function is."""
    if compare is None or hasattr(compare, "limits") or "<locals>" in compare.__qualname__:
        return {"near": getattr(compare, "limits", {})}
    return {"compare": (compare.__module__, compare.__qualname__)}


def done(call: dict[str, Any], options: CompileOptions) -> dict[str, Any]:
    """One row."""
    # The type plan keeps these away from converters; a check of one op has no plan.
    lacking = dtypes_of((call["args"], call["kwargs"])) - {*get_target(options.target).dtypes, "int64", "float64"}
    if lacking:
        return {"state": "limit", "note": f"TensorRT {options.target} has no {', '.join(sorted(lacking))}"}
    op_check.GREATEST = call["greatest"]
    beside = Beside(options, call.get("near", {}))
    try:
        if "compare" in call:
            module, name = call["compare"]
            beside.compare = getattr(import_module(module), name)
        op = overload(call["op"])
        assert op is not None
        outcome = op_check.check_op(
            op, call["args"], call["kwargs"], target=options.target, compare=_anything, also=beside, **call["options"]
        )
    except EngineBuildError as error:
        return {"state": "refused", "note": str(error)[:1500]}
    except TrtdiagError as error:
        return {"state": "error", "note": str(error)[:1500]}
    except Exception as error:  # one case must not end the others
        where = traceback.format_exc().strip().splitlines()[-7:]
        untraced = isinstance(error, RuntimeError) and not any("trtdiag/" in line for line in where)
        state = "untraced" if untraced else "error"
        return {"state": state, "note": f"{type(error).__name__}: {error}"[:800], "where": where}
    if outcome.limits:
        return {"state": "limit", "note": "; ".join(f"{lim.code}: {lim.why}" for lim in outcome.limits.values())[:400]}
    return {
        "state": "ok" if beside.agrees else "differs",
        "worst": beside.worst,
        "wrong": beside.wrong,
        "points": beside.points,
        "build_s": round(beside.build_s, 2),
        "note": "; ".join(beside.notes[:3])[:600],
    }


def dtypes_of(value: Any) -> set[str]:
    """The dtypes of tensors, and those that are asked for."""
    found = [leaf.dtype if isinstance(leaf, torch.Tensor) else leaf for leaf in pytree.tree_leaves(value)]
    return {str(dtype).removeprefix("torch.") for dtype in found if isinstance(dtype, torch.dtype)}


def _anything(expected: torch.Tensor, actual: torch.Tensor) -> None:
    """The reference was compared by the tests; here it only says which sizes can run."""


def answer(calls: list[dict[str, Any]], options: CompileOptions) -> None:
    """A row for each key that comes in: the number of a call."""
    out = sys.stdout
    sys.stdout = sys.stderr  # what libraries print is no row
    say_ready(out, options)
    for line in sys.stdin:
        number = int(line)
        call = calls[number]
        print(json.dumps({"begin": number}), file=out, flush=True)
        row = {"key": str(number), "op": call["op"], "call": call["text"][:300], **done(call, options)}
        print(json.dumps(row), file=out, flush=True)


if __name__ == "__main__":
    logging.getLogger("torch").setLevel(logging.CRITICAL)  # it logs what it cannot trace before it raises
    if sys.argv[1] == "collect":
        collect(sys.argv[2:-1], Path(sys.argv[-1]))
    else:
        backend, target, level, held = sys.argv[2:6]
        answer(torch.load(held, weights_only=False), CompileOptions(target, backend, optimization_level=int(level)))
