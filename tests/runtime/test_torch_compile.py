"""``torch.compile`` with our backend: the results and changes of buffers are the model's, static and dynamic."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

from tests.runtime.agreeing import assert_agrees
from tests.runtime.compiling import compiled_program
from trtdiag.errors import UserError
from trtdiag.frontend.capture import capture
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.runtime.torch_compile import backend_of

Programs = list[CompiledProgram]


class Changes(nn.Module):
    """Changes a buffer and its input, takes a number, and returns sizes and nested lists."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(5, 7)
        self.register_buffer("seen", torch.zeros(7))
        self.register_buffer("fixed", torch.ones(7))

    def forward(self, x: Tensor, k: int = 2) -> dict[str, Any]:
        y = torch.relu(self.linear(x))
        self.seen.add_(y.sum(0))
        x.mul_(2)
        return {"a": y[:, :3].reshape(-1) * k, "b": x.shape[0], "c": [self.seen + self.fixed, x]}


class Breaks(nn.Module):
    """Two graphs."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(5, 5)

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x)
        torch._dynamo.graph_break()
        return torch.softmax(self.linear(y), -1)


class Without(nn.Module):
    """A block of no_grad, a view of the result, and the input handed back."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(5, 5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            y = self.linear(x)
        return y.view(-1), x


class FromData(nn.Module):
    """Sizes that data decides, and a number read off a tensor: graphs without an engine and with one."""

    def forward(self, x: Tensor) -> tuple[Tensor, float]:
        return x[x > 0] * 2, x.sum().item()


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.Linear(8, 24)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.parts(x).chunk(3, -1)
        return nn.functional.scaled_dot_product_attention(q, k, v) + x


