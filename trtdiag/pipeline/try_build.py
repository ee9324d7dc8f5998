"""``analyze --try-build``: planned engines handed to the real builder, each in a process of its own.

Nothing is kept of an engine but its size: what counts is what the builder says.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from threading import Event, Timer

from trtdiag.analysis.result import Analysis
from trtdiag.analysis.tried_builds import Refusal, TriedBuilds, TriedEngine
from trtdiag.engine.backend import Backend, Profile, get_backend
from trtdiag.engine.build import Engine
from trtdiag.engine.build_watch import Watch
from trtdiag.engine.engine_bytes import Blob
from trtdiag.engine.isolated_builds import BUILDER_ENDED, isolated_builds
from trtdiag.engine.parallel_builds import engine_name
from trtdiag.engine.profiles import network_profile
from trtdiag.errors import EngineBuildError
from trtdiag.fixdims.child_process import Ended, no_child, run_in_child
from trtdiag.network import Network, canonical_hash
from trtdiag.options import CompileOptions, Progress
from trtdiag.partition.facts import EnginePlan
from trtdiag.pipeline.build_fallback import build_or_yield
from trtdiag.pipeline.plan_engines import convert_segments
from trtdiag.pipeline.state import State
from trtdiag.targets import Target
from trtdiag.timed_steps import timed
from trtdiag.wording import amount

BACKEND = "tensorrt-rtx"
"""The builder that needs no GPU."""
_MOST_NAMED = 2
"""GPU generations that a step names: the line of a bar has 80 columns."""


@dataclass(frozen=True)
class _Tried:
    """One build: its seconds, bytes and warnings, or the refusal."""

    seconds: float
    engine_bytes: int = 0
    warnings: tuple[str, ...] = ()
    error: EngineBuildError | None = None


class _TimeIsOverError(Exception):
    """All the time that trying to build may take is spent."""


def try_builds(
    facts: Analysis, plan: EnginePlan, gpus: Sequence[str], progress: Progress, limit_s: float
) -> TriedBuilds:
    """Build every planned engine with TensorRT-RTX, and look for another way where one is refused.

    Args:
        facts: What was planned.
        plan: Its engines, for TensorRT-RTX or for a TensorRT with the same builder.
        gpus: The GPU generations to build for; none: the usual ones of the release.
        progress: Called with what is being built.
        limit_s: What all of this may take, in seconds; what comes after that is told as not tried.

    Raises:
        PlatformError: TensorRT-RTX is not installed, or is another release than the plan is for.
    """
    backend = get_backend(BACKEND)
    backend.require(plan.target)
    release = backend.target(None)
    asked = backend.chosen_gpus(release, gpus)
    plan, converted = convert_segments(replace(plan, options=replace(plan.options, gpu=asked)))
    state = State(facts, plan, converted)
    with isolated_builds(backend, plan.options) as apart:
        builds = _Builds(apart, progress, limit_s)
        engines = tuple(builds.engine(index, one.network, state) for index, one in enumerate(converted))
        remedies: tuple[str, ...] = ()
        remedied, unsearched = not any(engine.untried for engine in engines), ""
        if any(engine.refusal is not None for engine in engines):
            try:
                remedies = build_or_yield(state, builds).notes
            except EngineBuildError:
                remedied = False
            except _TimeIsOverError:
                remedied, unsearched = False, builds.unsearched()
    by = backend.built_by().tensorrt
    return TriedBuilds(f"TensorRT-RTX {by}", plan.target.name, asked, engines, remedies, remedied, limit_s, unsearched)


class _Builds:
    """Builds of networks for one program; what was built once is not built again."""

    def __init__(self, backend: Backend, progress: Progress, limit_s: float) -> None:
        self._backend, self._progress = backend, progress
        self._limit_s, self._ends = limit_s, time.monotonic() + limit_s
        self._known: dict[tuple[str, tuple[str, ...]], _Tried] = {}
        self._search: _Search | None = None
        self._doing = ""

    def engine(self, index: int, network: Network, state: State) -> TriedEngine:
        """One engine for all generations at once; where that is refused for each alone, as long as there is time."""
        plan, asked = state.plan, state.plan.options.gpu
        layers = len(network.layers)
        alone: dict[str, _Tried] = {}
        self._doing = f"try build: {engine_name(index, len(state.converted))}"
        try:
            whole = self._tried(network, plan, asked)
        except _TimeIsOverError:
            return TriedEngine(index, layers, (), 0.0, None, untried=asked)
        if whole.error is None:
            return TriedEngine(index, layers, asked, whole.seconds, whole.engine_bytes, whole.warnings)
        with suppress(_TimeIsOverError):
            for gpu in asked if len(asked) > 1 else ():
                alone[gpu] = self._tried(network, plan, (gpu,))
        untried = tuple(gpu for gpu in asked if gpu not in alone) if len(asked) > 1 else ()
        built = {gpu: found for gpu, found in alone.items() if found.error is None}
        error = next((found.error for found in alone.values() if found.error is not None), whole.error)
        refused = tuple(gpu for gpu in asked if gpu not in (*built, *untried))
        refusal = Refusal(refused or asked, error.message, error.because, error.fix, _node(error, network))
        warnings = dict.fromkeys(text for found in built.values() for text in found.warnings)
        size = sum(found.engine_bytes for found in built.values()) if built else None
        seconds = sum(found.seconds for found in built.values())
        return TriedEngine(index, layers, tuple(built), seconds, size, tuple(warnings), refusal, untried)

    def all(self, state: State) -> tuple[Engine, ...]:
        """Build what was not built yet; nothing is handed out.

        Raises:
            EngineBuildError: The first refusal.
        """
        for index, one in enumerate(state.converted):
            self._doing = f"try build another way: {engine_name(index, len(state.converted))}"
            found = self._tried(one.network, state.plan, state.plan.options.gpu)
            if found.error is not None:
                found.error.engine = index
                self._search = _Search(index, one.network, refused=len(one.network.layers))
                raise found.error
        return ()

    def part(self, state: State, network: Network) -> None:
        """Build a part of a network that was refused.

        Raises:
            EngineBuildError: It is refused, too.
        """
        self._doing = "search for the op at fault"
        found = self._tried(network, state.plan, state.plan.options.gpu)
        if self._search is not None:
            self._search.saw(len(network.layers), refused=found.error is not None)
        if found.error is not None:
            raise found.error

    def unsearched(self) -> str:
        """What the search for the op at fault had not looked through when the time was over."""
        assert self._search is not None  # an engine was refused
        told = f"{self._limit_s:,g} s (--build-limit) were over before the op at fault was found"
        return f"{told}: {self._search.left()}"

    def _tried(self, network: Network, plan: EnginePlan, gpus: tuple[str, ...]) -> _Tried:
        key = canonical_hash(network), gpus
        if key not in self._known:
            left_s = self._ends - time.monotonic()
            if left_s <= 0:
                raise _TimeIsOverError
            profile = network_profile(network, plan.sizes.opt)
            options = replace(plan.options, gpu=gpus, engine_cache=None)
            wanted = f"{len(gpus)} GPU generations" if len(gpus) > _MOST_NAMED else ", ".join(gpus)
            self._progress(f"{self._doing}, {amount(len(network.layers), 'layer')} for {wanted}")
            with timed("build", self._doing, layers=len(network.layers), gpus=", ".join(gpus)):
                ended = _apart(self._backend, (network, profile, options, plan.target), left_s)
            if ended.timed_out:
                raise _TimeIsOverError
            self._known[key] = ended.value or _Tried(0.0, error=_died(ended.failure))
        return self._known[key]


@dataclass
class _Search:
    """How far the search for the op at fault is: of a refused engine the first ``built`` layers are not refused.

    Attributes:
        index: Which engine.
        network: Its network.
        refused: With so many of its first layers it is.
        built: So many of its first layers were built.
    """

    index: int
    network: Network
    refused: int
    built: int = 0

    def saw(self, layers: int, *, refused: bool) -> None:
        """Take in what became of the first so many layers."""
        if refused:
            self.refused = min(self.refused, layers)
        elif layers < self.refused:
            self.built = max(self.built, layers)

    def left(self) -> str:
        """Which layers may hold the op."""
        first, last = self.network.layers[min(self.built, self.refused - 1)], self.network.layers[self.refused - 1]
        where = f"layers {self.built + 1:,} to {self.refused:,} of {len(self.network.layers):,}"
        return (
            f"engine {self.index} is refused somewhere in its {where}, from {self.network.describe(first)} to"
            f" {self.network.describe(last)}"
        )


_Asked = tuple[Network, Profile, CompileOptions, Target]


def _apart(backend: Backend, asked: _Asked, limit_s: float) -> Ended[_Tried]:
    """Build in a process of its own: in a fork, which imports nothing, where CUDA is not in use."""
    builders = getattr(backend, "builders", None)
    if builders is None or not no_child():
        return run_in_child(partial(_built, backend.build, asked, Watch()), limit_s)
    over = Event()
    limit = Timer(limit_s, over.set)
    limit.start()
    try:
        found = _built(builders.build, asked, Watch(stop=over))
    finally:
        limit.cancel()
    timed_out = found.error is not None and found.error.reference == "build-stopped"
    return Ended(found, timed_out=timed_out)


def _built(build: Callable[..., Blob], asked: _Asked, watch: Watch) -> _Tried:
    began = time.perf_counter()
    try:
        blob = build(*asked, watch)
    except EngineBuildError as error:
        return _Tried(time.perf_counter() - began, error=error)
    return _Tried(time.perf_counter() - began, len(blob), tuple(dict.fromkeys(watch.warnings)))


def _died(why: str) -> EngineBuildError:
    return EngineBuildError(
        f"the builder did not end in order: {why}",
        because=why,
        fix="leave ops to PyTorch (keep_in_torch) until it does, and report it to NVIDIA with the network",
        reference=BUILDER_ENDED,
    )


def _node(error: EngineBuildError, network: Network) -> str | None:
    """The op that a refusal names: of a stretch the last."""
    if error.without_kernel:
        return error.without_kernel[-1]
    named = [placed.origin.node for placed in network.layers if f"({placed.origin.node})" in error.message]
    return named[0] if named else None
