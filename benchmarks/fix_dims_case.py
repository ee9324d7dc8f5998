"""One live case for benchmarks/fix_dims.py: torch's own loop and trtdiag in one process, each judged alike.

python benchmarks/fix_dims_case.py NAME trtdiag-first|torch-first JUDGE_S PROGRAMS   prints one line of JSON
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.exc import UserError, UserErrorType
from torch.export import ExportedProgram
from torch.export.dynamic_shapes import refine_dynamic_shapes_from_suggested_fixes

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import trtdiag
from tests.guards import cases
from tests.harness.admitted import Ask, Asked, admitted, asked_dims
from tests.harness.real_runs import judge_on_data
from tests.harness.soundness import judge

TORCH_ROUNDS = 5
MESSAGE = 300


@dataclass
class Side:
    """What one side came to.

    Attributes:
        ends: ``works``, or in a few words why not.
        seconds: Until the exported program was at hand, or the side gave up.
        sound: Whether the program takes every asked size that it admits; ``None`` where there is none.
        refusal: The first admitted size that it refuses, and the words.
        kept: Asked name -> how many of the asked sizes it admits.
        joint: How many combinations of asked sizes it admits: the axes' counts, multiplied.
        tried: At how many points its guards were evaluated, at how many it ran on shapes, at how many on real tensors.
        excluded: Points that say nothing about sizes.
        detail: More that the side has to say.
    """

    ends: str
    seconds: float = 0.0
    sound: bool | None = None
    refusal: str = ""
    kept: dict[str, int] = field(default_factory=dict)
    joint: int = 0
    tried: tuple[int, int, int] = (0, 0, 0)
    excluded: int = 0
    unfinished: bool = False
    detail: dict[str, Any] = field(default_factory=dict)


def torch_side(ask: Ask, asked: Sequence[Asked], judge_s: float) -> Side:
    """Export, take torch's suggestion, export again: as its documentation shows."""
    began, shapes = time.perf_counter(), ask.dynamic_shapes
    ends, program, rounds = "", None, 0
    for _ in range(TORCH_ROUNDS + 1):
        try:
            program = torch.export.export(ask.model, ask.args, dict(ask.kwargs) or None, dynamic_shapes=shapes)
            ends = "works"
            break
        except UserError as error:
            if error.error_type is not UserErrorType.CONSTRAINT_VIOLATION:
                ends = f"{error.error_type.name.lower()}: {error.msg}"
                break
            if "Suggested fixes:" not in error.msg:
                ends = "no suggestion"
                break
            try:
                shapes = refine_dynamic_shapes_from_suggested_fixes(error.msg, shapes)
            except Exception as refused:  # whatever it raises is how it ends
                ends = f"its suggestion is refused: {type(refused).__name__}: {refused}"
                break
            rounds += 1
        except Exception as error:  # torch's solver raises anything
            ends = f"{'its suggestion' if rounds else 'export'} raises {type(error).__name__}: {error}"
            break
    seconds = time.perf_counter() - began
    side = Side((ends or f"no end after {TORCH_ROUNDS} rounds")[:MESSAGE], seconds, detail={"rounds": rounds})
    if program is not None:
        judged(side, program, Ask(ask.model, ask.args, ask.kwargs, shapes), asked, judge_s)
    return side


def trtdiag_side(ask: Ask, asked: Sequence[Asked], judge_s: float) -> Side:
    """``fix_dims``, then the program exported with its suggestion."""
    began = time.perf_counter()
    try:
        fix = trtdiag.fix_dims((ask.model, ask.args, dict(ask.kwargs), ask.dynamic_shapes))
    except Exception as error:  # a crash is a result of this benchmark
        return Side(f"raises {type(error).__name__}: {error}"[:MESSAGE], time.perf_counter() - began)
    side = Side(fix.outcome.value, detail={"proven": fix.proven, "proof": fix.proof.kind.value, "code": fix.code})
    side.detail["confirmed"], side.detail["rounds"] = fix.confirmation.exported, fix.confirmation.rounds
    side.detail["note"] = " | ".join(filter(None, (fix.confirmation.note, *fix.notes, fix.failure)))[:MESSAGE]
    side.detail["conflicts"] = len(fix.conflicts)
    several = fix.several
    side.detail["several"] = None if several is None else {"programs": len(several.programs), "kept": several.kept}
    side.detail["checks"] = [check.code for check in fix.checks]
    side.detail["search_s"] = time.perf_counter() - began
    if fix.outcome.value == "impossible":
        side.seconds = time.perf_counter() - began
        return side
    try:
        program = fix.program
    except Exception as error:  # a suggestion that fails is what must never be
        side.ends = f"suggestion fails on export: {type(error).__name__}: {error}"[:MESSAGE]
        side.seconds = time.perf_counter() - began
        return side
    side.ends, side.seconds = "works", time.perf_counter() - began
    side.detail["outcome"] = fix.outcome.value
    judged(side, program, Ask(ask.model, fix.args or ask.args, fix.kwargs or {}, fix.dynamic_shapes), asked, judge_s)
    return side


