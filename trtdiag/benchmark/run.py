"""Times ways to run a program at given sizes, and asks loaded engines what PyTorch does not count."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from trtdiag.benchmark.clock import Call, Timed, error_text, peak_bytes, spread, take_turns, wait
from trtdiag.benchmark.facts import AS_EXPORTED, SizeResult, WayResult
from trtdiag.benchmark.original import Original
from trtdiag.benchmark.ways import Ready
from trtdiag.engine.backend import Runner
from trtdiag.graph.pytree import leaves_of
from trtdiag.options import Precision
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.runtime.engine_cache import CACHE
from trtdiag.runtime.engine_nodes import engine_nodes
from trtdiag.symbolic.size_names import named_sizes
from trtdiag.wording import dtype_text

_COMPUTES = {Precision.KEEP: AS_EXPORTED, Precision.FP16: "float16", Precision.BF16: "bfloat16", Precision.INT8: "int8"}


@dataclass
class Way:
    """A way with what is known of it: ready, or why not."""

    name: str
    ready: Ready | None = None
    failed: str = ""


def timed_at(label: str, point: Mapping[str, int], there: Original, ways: Sequence[Way], rounds: int) -> SizeResult:
    """Every way at one set of sizes, the compiled program first."""
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
                failed[way.name] = error_text(error)
        timed = take_turns(calls, rounds, there.device)
    rows = [
        _row(way, timed[way.name], first_s[way.name], memory[way.name])
        if way.name in timed
        else WayResult(way.name, failed=failed[way.name])
        for way in ways
    ]
    inputs = zip(there.program.inputs, leaves_of((args, kwargs)), strict=True)
    words = tuple(_tensor_words(tensor.name, value) for tensor, value in inputs)
    sizes = named_sizes(point, there.program.words)
    base = rows[0].ms
    if base is not None:
        rows = [row if row.ms is None else replace(row, ratio=row.ms.median / base.median) for row in rows]
    return SizeResult(label, sizes, words, tuple(rows))


def _tensor_words(name: str, value: Any) -> str:
    """A tensor as ``x float32 (2, 3)``, anything else as ``n=5``."""
    is_tensor = isinstance(value, torch.Tensor)
    return f"{name} {dtype_text(value.dtype)} {tuple(value.shape)}" if is_tensor else f"{name}={value}"


def _row(way: Way, timed: Timed, first_s: float, memory: int | None) -> WayResult:
    assert way.ready is not None
    found = spread(timed.row)
    if timed.failed or found is None:
        return WayResult(way.name, way.ready.computes, failed=timed.failed or "it was not run")
    build_s = first_s if way.ready.build_is_first_call else way.ready.build_s
    alone, per_s = spread(timed.alone), len(timed.row) / timed.wall_s
    return WayResult(way.name, way.ready.computes, found, alone, per_s, build_s=build_s, bytes=memory)


def of_program(compiled: CompiledProgram) -> Ready:
    """A compiled program as a way."""
    precision = Precision.KEEP if compiled.options is None else compiled.options.precision

    def bind(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        return lambda: compiled(*args, **kwargs)

    return Ready(bind, _COMPUTES[precision], compiled.build_s, bytes=engines_bytes(compiled))


def engines_bytes(compiled: CompiledProgram) -> int | None:
    """Return the scratch memory of a program's engines; ``None`` where one does not say.

    They share the memory of the one that needs most; it is there before a call that is not the first.
    """
    runners = list(_runners(compiled))
    known: list[int] = [runner.scratch_bytes for runner in runners if hasattr(runner, "scratch_bytes")]
    return max(known, default=0) if len(known) == len(runners) else None


def unrecordable(compiled: CompiledProgram) -> str:
    """Return why none of a program's engines can be recorded as a CUDA graph; empty where one can."""
    found = [str(getattr(runner, "unrecordable", "it is no engine of TensorRT")) for runner in _runners(compiled)]
    return found[0] if found and all(found) else ""


def _runners(compiled: CompiledProgram) -> Iterator[Runner]:
    for node in engine_nodes(compiled.exported_program):
        yield CACHE.get(node.manifest, node.engine)
