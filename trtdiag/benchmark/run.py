"""Times a compiled program and its peers at given sizes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from trtdiag.arguments import checked, function, optional, path_or, sizes_by_name, whole, words, wrong
from trtdiag.artifact.load import load
from trtdiag.benchmark.clock import Call, Timed, first_line, peak_bytes, spread, take_turns, wait
from trtdiag.benchmark.facts import OURS, Benchmark, SizeResult, WayResult
from trtdiag.benchmark.memory import engines_bytes
from trtdiag.benchmark.original import ENDS, Original, original
from trtdiag.benchmark.ways import Ready, preparers
from trtdiag.benchmark.words import compiled_words, named_sizes, tensor_words
from trtdiag.frontend.capture import Source
from trtdiag.graph.trees import leaves_of
from trtdiag.options import CompileOptions
from trtdiag.pipeline.verify import original_of
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.runtime.compiled_device import compiled_device

ROUNDS = 8
"""Even, so that each way is as often early in a round as late."""
_NAME_IT = "name the original: trtdiag bench compiled.ep --model model.ep"
Sizes = str | Mapping[str, int]


@dataclass
class _Way:
    """A way with what is known of it: ready, or why not."""

    name: str
    ready: Ready | None = None
    failed: str = ""


def _asked_sizes(name: str, value: Any) -> Sizes | list[Sizes]:
    """An end of all ranges, sizes by the names of dims, or several of both."""
    if isinstance(value, (list, tuple)) and value:
        return [_asked_size(f"{name}[{index}]", each) for index, each in enumerate(value)]
    return _asked_size(name, value)


def _asked_size(name: str, value: Any) -> Sizes:
    if isinstance(value, Mapping):
        return dict(sizes_by_name(name, value))
    if isinstance(value, str) and value in ENDS:
        return value
    wanted = f"{', '.join(ENDS)}, sizes by the names of dims such as {{'batch': 4}}, or a list of those"
    raise wrong(name, value, wanted, "wrong-option")


@checked(
    compiled=path_or(CompiledProgram),
    against=words,
    sizes=_asked_sizes,
    rounds=whole(1),
    progress=optional(function),
)
def bench(
    compiled: str | os.PathLike[str] | CompiledProgram,
    against: str | Sequence[str] = ("eager",),
    *,
    model: Source | None = None,
    sizes: Sizes | Sequence[Sizes] = "opt",
    rounds: int = ROUNDS,
    progress: Callable[[str], None] | None = None,
) -> Benchmark:
    """Time a compiled program beside other ways to run its original: in turns, in one process, with warm caches.

    A way that cannot run here is a row that says why.

    Args:
        compiled: A file that ``save`` wrote, or the program itself.
        against: Names of ways: ``eager``, ``inductor``, ``onnx-trt``, ``cuda-graphs``.
        model: The original, as for ``verify``; the file that it was compiled from where it is not given.
        sizes: ``"min"``, ``"opt"``, ``"max"``, or sizes by the names of dims (the others are as for ``opt``); several.
        rounds: How often the ways take turns.
        progress: Called with each long step as it begins.

    Raises:
        ArtifactError: The file is damaged, foreign, or its engines cannot run here.
        DimsError: Sizes that the program does not take.
        BeyondTensorsError: A call of the original would reach beyond its tensors at sizes that are timed.
        UserError: ``verify-without-original``, ``unknown-way``, ``wrong-option``, ``wrong-argument``.
    """
    step = progress or (lambda _step: None)
    wanted = preparers((against,) if isinstance(against, str) else tuple(against))
    asked = [sizes] if isinstance(sizes, (str, Mapping)) else list(sizes)
    step("load")
    program = compiled if isinstance(compiled, CompiledProgram) else load(compiled)
    options = program.options or CompileOptions()
    source = original_of(program, model, _NAME_IT)
    step("capture the original")
    device = compiled_device(program.exported_program) or torch.device("cpu")
    there = original(source, device, options)
    points = [there.sizes(each if isinstance(each, str) else tuple(each.items())) for each in asked]
    there.check_reach([there.sizes("opt"), *points])
    ways = [_Way(OURS, _ours(program))]
    for name, prepare in wanted.items():
        step(f"prepare {name}")
        try:
            ways.append(_Way(name, prepare(there, program)))
        except Exception as error:  # a peer may fail with whatever it likes; it is a row then
            ways.append(_Way(name, failed=first_line(error)))
    results = []
    for each, point in zip(asked, points, strict=True):
        label = each if isinstance(each, str) else ", ".join(f"{name}={size}" for name, size in each.items())
        step(f"time at {label}")
        results.append(_at(label, point, there, ways, rounds))
    manifests = program.manifests
    return Benchmark(
        device=_device_words(there.device),
        backend=manifests[0].backend if manifests else "none",
        tensorrt=manifests[0].tensorrt if manifests else None,
        torch=torch.__version__,
        precision=options.precision.value,
        rounds=rounds,
        networks=tuple(manifest.network_hash for manifest in manifests),
        results=tuple(results),
    )


def _at(label: str, point: Mapping[str, int], there: Original, ways: Sequence[_Way], rounds: int) -> SizeResult:
    args, kwargs = there.inputs(point)
    calls: dict[str, Call] = {}
    first_s: dict[str, float] = {}
    memory: dict[str, int | None] = {}
    failed = {way.name: way.failed for way in ways}
    with torch.no_grad():
        for way in ways:
            if way.ready is None:
                continue
            try:
                call = way.ready.bind(args, kwargs)
                wait(there.device)
                begun = time.perf_counter()
                call()
                wait(there.device)
                first_s[way.name] = time.perf_counter() - begun
                call()  # what is made at the second call is no part of a call either
                counted = peak_bytes(call, there.device)
                own = way.ready.bytes
                memory[way.name] = None if counted is None or own is None else counted + own
                calls[way.name] = call
            except Exception as error:  # as above
                failed[way.name] = first_line(error)
        timed = take_turns(calls, rounds, there.device)
    rows = [
        _row(way, timed[way.name], first_s[way.name], memory[way.name])
        if way.name in timed
        else WayResult(way.name, failed=failed[way.name])
        for way in ways
    ]
    inputs = zip(there.program.inputs, leaves_of((args, kwargs)), strict=True)
    words = tuple(tensor_words(tensor.name, value) for tensor, value in inputs)
    return SizeResult(label, named_sizes(there.program, point), words, _with_ratios(rows))


def _row(way: _Way, timed: Timed, first_s: float, memory: int | None) -> WayResult:
    assert way.ready is not None
    found = spread(timed.row)
    if timed.failed or found is None:
        return WayResult(way.name, way.ready.computes, failed=timed.failed or "it was not run")
    return WayResult(
        way.name,
        way.ready.computes,
        found,
        spread(timed.alone),
        len(timed.row) / timed.wall_s,
        build_s=first_s if way.ready.build_is_first_call else way.ready.build_s,
        bytes=memory,
    )


def _with_ratios(rows: Sequence[WayResult]) -> tuple[WayResult, ...]:
    base = rows[0].ms
    if base is None:
        return tuple(rows)
    return tuple(row if row.ms is None else replace(row, ratio=row.ms.median / base.median) for row in rows)


def _ours(compiled: CompiledProgram) -> Ready:
    def bind(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        return lambda: compiled(*args, **kwargs)

    return Ready(bind, compiled_words(compiled), build_s=compiled.build_s, bytes=engines_bytes(compiled))


def _device_words(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
