"""The custom op: what it computes, what it refuses, and what torch knows of its shapes."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch

from tests.engine.linear_network import as_buffer, linear, linear_engine
from trtdiag.engine.backend import Runner
from trtdiag.engine.manifest import EngineInput
from trtdiag.engine.manifest_text import manifest_to_text
from trtdiag.errors import ArtifactError, InternalError, ShapeOutOfRangeError, TrtdiagError, UserError
from trtdiag.runtime import engine_cache
from trtdiag.runtime.custom_op import EXECUTE_ENGINE
from trtdiag.runtime.engine_cache import EngineCache
from trtdiag.shapes.profile import DimProfile
from trtdiag.symbolic import symbol


class Calls(torch.nn.Module):
    """Calls one engine."""

    def __init__(self, *, given: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.model = linear()
        built = linear_engine(self.model, given=given)
        self.register_buffer("engine", as_buffer(built.blob))
        self.text = manifest_to_text(built.manifest)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return EXECUTE_ENGINE([x], self.engine, self.text)[0]


def test_torch_finds_nothing_wrong_with_the_op() -> None:
    calls = Calls()
    torch.library.opcheck(EXECUTE_ENGINE, ([torch.randn(3, 5)], calls.engine, calls.text))


@pytest.mark.parametrize(
    ("x", "kind", "words"),
    [
        (torch.zeros(9, 5), ShapeOutOfRangeError, ("'x'", "dim 0 has size 9", "1 to 8")),
        (torch.zeros(0, 5), ShapeOutOfRangeError, ("'x'", "dim 0 has size 0", "1 to 8")),
        (torch.zeros(3, 6), ShapeOutOfRangeError, ("'x'", "dim 1 has size 6", "allowed is 5")),
        (torch.zeros(5), ShapeOutOfRangeError, ("'x'", "1 dims", "2 dims")),
        (torch.zeros(4, 5), ShapeOutOfRangeError, ("'x'", "s0 is 4", "s0 != 4")),
        (torch.zeros(3, 5, dtype=torch.float64), UserError, ("'x'", "torch.float64", "torch.float32")),
        (torch.zeros(3, 5, device="meta"), UserError, ("'x'", "meta", "cpu")),
    ],
)
def test_what_the_engine_was_not_built_for_is_refused(
    x: torch.Tensor, kind: type[TrtdiagError], words: tuple[str, ...]
) -> None:
    calls = Calls(given=("s0 != 4",))
    # A meta tensor would dispatch to the shapes alone: the check itself is asked.
    from trtdiag.runtime.engine_inputs import check_engine_inputs

    for _ in range(2):  # a refusal is not remembered as a pass
        with pytest.raises(kind) as caught:
            check_engine_inputs(calls.text, [x])
        for word in words:
            assert word in str(caught.value)


def test_another_number_of_inputs_is_our_bug() -> None:
    calls = Calls()
    with pytest.raises(InternalError):
        EXECUTE_ENGINE([], calls.engine, calls.text)


def test_changed_bytes_are_refused() -> None:
    calls = Calls()
    engine = calls.engine.clone()
    engine[-1] ^= 1
    text = calls.text.replace('"target":"11.4"', '"target":"10.16"')
    from trtdiag.engine.manifest_text import manifest_from_text

    with pytest.raises(ArtifactError) as caught:
        EngineCache().get(manifest_from_text(text), engine, "cpu")
    assert caught.value.reference == "engine-digest"


def test_no_engine_is_loaded_while_a_graph_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen to end the process with TensorRT 8.6.0."""
    built, cache = linear_engine(linear()), EngineCache()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    for _ in range(2):
        with pytest.raises(UserError) as caught:
            cache.get(built.manifest, as_buffer(built.blob), "cuda:0")
        assert caught.value.reference == "recorded-before-run"
        assert "before each recording" in caught.value.fix
    # What runs on the CPU is no part of a graph.
    assert cache.get(built.manifest, as_buffer(built.blob), "cpu")([torch.randn(2, 5)])[0].shape == (2, 7)


def test_gradients_are_refused_with_a_reason() -> None:
    output = Calls()(torch.randn(3, 5, requires_grad=True))
    with pytest.raises(UserError, match="no gradient"):
        output.sum().backward()


@pytest.mark.parametrize("name", ["batch", "some_other_name"])
def test_shapes_follow_the_sizes_of_the_trace(name: str) -> None:
    """The manifest calls the batch ``s0``; the trace may call it anything."""
    calls = Calls()
    dim = torch.export.Dim(name, min=1, max=8)
    exported = torch.export.export(calls, (torch.randn(3, 5),), dynamic_shapes=({0: dim},))
    (ends,) = exported.range_constraints.values()
    assert (ends.lower, ends.upper) == (1, 8)
    for batch in (1, 7, 8):
        x = torch.randn(batch, 5)
        torch.testing.assert_close(exported.module()(x), calls.model(x))


def test_a_batch_and_the_half_of_another_dim() -> None:
    """The size that is read may be an expression of the trace's symbols."""

    class Halves(Calls):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x.reshape(-1, 5)).reshape(x.shape[0], -1)

    calls = Halves()
    exported = torch.export.export(
        calls, (torch.randn(3, 10),), dynamic_shapes=({0: torch.export.Dim("b", min=2, max=4)},)
    )
    for batch in (2, 3, 4):
        assert exported.module()(torch.randn(batch, 10)).shape == (batch, 14)


@pytest.mark.slow  # quick: test_shapes_follow_the_sizes_of_the_trace
def test_an_export_promises_no_more_than_the_engine_runs() -> None:
    with pytest.raises(Exception, match="<= 8"):
        torch.export.export(Calls(), (torch.randn(3, 5),), dynamic_shapes=({0: torch.export.Dim("b", max=20)},))
    auto = torch.export.export(Calls(), (torch.randn(3, 5),), dynamic_shapes=({0: torch.export.Dim.AUTO},))
    (ends,) = auto.range_constraints.values()
    assert ends.upper == 8