class Numbers(nn.Module):
    """Tensors made of numbers in its code, one that is changed there, and in branches that take a number."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        own = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
        own[0] = 7
        y = torch.cond(
            x.sum() > 0, lambda y: y + torch.tensor(2.0), lambda y: y - torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]), (x,)
        )
        return torch.where(x > 0, torch.tensor(0.5), y) * own, torch.tensor(3)


class Maps(nn.Module):
    """A function over a dim, which is mapped over another."""

    def forward(self, x: Tensor) -> Tensor:
        part = torch.vmap(torch.vmap(lambda y, z: nn.functional.layer_norm(y, (5,)) * z, (None, 0)), (0, None))
        apart = torch.cond(x.sum() > 0, lambda y: torch.vmap(lambda z: z * 2)(y), lambda y: y + 1, (x,))
        return part(x, x[:2]).sum(1) + apart  # type: ignore[no-any-return]


MODELS = {
    "maps": Maps(),
    "numbers": Numbers(),
    "linear": nn.Linear(5, 7),
    "changes": Changes(),
    "breaks": Breaks(),
    "without": Without(),
    "from_data": FromData(),
    "norm": nn.BatchNorm1d(5).eval(),
    "norm_in_training": nn.BatchNorm1d(5).train(),
    "attention": Attention(),
}


def _input(name: str, batch: int) -> Tensor:
    torch.manual_seed(batch)
    return torch.randn(batch, 3, 8) if name == "attention" else torch.randn(batch, 5)


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns at graph breaks
        yield


def _compiler(seen: Programs) -> Any:
    def compile_exported(exported: ExportedProgram, options: Mapping[str, Any]) -> CompiledProgram:
        seen.append(compiled_program(capture(exported), **options))
        return seen[-1]

    return compile_exported


# PyTorch's own default is the first of the others, then the second.
# Sizes as numbers are slow: the quick run has them where buffers, inputs and sizes are returned (below), and in the
# first call of every dynamic model.
@pytest.mark.parametrize(
    ("name", "dynamic"),
    [
        # Quick: what changes a buffer.  Linear layers and breaks of graphs are quick below, models without inputs and
        # sizes from data in test_exported_calls.py, and ops of attention in tests/convert.
        pytest.param(
            name,
            dynamic,
            marks=() if dynamic and name in ("changes", "norm_in_training", "numbers", "maps") else pytest.mark.slow,
        )
        for name in MODELS
        for dynamic in (True, False, None)
    ],
)
def test_agrees_with_the_model(name: str, dynamic: bool | None) -> None:
    model, programs = copy.deepcopy(MODELS[name]), []
    fast = torch.compile(copy.deepcopy(model), backend=backend_of(_compiler(programs)), dynamic=dynamic)
    for batch in (3, 4, 9):
        assert_agrees(fast, model, _input(name, batch))
    for ours, theirs in zip(fast.buffers(), model.buffers(), strict=True):
        torch.testing.assert_close(ours, theirs)
    assert programs


def test_derivatives_inside_a_model_are_refused_and_taken_by_pytorch_as_advised() -> None:
    """Traced, they came out as other numbers."""

    def slope(x: Tensor) -> Tensor:
        return torch.func.grad(lambda y: (y**3).sum())(x)  # type: ignore[no-any-return]

    x = torch.randn(3, 5)
    programs: Programs = []
    with pytest.raises(Exception, match=r"takes derivatives(.|\n)*torch\.compiler\.disable"), torch.no_grad():
        torch.compile(slope, backend=backend_of(_compiler(programs)))(x)
    torch._dynamo.reset()

    def in_a_branch(x: Tensor) -> Tensor:
        mapped = torch.vmap(lambda y: y * 2)(x)
        return torch.cond(x.sum() > 0, slope, lambda y: y + 1, (mapped,))  # type: ignore[no-any-return]

    with pytest.raises(Exception, match="takes derivatives"), torch.no_grad():
        torch.compile(in_a_branch, backend=backend_of(_compiler(programs)))(x)
    torch._dynamo.reset()
    apart = torch.compiler.disable(slope)

    def model(x: Tensor) -> Tensor:
        return apart(x * 2) + 1

    assert_agrees(torch.compile(model, backend=backend_of(_compiler(programs))), model, x)
    assert programs


def test_dynamic_sizes_need_one_program() -> None:
    programs: Programs = []
    fast = torch.compile(nn.Linear(5, 7), backend=backend_of(_compiler(programs)), dynamic=True, fullgraph=True)
    with torch.inference_mode():
        for batch in (2, 3, 17, 100):
            assert fast(torch.randn(batch, 5)).shape == (batch, 7)
    assert [len(program.manifests) for program in programs] == [1]


@pytest.mark.slow  # quick: test_a_block_of_autocast_computes_in_its_dtype
def test_ops_stay_whole() -> None:
    """What a converter takes whole is not decomposed by torch.compile's tracing."""
    seen: list[set[str]] = []

    def compile_exported(exported: ExportedProgram, options: Mapping[str, Any]) -> CompiledProgram:
        seen.append({str(node.target) for node in exported.graph.nodes if node.op == "call_function"})
        return compiled_program(capture(exported), **options)

    fast = torch.compile(Breaks(), backend=backend_of(compile_exported))
    with torch.no_grad():
        fast(torch.randn(3, 5))
    assert seen == [{"aten.linear.default"}, {"aten.linear.default", "aten.softmax.int"}]


@pytest.mark.slow  # quick: dynamic sizes need one program
def test_floats_of_the_model_are_guarded_constants() -> None:
    """With everything dynamic, torch hands ``eps`` over as a tensor; another value compiles again."""
    model, programs = nn.BatchNorm1d(5).eval(), []
    fast = torch.compile(model, backend=backend_of(_compiler(programs)), dynamic=True, fullgraph=True)
    reference = copy.deepcopy(model)
    assert_agrees(fast, reference, _input("norm", 3))
    model.eps = reference.eps = 0.5
    assert_agrees(fast, reference, _input("norm", 3))
    assert len(programs) == 2