def exported_programs(name: str, most: int, judge_s: float) -> dict[str, Any]:
    """At most ``most`` programs, each exported and judged like a single one, and what they take together."""
    ask = Ask(*cases.build(name))
    asked = asked_dims(ask)
    began = time.perf_counter()
    try:
        found = trtdiag.fix_dims((ask.model, ask.args, dict(ask.kwargs), ask.dynamic_shapes), programs=most).several
        if found is None:
            return {"programs": 1, "kept": None, "sound": None, "seconds": time.perf_counter() - began}
        sides = [Side("works") for _ in found.programs]
        for side, one in zip(sides, found.programs, strict=True):
            declared = Ask(ask.model, one.args or ask.args, one.kwargs or {}, one.dynamic_shapes)
            judged(side, one.program, declared, asked, judge_s)
    except Exception as error:  # a crash, or a program that is offered as exported and does not export
        return {"programs": 0, "kept": None, "sound": False, "refusal": f"{type(error).__name__}: {error}"[:MESSAGE]}
    return {
        "programs": len(found.programs),
        "kept": found.kept,
        "sound": all(side.sound for side in sides),
        "refusal": next((side.refusal for side in sides if side.refusal), ""),
        "seconds": time.perf_counter() - began,
    }


def judged(side: Side, program: ExportedProgram, ask: Ask, asked: Sequence[Asked], judge_s: float) -> None:
    """Fill in what the judge says of an export."""
    found = judge(program, ask, asked, limit_s=judge_s)
    of = admitted(program, ask, asked)
    real = judge_on_data(program, ask, asked=asked, limit_s=judge_s)
    side.sound, side.excluded = found.sound and not real.failures, len(found.excluded) + len(real.of_data)
    side.tried, side.unfinished = (found.guarded, found.points, real.points), found.unfinished or real.unfinished
    failures = [*found.failures, *real.failures]
    if failures:
        side.refusal = f"{len(failures)} points, as {failures[0].point}: {failures[0].message}"[:MESSAGE]
    side.kept = {}
    for one in asked:
        count = len(of.kept(one))
        side.kept[one.name] = min(count, side.kept.get(one.name, count))
    side.joint = of.combinations()


def timed_alike(
    sides: Sequence[Callable[[Ask, Sequence[Asked], float], Side]], name: str, judge_s: float
) -> dict[str, Side]:
    """Both sides on one case, each with a model of its own, after a small one has warmed both."""
    pairs = Ask(torch.nn.Unflatten(1, (-1, 2)), (torch.ones(3, 8),), {}, ({1: torch.export.Dim("n", min=2, max=64)},))
    found = {}
    for side in sides:
        side(pairs, asked_dims(pairs), judge_s)
    for side in sides:
        ask = Ask(*cases.build(name))
        found[side.__name__.removesuffix("_side")] = side(ask, asked_dims(ask), judge_s)
    return found


def main(arguments: list[str]) -> None:
    """One case to one line of JSON."""
    name, order, judge_s, programs = arguments
    warnings.filterwarnings("ignore")
    logging.disable(logging.ERROR)
    torch.set_num_threads(1)
    sides = (trtdiag_side, torch_side) if order == "trtdiag-first" else (torch_side, trtdiag_side)
    quiet = io.StringIO()
    with contextlib.redirect_stdout(quiet):
        try:
            found = timed_alike(sides, name, float(judge_s))
        except ModuleNotFoundError as error:
            answer: dict[str, Any] = {"case": name, "missing": error.name}
        else:
            asked = {one.name: one.high - one.low + 1 for one in asked_dims(Ask(*cases.build(name)))}
            answer = {"case": name, "asked": asked, **{key: asdict(side) for key, side in found.items()}}
            if int(programs) > 1 and found["trtdiag"].detail.get("several"):
                answer["several"] = exported_programs(name, int(programs), float(judge_s))
    print(json.dumps(answer))


if __name__ == "__main__":
    main(sys.argv[1:])
