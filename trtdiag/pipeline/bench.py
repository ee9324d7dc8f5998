"""``bench``: a compiled program timed beside other ways to run its original."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from trtdiag.arguments import checked, function, optional, path_or, sizes_by_name, whole, words, wrong
from trtdiag.artifact.load import load
from trtdiag.benchmark.clock import error_text
from trtdiag.benchmark.facts import Benchmark
from trtdiag.benchmark.original import ENDS, original
from trtdiag.benchmark.run import Way, of_program, timed_at
from trtdiag.benchmark.ways import preparers
from trtdiag.frontend.capture import Source
from trtdiag.frontend.fake_run import put_back
from trtdiag.options import CompileOptions
from trtdiag.pipeline.stages import Clock
from trtdiag.pipeline.verify import original_of
from trtdiag.report.comparison import OURS
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.runtime.compiled_device import compiled_device

ROUNDS = 8
"""Even, so that each way is as often early in a round as late."""
_NAME_IT = "name the original: trtdiag bench compiled.pt2 --model model.pt2"
Sizes = str | Mapping[str, int]


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
    step = Clock(progress).progress
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
    ways = [Way(OURS, of_program(program))]
    for name, prepare in wanted.items():
        step(f"prepare {name}")
        try:
            ways.append(Way(name, prepare(there, program)))
        except Exception as error:  # a peer may fail with whatever it likes; it is a row then
            ways.append(Way(name, failed=error_text(error)))
    results = []
    for each, point in zip(asked, points, strict=True):
        label = each if isinstance(each, str) else ", ".join(f"{name}={size}" for name, size in each.items())
        step(f"time at {label}")
        with put_back([*program.state(), *there.module.buffers()]):  # both may be the caller's
            results.append(timed_at(label, point, there, ways, rounds))
    manifests = program.manifests
    return Benchmark(
        device=torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        backend=manifests[0].backend if manifests else "none",
        tensorrt=manifests[0].tensorrt if manifests else None,
        torch=torch.__version__,
        precision=options.precision.value,
        rounds=rounds,
        networks=tuple(manifest.network_hash for manifest in manifests),
        results=tuple(results),
    )