def test_a_block_of_autocast_computes_in_its_dtype() -> None:
    class Cast(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(5, 5)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            with torch.autocast("cpu", torch.bfloat16):
                y = self.linear(x)
            return y, y.float() + x

    model = Cast()
    fast = torch.compile(model, backend=backend_of(_compiler([])), fullgraph=True)
    x = torch.randn(3, 5)
    with torch.no_grad():
        for got, wanted in zip(fast(x), model(x), strict=True):
            assert got.dtype == wanted.dtype
            # bfloat16 has 8 bits: kernels that sum in another order differ in the last of them.
            torch.testing.assert_close(got.float(), wanted.float(), rtol=2**-7, atol=2**-7)


class Mixed(nn.Module):
    """Results with a gradient and without, one written into a buffer, and a norm that writes its statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(5, 5), nn.BatchNorm1d(5)
        self.register_buffer("cache", torch.zeros(3, 5))

    def forward(self, x: Tensor) -> tuple[Any, ...]:
        y = self.linear(x)
        self.cache[:2].copy_(y[:2])
        return self.norm(y), y.detach(), y.argmax(), x.shape[0], self.cache * 2


# Quick: fixed sizes.
@pytest.mark.parametrize("dynamic", [pytest.param(True, marks=pytest.mark.slow), False])
@pytest.mark.slow  # quick: it agrees with the model
def test_under_grad_mode_results_ask_for_gradients_as_those_of_the_model(*, dynamic: bool) -> None:
    model = Mixed()
    reference = copy.deepcopy(model)
    fast = torch.compile(model, backend=backend_of(_compiler([])), dynamic=dynamic)
    for batch in (3, 7):
        x = torch.randn(batch, 5)
        for got, wanted in zip(fast(x), reference(x), strict=True):
            torch.testing.assert_close(got, wanted)
            assert getattr(got, "requires_grad", None) == getattr(wanted, "requires_grad", None)
        for one, other in zip(model.buffers(), reference.buffers(), strict=True):
            torch.testing.assert_close(one, other)
            assert one.requires_grad == other.requires_grad


@pytest.mark.slow  # quick: results ask for gradients as those of the model
def test_a_backward_pass_that_reaches_a_compiled_graph_is_an_error() -> None:
    """Also where a part of the loss has gradients of its own, which would be taken for all of them."""
    model, x = Mixed(), torch.randn(3, 5)
    fast = torch.compile(model, backend=backend_of(_compiler([])))
    for loss in (fast(x)[0].sum(), fast(x)[4].sum() + model.linear.weight.sum(), model.cache.sum()):
        with pytest.raises(UserError, match="does not train") as caught:
            loss.backward()
        assert caught.value.reference == "training"
    assert model.linear.weight.grad is None
    with torch.no_grad():
        assert not fast(x)[0].requires_grad


def test_an_input_that_is_written_gets_no_gradient_either() -> None:
    fast = torch.compile(lambda x: x.mul_(2) + 1, backend=backend_of(_compiler([])))
    leaf = torch.randn(3, 5, requires_grad=True)
    x = leaf * 1
    fast(x)
    torch.testing.assert_close(x, leaf * 2)
    with pytest.raises(UserError, match="does not train"):
        x.sum().backward()


def test_grad_mode_is_warned_of_at_the_call() -> None:
    fast, x = torch.compile(nn.Linear(5, 7), backend=backend_of(_compiler([]))), torch.randn(3, 5)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        for _ in range(3):
            fast(x)
        with torch.no_grad():
            fast(x)
    told = [one for one in seen if "forward passes only" in str(one.message)]
    assert [one.filename for one in told] == [__file__]


def test_threads_share_a_compiled_model() -> None:
    from concurrent.futures import ThreadPoolExecutor

    model = nn.Linear(5, 7).requires_grad_(False)
    fast = torch.compile(model, backend=backend_of(_compiler([])), dynamic=True)
    inputs = [torch.randn(2 + index % 5, 5) for index in range(30)]
    fast(inputs[0])
    with ThreadPoolExecutor(3) as pool:
        for got, x in zip(pool.map(fast, inputs), inputs, strict=True):
            torch.testing.assert_close(got, model(x))
