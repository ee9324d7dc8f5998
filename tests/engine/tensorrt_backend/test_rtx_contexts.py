"""How TensorRT-RTX is told to run an engine: on stand-ins with exactly the names of its releases, on the CPU."""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from host_engine import Engine, HostGpu, manifest
from standin import Recorded, TensorRT, surface

from tests.harness.logged import Logged
from trtdiag.engine.cuda_graph_choice import GraphChoice, RtxChoice, choosing_graphs
from trtdiag.engine.manifest import Compatibility
from trtdiag.engine.tensorrt import rtx
from trtdiag.engine.tensorrt.engine_per_gpu import packed
from trtdiag.engine.tensorrt.lazy_import import InstalledTensorRT
from trtdiag.engine.tensorrt.rtx_contexts import RtxContextMemory
from trtdiag.errors import ArtifactError, UserError
from trtdiag.options import KERNEL_SPECIALIZATION
from trtdiag.targets import RTX_TARGETS, get_target, target_of

RELEASES = [target.version for target in RTX_TARGETS]


class Kernels(Engine):
    """An engine whose caches hold what they were given, and one kernel more for each run."""

    def __init__(self, version: str, takes: bool = True) -> None:
        super().__init__(version)
        self.content: dict[int, bytes] = {}
        self.caches: list[Recorded] = []
        answers = self.trt.answers
        answers["deserialize"] = lambda cache, blob: self._read(cache, blob) if takes else False
        answers["serialize"] = self._written

    def _read(self, cache: Recorded, blob: bytes) -> bool:
        self.content[id(cache)] = bytes(blob)
        return True

    def _written(self, cache: Recorded) -> Recorded:
        memory = self.trt._new("IHostMemory", "serialize", (), {})
        memory.__dict__["content"] = self.content.get(id(cache), b"") + b" kernel"
        return memory

    def run(self, choice: RtxChoice = RtxChoice(), graphs: GraphChoice | None = None) -> None:  # noqa: B008  # frozen
        with choosing_graphs(graphs, choice):
            self.runner(scratch=RtxContextMemory)(self.inputs(3, 4))

    @property
    def configs(self) -> list[Recorded]:
        return self.trt.of("IRuntimeConfig")


@contextmanager
def _written(path: Path, content: bytes | None) -> Iterator[None]:
    """Engines go in this block; after it the file holds this."""
    yield
    gc.collect()
    assert (path.read_bytes() if path.exists() else None) == content


@pytest.mark.parametrize("version", RELEASES)
def test_a_call_as_by_default(version: str) -> None:
    engine = Kernels(version)
    gpu = HostGpu()
    (y,) = engine.runner(gpu, RtxContextMemory)(engine.inputs(3, 4))
    assert (y.shape, y.dtype) == ((4, 3), torch.float16)
    (config,) = engine.configs
    (context,) = engine.contexts
    assert context.given == ((config,), {})
    told = [args for name, args, _ in config.calls if name == "set_execution_context_allocation_strategy"]
    assert told == [(engine.trt.ExecutionContextAllocationStrategy.USER_MANAGED,)]
    assert config.seen == {"cuda_graph_strategy": engine.trt.CudaGraphStrategy.DISABLED}
    assert not engine.trt.of("IRuntimeCache")


@pytest.mark.parametrize("version", RELEASES)
@pytest.mark.parametrize("strategy", KERNEL_SPECIALIZATION)
def test_strategies(version: str, strategy: str) -> None:
    engine = Kernels(version)
    engine.run(RtxChoice(None, True, strategy))
    (config,) = engine.configs
    strategies = engine.trt.DynamicShapesKernelSpecializationStrategy
    assert config.seen == {
        "cuda_graph_strategy": engine.trt.CudaGraphStrategy.WHOLE_GRAPH_CAPTURE,
        "dynamic_shapes_kernel_specialization_strategy": getattr(strategies, strategy.upper()),
    }


def test_what_trtdiag_records_is_not_recorded_once_more() -> None:
    engine = Kernels("rtx-1.7")
    run = engine.runner(scratch=RtxContextMemory)
    with choosing_graphs(GraphChoice(2), RtxChoice(cuda_graphs=True)):
        for _ in range(3):
            run(engine.inputs(3, 4))
    assert len(engine.configs) == 2  # the plain run's and the recording's
    assert {config.seen["cuda_graph_strategy"].name for config in engine.configs} == {"DISABLED"}


