"""Engines that are loaded take other weights where they are, unless something else may run them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from host_engine import CPU, HostGpu, RowSums, manifest
from torch import nn

import trtdiag
from trtdiag.engine import reference
from trtdiag.engine.backend import Loaded
from trtdiag.engine.cuda_graph_choice import GraphChoice, choosing_graphs
from trtdiag.engine.engine_bytes import Blob
from trtdiag.engine.manifest import Manifest
from trtdiag.engine.saved_engines import built_here
from trtdiag.engine.tensorrt.backend import TensorRTBackend
from trtdiag.engine.tensorrt.lazy_import import InstalledTensorRT
from trtdiag.engine.tensorrt.refit import named_constants
from trtdiag.engine.tensorrt.runner import EngineRunner, LoadedEngine
from trtdiag.errors import ArtifactError
from trtdiag.network import DType, Network, NetworkBuilder, Origin
from trtdiag.network.layers.elementwise import ElementWise, ElementWiseOperation
from trtdiag.runtime.engine_cache import CACHE, EngineCache
from trtdiag.symbolic import Range, symbol
from trtdiag.targets import get_target

VERSIONS = ["8.6", "10.16", "11.4"]


class Holder:
    """A program that has an engine."""


@dataclass
class Given:
    """The stand-in's engine, as it is put into a cache."""

    engine: RowSums
    device: torch.device = CPU

    def runner(self, _: Manifest) -> EngineRunner:
        return self.engine.runner(HostGpu())


def _kept(version: str, holders: int = 1) -> tuple[EngineCache, RowSums, list[Holder]]:
    """A cache with one engine that programs hold."""
    cache, engine, programs = EngineCache(), RowSums(version), [Holder() for _ in range(holders)]
    for program in programs:
        cache.hold([manifest()], program)
    cache.put(manifest(), Given(engine))
    return cache, engine, programs


def _run(cache: EngineCache, engine: RowSums, rows: int, graphs: GraphChoice | None = None) -> Any:
    runner: Any = cache.loaded(manifest())
    x = engine.inputs(rows, 0)[:1]
    with choosing_graphs(graphs):
        for _ in range(3):
            runner(x)
        return runner.prepared(x)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("graphs", [None, GraphChoice(2)], ids=["plain", "graphs"])
def test_an_engine_that_nothing_runs_is_given(version: str, graphs: GraphChoice | None) -> None:
    cache, engine, _program = _kept(version)
    for rows in (1, 8):
        assert _run(cache, engine, rows, graphs) is not None
    taken = cache.take(manifest())
    assert isinstance(taken, LoadedEngine)
    assert taken.engine is engine.engine
    assert (len(cache), cache.take(manifest())) == (0, None)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("graphs", [None, GraphChoice(2)], ids=["plain", "graphs"])
def test_a_prepared_run_may_be_under_way(version: str, graphs: GraphChoice | None) -> None:
    cache, engine, _program = _kept(version)
    prepared = _run(cache, engine, 3, graphs)
    assert prepared is not None
    assert cache.take(manifest()) is None


def test_a_runner_that_is_in_use_stays() -> None:
    cache, _engine, _program = _kept("10.16")
    runner = cache.loaded(manifest())
    assert cache.take(manifest()) is None
    assert cache.loaded(manifest()) is runner
    del runner
    assert cache.take(manifest()) is not None


def test_an_engine_of_two_programs_stays() -> None:
    cache, _, programs = _kept("10.16", holders=2)
    assert cache.take(manifest()) is None
    assert len(cache) == 1
    programs.pop()
    assert cache.take(manifest()) is not None


def test_what_was_put_goes_with_who_holds_it() -> None:
    cache, engine = EngineCache(), RowSums("8.6")
    held = cache.put(manifest(), Given(engine))
    program = Holder()
    cache.hold([manifest()], program)
    del held
    assert len(cache) == 1
    del program
    assert len(cache) == 0
    cache.put(manifest(), Given(engine))  # nobody keeps what is returned
    assert len(cache) == 0


def _network() -> Network:
    builder, origin = NetworkBuilder({"s": Range(1, 8)}), Origin("aten.add.Tensor", "add")
    x = builder.input("x", DType.FLOAT32, [symbol("s"), 3])
    bias = builder.constant(torch.tensor([[1.0, 2.0, 3.0]]), origin)
    builder.output("y", builder.add_single(ElementWise(ElementWiseOperation.SUM), x, bias, origin=origin))
    return builder.build()