# Quick: the backend that looks at what is traced, with dynamic sizes.
@pytest.mark.parametrize("dynamic", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("backend", [pytest.param("eager", marks=pytest.mark.slow), "aot_eager"])
@pytest.mark.slow  # quick: test_assembled_programs.py compiles whole programs
def test_compiles_without_a_graph_break(backend: str, *, dynamic: bool) -> None:
    torch._dynamo.reset()
    calls = Calls()
    fast = torch.compile(calls, backend=backend, dynamic=dynamic, fullgraph=True)
    with torch.no_grad():
        for batch in (3, 5, 8, 1):
            x = torch.randn(batch, 5)
            torch.testing.assert_close(fast(x), calls.model(x))
        with pytest.raises(Exception, match="8 or less"):
            fast(torch.randn(9, 5))


def test_threads_share_one_engine() -> None:
    calls = Calls()
    inputs = [torch.randn(1 + index % 8, 5) for index in range(40)]
    wanted = [calls.model(x) for x in inputs]
    failures: list[str] = []

    def work(start: int) -> None:
        for index in range(start, start + 120):
            got = calls(inputs[index % len(inputs)])
            if not torch.allclose(got, wanted[index % len(inputs)]):
                failures.append(f"{index}")

    threads = [threading.Thread(target=work, args=(7 * index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_an_engine_is_loaded_once_whoever_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    from trtdiag.engine import reference

    loads: list[int] = []
    real = reference._Reference.load

    def counted(self: object, blob: bytes, manifest: object) -> object:
        loads.append(len(blob))
        return real(self, blob, manifest)

    monkeypatch.setattr(reference._Reference, "load", counted)
    built = linear_engine(linear())
    cache, engine = EngineCache(), as_buffer(built.blob)
    start = threading.Barrier(4)

    def ask() -> None:
        start.wait()
        cache.get(built.manifest, engine, "cpu")

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert loads == [len(built.blob)]


def test_the_cache_is_bounded() -> None:
    cache = EngineCache(most=2)
    torch.manual_seed(0)
    built = [linear_engine(torch.nn.Linear(5, 7)) for _ in range(5)]
    for each in (*built, *built):
        x = torch.randn(2, 5)
        assert cache.get(each.manifest, as_buffer(each.blob), "cpu")([x])[0].shape == (2, 7)
        assert len(cache) <= 2


def test_engines_of_a_program_go_with_it() -> None:
    cache = EngineCache(most=1)
    torch.manual_seed(1)
    built = [linear_engine(torch.nn.Linear(5, 7)) for _ in range(3)]
    manifests = [each.manifest for each in built]

    class Holder:
        pass

    def ask(index: int) -> Runner:
        return cache.get(manifests[index], as_buffer(built[index].blob), "cpu")

    one, other = Holder(), Holder()
    cache.hold(manifests, one)
    cache.hold(manifests[:1], other)
    runners = [ask(index) for index in range(3)]
    assert [ask(index) for index in range(3)] == runners  # more than are kept otherwise
    gone = [weakref.ref(runner) for runner in runners[1:]]
    del runners[1:], one
    assert len(cache) == 1
    assert all(each() is None for each in gone)
    assert ask(0) is runners[0]
    del other
    assert len(cache) == 0
    assert ask(0) is not runners[0]  # a graph may ask for it still


def test_an_engine_that_numbers_alone_enter_runs_on_the_current_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    from trtdiag.runtime import engine_cache, execution

    asked: list[str] = []

    def loaded(manifest: object, engine: torch.Tensor, device: str) -> Runner:
        asked.append(device)
        return lambda inputs: (inputs[0] + 1,)

    monkeypatch.setattr(engine_cache, "_loaded", loaded)
    monkeypatch.setattr(execution, "CACHE", engine_cache.EngineCache())
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    size = EngineInput("n", torch.int64, (), (DimProfile(0, 3, 8),), symbol("n"))
    manifest = replace(linear_engine(linear()).manifest, device="cuda", inputs=(size,), ranges={}, conditions=())
    (output,) = execution.execute([torch.empty(7 + 2, 0)], torch.empty(0), manifest_to_text(manifest))
    assert asked == ["cuda:3"]
    assert output.item() == 8


def test_numbers_stay_on_the_host_whatever_device_is_the_default() -> None:
    from trtdiag.runtime import execution

    size = EngineInput("n", torch.int32, (), (DimProfile(0, 3, 8),), symbol("n"))
    with torch.device("meta"):
        entered = execution._entered(size, torch.empty(7 + 2, 0))
    assert (entered.device.type, entered.item()) == ("cpu", 7)


def test_the_current_gpu_stays_when_engines_go(monkeypatch: pytest.MonkeyPatch) -> None:
    # Here without a GPU: what is freed changes the current one, as a library may, and it is put back.
    gpu = [0]

    class OfGpu1:
        def __del__(self) -> None:
            gpu[0] = 1

    @contextmanager
    def staying_on(index: int) -> Iterator[None]:
        yield
        gpu[0] = index

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: gpu[0])
    monkeypatch.setattr(torch.cuda, "device", staying_on)
    monkeypatch.setattr(engine_cache, "_loaded", lambda *_: OfGpu1())
    built = linear_engine(torch.nn.Linear(5, 7))

    class Holder:
        pass

    cache, holder = EngineCache(most=0), Holder()
    cache.hold([built.manifest], holder)
    cache.get(built.manifest, as_buffer(built.blob), "cpu")
    del holder
    assert len(cache) == 0
    assert gpu == [0]