def test_each_choice_has_contexts_of_its_own() -> None:
    engine = Kernels("rtx-1.7")
    run = engine.runner(scratch=RtxContextMemory)
    for eager in (True, False, True):
        with choosing_graphs(None, RtxChoice(kernel_specialization="eager" if eager else None)):
            run(engine.inputs(3, 4))
    assert len(engine.contexts) == 2


# The other release is handed the same calls, above.
@pytest.mark.parametrize("version", [pytest.param("rtx-1.4", marks=pytest.mark.slow), "rtx-1.7"])
def test_kernels_are_there_for_the_next_process(version: str, tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "kernels"
    for content in (b" kernel", b" kernel kernel"):
        with _written(path, content):
            Kernels(version).run(RtxChoice(str(path)))
    assert [entry.name for entry in path.parent.iterdir()] == ["kernels"]


@pytest.mark.slow  # quick: kernels are there for the next process
def test_contexts_of_a_process_share_a_cache(tmp_path: Path) -> None:
    path, engine = tmp_path / "kernels", Kernels("rtx-1.7")
    with _written(path, b" kernel"):
        runs = [engine.runner(HostGpu([stream]), RtxContextMemory) for stream in (1, 2, 3)]
        with choosing_graphs(None, RtxChoice(str(path))):
            for run in runs:
                run(engine.inputs(3, 4))
        (cache,) = engine.trt.of("IRuntimeCache")
        given = [args for config in engine.configs for name, args, _ in config.calls if name == "set_runtime_cache"]
        assert given == [(cache,)] * 3
        del runs[0], run
        assert not path.exists()  # others still add to it
        runs.clear()


@pytest.mark.slow  # quick: kernels are there for the next process
def test_a_file_of_another_gpu_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "kernels"
    path.write_bytes(b"of another GPU")
    with _written(path, b" kernel"):
        Kernels("rtx-1.7", takes=False).run(RtxChoice(str(path)))


def test_what_is_no_file_is_refused_before_the_run(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for place, why in ((tmp_path, "directory"), (pipe, "named pipe")):
        with pytest.raises(UserError, match="runtime cache") as caught:
            Kernels("rtx-1.7").run(RtxChoice(str(place)))
        assert caught.value.reference == "runtime-cache"
        assert why in caught.value.because


@pytest.mark.slow  # quick: what is no file is refused before the run
def test_kernels_that_cannot_be_written_are_said_and_no_error(tmp_path: Path, logged: Logged) -> None:
    path = tmp_path / "kernels"
    with logged.at_level(logging.WARNING), _written(tmp_path / "nothing", None):
        engine = Kernels("rtx-1.7")
        run = engine.runner(scratch=RtxContextMemory)
        with choosing_graphs(None, RtxChoice(str(path))):
            run(engine.inputs(3, 4))
        path.mkdir()
        del run
    assert str(path) in logged.text


@pytest.mark.parametrize("version", RELEASES)
def test_a_program_loads_the_engine_of_its_gpu(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trt = TensorRT(version)
    installed = InstalledTensorRT(trt, trt.__version__, get_target(version))
    monkeypatch.setattr(rtx, "import_tensorrt", lambda _: installed)
    monkeypatch.setattr(rtx, "require_gpu", lambda: None)
    monkeypatch.setattr(rtx, "compute_capability", lambda: "12.0")
    monkeypatch.setattr("trtdiag.engine.tensorrt.runner.EngineRunner", lambda *args, **kwargs: (args, kwargs))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    built = replace(
        manifest(), tensorrt=trt.__version__, compatibility=Compatibility("none", False, None, ("sm89", "sm120"))
    )
    (module, engine, *_), told = rtx.backend().load(packed({"sm89": b"Ada", "sm120": b"Blackwell"}), built)
    assert module is trt
    assert [bytes(args[0]) for args, _ in [engine.given]] == [b"Blackwell"]
    assert told["scratch"] is RtxContextMemory
    trt.answers["deserialize_cuda_engine"] = lambda *_: None
    with pytest.raises(ArtifactError, match="cannot read an engine"):
        rtx.backend().load(b"one for both", built)


@pytest.mark.parametrize("version", RELEASES)
def test_the_recorded_api_is_that_of_the_installed_release(version: str) -> None:
    trt = pytest.importorskip("tensorrt_rtx", reason="tensorrt-rtx is not installed")
    installed = InstalledTensorRT(
        trt, str(trt.__version__), target_of(str(trt.__version__), RTX_TARGETS) or RTX_TARGETS[0]
    )
    if installed.target.version != version:
        pytest.skip(f"{installed.version} is installed")
    from compact_api import compact, read

    assert compact(read("tensorrt_rtx")) == surface(f"rtx-{TensorRT(version).__version__}")