@pytest.mark.parametrize("version", VERSIONS)
def test_no_bytes_are_read_where_the_engine_is_loaded(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, network, waited = RowSums(version), _network(), []
    engine.engine.__dict__["facts"]["refittable"] = True
    answers, names = engine.trt.answers, [str(number) for number in named_constants(network)]
    given: list[str] = []
    answers["get_all_weights"], answers["get_missing_weights"] = lambda _: names, lambda _: []
    answers["set_named_weights"] = lambda _, name, __: given.append(name) or True
    answers["refit_cuda_engine"] = lambda _: bool(waited)  # not while it may be at work
    installed = InstalledTensorRT(engine.trt, engine.trt.__version__, get_target(version))
    monkeypatch.setattr(TensorRTBackend, "installed", lambda _: installed)
    monkeypatch.setattr(torch.cuda, "synchronize", waited.append)
    read = sum(name == "deserialize_cuda_engine" for each in engine.trt.of("Runtime") for name, *_ in each.calls)
    loaded = LoadedEngine(engine.trt, engine.engine, CPU, None)
    blob, left = TensorRTBackend().refit(b"never read", network, manifest(), loaded)
    assert (blob, left, waited, given) == (b"made by a stand-in", loaded, [CPU], names)
    after = sum(name == "deserialize_cuda_engine" for each in engine.trt.of("Runtime") for name, *_ in each.calls)
    assert after == read


class _Run(reference._Run):
    """An engine of the reference backend that can be taken and changed, as one of TensorRT."""

    def release(self) -> Callable[[], Loaded | None]:
        found = InMemory(self)
        return lambda: found


class InMemory:
    """What is left of it."""

    device = CPU

    def __init__(self, run: reference._Run) -> None:
        self.run: Any = run

    def runner(self, _: Manifest) -> Any:
        return self.run


class Counting(reference._Reference):
    """Counts how often engines are read from bytes and taken from memory; it may fail in the middle."""

    def __init__(self) -> None:
        self.read = self.taken = 0
        self.fails = False

    def load(self, blob: bytes | memoryview, manifest: Manifest) -> Any:
        self.read += 1
        made = super().load(blob, manifest)
        made.__class__ = _Run
        return made

    def refit(
        self, blob: bytes | memoryview, network: Network, manifest: Manifest, loaded: Loaded | None = None
    ) -> tuple[Blob, Loaded | None]:
        self.taken += loaded is not None
        if self.fails:
            raise ArtifactError("refused", because="of a test", fix="none", reference="refit-refused")
        made, _ = super().refit(blob, network, manifest)
        run = super().load(memoryview(bytes(made)), manifest)
        run.__class__ = _Run
        return made, InMemory(run)


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Counting:
    made = Counting()
    monkeypatch.setattr(reference, "backend", lambda: made)
    return made


def _compiled(seed: int) -> tuple[nn.Module, trtdiag.CompiledProgram]:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(7, 5), nn.Tanh(), nn.Linear(5, 3)).eval()
    sizes = trtdiag.Input((1, 7), (3, 7), (13, 7))
    compiled = trtdiag.compile(
        model, inputs=[sizes], backend="reference", refittable=True, min_segment_ops=0, verify=False
    )
    return model, compiled


@pytest.mark.filterwarnings("ignore:outputs with the new weights were not compared")
@pytest.mark.parametrize("graphs", [pytest.param(0, marks=pytest.mark.slow), 2])
@pytest.mark.slow  # quick: one refit, in tests/artifact/test_refit.py
def test_a_program_is_refitted_again_and_again(counting: Counting, graphs: int) -> None:
    """Each engine of before is let go: a server that swaps adapters has one engine in memory, not all of them."""
    _, compiled = _compiled(1)
    compiled.cuda_graphs(graphs)
    x, loaded = torch.randn(13, 7), len(CACHE)
    compiled(x)
    for count in range(1, 4):
        model, _ = _compiled(1 + count)
        trtdiag.refit(compiled, model.state_dict())
        with torch.no_grad():
            # Sums of seven products in float32, in another order.
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-5, atol=1e-6)
        assert (counting.read, counting.taken) == (1, count)
        assert len(CACHE) == loaded + 1


@pytest.mark.filterwarnings("ignore:outputs with the new weights were not compared")
def test_a_refit_that_fails_leaves_the_weights_of_before(counting: Counting) -> None:
    (_, compiled), (other, _) = _compiled(1), _compiled(2)
    x = torch.randn(1, 7)
    before, counting.fails = compiled(x), True
    with pytest.raises(ArtifactError, match="refused"):
        trtdiag.refit(compiled, other.state_dict())
    torch.testing.assert_close(compiled(x), before, rtol=0, atol=0)
    assert (counting.taken, counting.read) == (1, 2)  # the one that was taken may have some of the new weights


def test_what_was_built_here_is_so_with_other_weights_too() -> None:
    """Such an engine may bring code of its own."""
    model, other = nn.Linear(5, 7).eval(), nn.Linear(5, 7).eval()
    options: dict[str, Any] = {"backend": "reference", "refittable": True, "verify": False}
    compiled = trtdiag.compile(model, inputs=[trtdiag.Input((1, 5), (3, 5), (8, 5))], **options)
    before = compiled.manifests[0].engine_sha256
    trtdiag.refit(compiled, other.state_dict(), verify=False)
    after = compiled.manifests[0].engine_sha256
    assert before != after
    assert built_here(before)
    assert built_here(after)
