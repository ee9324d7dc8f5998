"""Calls of the op like calls before, as programs of ``torch.export.load`` make them; engines of the reference."""

from __future__ import annotations

import gc
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from tests.engine.linear_network import as_buffer, linear, linear_engine
from tests.runtime.compiling import compiled
from tests.runtime.preparing import Preparing, Runners
from trtdiag.engine.manifest_text import manifest_to_text
from trtdiag.errors import ShapeOutOfRangeError, UserError
from trtdiag.graph.dispatch_keys import never_traced
from trtdiag.graph.tensor_signature import check_like
from trtdiag.runtime.custom_op import EXECUTE_ENGINE, PREPARED
from trtdiag.runtime.engine_cache import CACHE
from trtdiag.runtime.prepared_engines import PreparedEngine, forget

ROWS = {0: Dim("rows", min=1, max=11)}


class Parts(nn.Module):
    """Two engines around an op that stays with PyTorch."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(5, 7), nn.Linear(7, 3)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.second(torch.erfinv(torch.sigmoid(self.first(x)))))


class OneEngine:
    """The op with the engine of a linear layer."""

    def __init__(self) -> None:
        self.model = linear()
        built = linear_engine(self.model)
        self.engine, self.text = as_buffer(built.blob), manifest_to_text(built.manifest)

    def __call__(self, x: Tensor) -> Tensor:
        return EXECUTE_ENGINE([x], self.engine, self.text)[0]

    def agrees(self, x: Tensor) -> None:
        torch.testing.assert_close(self(x), self.model(x))


@pytest.mark.slow  # quick: test_a_program_that_chooses_how_engines_run_prepares_nothing_here
def test_a_loaded_program_calls_its_engines_again(preparing: Runners, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Parts().eval()
    program = compiled(model, (torch.randn(3, 5),), dynamic_shapes={"x": ROWS}, keep=["aten.erfinv.default"])
    torch.export.save(program.exported_program, tmp_path / "parts.pt2")
    module = torch.export.load(tmp_path / "parts.pt2").module()
    with torch.no_grad():
        for _ in range(4):
            for rows in (1, 7, 11):
                x = torch.randn(rows, 5)
                torch.testing.assert_close(module(x), model(x))
        assert preparing.counts == [(3, 9), (3, 9)]
        with pytest.raises(Exception, match="11"):  # torch's own guard
            module(torch.randn(12, 5))
        for _ in range(3):  # the same engines in the compiled program have bytes of their own
            torch.testing.assert_close(program(x), model(x))
    assert preparing.counts == [(4, 11), (4, 11)]


def test_what_decides_over_a_call_is_looked_at_each_time(preparing: Runners) -> None:
    call = OneEngine()
    x = torch.randn(7, 5)
    for _ in range(3):
        call.agrees(x)
    assert preparing.one.again == 2
    call.agrees(x.t().contiguous().t())  # other strides
    for wrong, error in ((torch.randn(9, 5), ShapeOutOfRangeError), (x.double(), UserError)):
        with pytest.raises(error):
            call(wrong)
    other = call.text.replace("[1,3,8]", "[1,3,5]").replace("[1,8]", "[1,5]")
    assert other != call.text
    with pytest.raises(ShapeOutOfRangeError, match="1 to 5"):
        EXECUTE_ENGINE([x], call.engine, other)
    assert preparing.one.again == 2
    call.agrees(x)
    preparing.one.stale = True
    call.agrees(x)
    assert preparing.one.again == 3


def test_modes_and_gradients(preparing: Runners) -> None:
    call = OneEngine()
    x = torch.randn(1, 5)
    for _ in range(3):
        call.agrees(x)
        with torch.no_grad():
            call.agrees(x)
        with torch.inference_mode():
            assert call(x).is_inference()
    assert (preparing.one.whole, preparing.one.again) == (1, 8)
    wanting = x.clone().requires_grad_()
    with torch.no_grad():
        assert not call(wanting).requires_grad
    assert preparing.one.again == 9
    with pytest.raises(UserError, match="no gradient"):
        call(wanting).sum().backward()
    negative = torch.complex(torch.zeros(1, 5), x).conj().imag
    assert negative.is_neg()  # its elements are the others, and it has their address
    call.agrees(negative)
    torch.testing.assert_close(torch.func.grad(lambda y: (call(x) * y).sum())(torch.ones(7)), call.model(x)[0])


def test_tracers_see_the_op(preparing: Runners) -> None:
    call = OneEngine()
    x = torch.randn(3, 5)
    for _ in range(3):
        call(x)
    before = preparing.one.again
    with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True) as mode:
        for given in (x, mode.from_tensor(x)):
            assert isinstance(call(given), torch._subclasses.FakeTensor)
    assert preparing.one.again == before
    traced = torch.fx.experimental.proxy_tensor.make_fx(call)(x)
    assert EXECUTE_ENGINE in {node.target for node in traced.graph.nodes}

    seen: list[object] = []

    class Noting(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    with Noting():
        call(x)
    assert seen[0] is EXECUTE_ENGINE
    assert preparing.one.whole + preparing.one.again == before + 3  # both of these run it on real tensors


@pytest.mark.slow  # quick: test_threads_share_a_compiled_model, in test_torch_compile.py
def test_torch_compile_looks_into_nothing_of_a_call(preparing: Runners) -> None:
    torch._dynamo.reset()
    call = OneEngine()
    x = torch.randn(3, 5)
    graphs: list[object] = []

    def run(x: Tensor) -> Tensor:
        y = x
        for _ in range(2):
            torch._dynamo.graph_break()  # in a loop: the whole function runs as it is
            y = EXECUTE_ENGINE([x], call.engine, call.text)[0]
        return y

    def note(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Any:
        graphs.append(graph)
        return graph.forward

    fast = torch.compile(run, backend=note)
    for _ in range(3):
        torch.testing.assert_close(fast(x), call.model(x))
    assert graphs == []
    assert (preparing.one.whole, preparing.one.again) == (1, 5)


def test_without_what_is_private_to_torch_the_answers_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def doubled(x: Tensor) -> Tensor:
        return x * 2

    x = torch.randn(3, 5)
    likes = [x.clone(), x.t().contiguous().t(), x[:2], x.double(), x.to_sparse(), None]
    answers = [True, False, False, False, False, False]
    assert [check_like([x])(one) for one in likes] == answers
    monkeypatch.delattr(torch._C._dynamo.guards, "TensorGuards")
    assert [check_like([x])(one) for one in likes] == answers
    assert never_traced(doubled) is doubled
    monkeypatch.delattr(torch._C._dynamo.eval_frame, "set_code_exec_strategy")
    torch.testing.assert_close(never_traced(doubled)(x), x + x)


def test_threads_prepare_their_own(preparing: Runners) -> None:
    call = OneEngine()
    x = torch.randn(3, 5)
    runs: dict[int, set[int]] = {}
    called = Preparing.Run.__call__

    def noted(self: Preparing.Run, *args: Any) -> Any:
        runs.setdefault(threading.get_ident(), set()).add(id(self))
        return called(self, *args)

    order = threading.Barrier(2, timeout=60)

    def work() -> None:
        for _ in range(4):
            order.wait()
            call.agrees(x)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Preparing.Run, "__call__", noted)
        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    first, second = runs.values()
    assert not first & second


@pytest.mark.slow  # quick: what decides over a call
def test_engines_go_with_their_bytes_and_when_they_are_dropped(preparing: Runners) -> None:
    call = OneEngine()
    x = torch.randn(3, 5)
    call(x)
    number = id(call.engine)
    runner = preparing.one
    assert PREPARED[number].runner is runner
    forget(runner)
    assert number not in PREPARED
    call(x)
    assert number in PREPARED
    del call.engine
    gc.collect()
    assert number not in PREPARED


def test_the_cache_forgets_what_it_drops() -> None:
    call = OneEngine()
    call(torch.randn(3, 5))
    (runner,) = [slot.runner for slot in CACHE._slots.values() if slot.runner is not None][-1:]
    PREPARED[id(call.engine)] = PreparedEngine(call.engine, call.text, runner)
    CACHE.drop([runner])
    assert id(call.engine) not in PREPARED


def test_a_program_that_chooses_how_engines_run_prepares_nothing_here(preparing: Runners) -> None:
    model = Parts().eval()
    program = compiled(model, (torch.randn(3, 5),), dynamic_shapes={"x": ROWS}, keep=["aten.erfinv.default"])
    program.rtx_runtime(cuda_graphs=True)
    x = torch.randn(3, 5)
    for _ in range(3):
        torch.testing.assert_close(program(x), model(x).detach())
    assert preparing.counts == [(3, 0), (3, 0)]
    program.rtx_runtime()
    for _ in range(3):
        torch.testing.assert_close(program(x), model(x).detach())
    assert preparing.counts == [(4, 2), (4, 2)]
