"""Random ops with ``random="engine"``: one engine, and the numbers of the original with the same seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim, export

import trtdiag
from trtdiag.options import CompileOptions, PartitionOptions
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.pipeline.state import State

Op = Callable[[Tensor], Any]

# Of y (n, 7), which an engine computes.
DRAWS: dict[str, Op] = {
    "dropout": lambda y: F.dropout(y, 0.3, True),
    "dropout in place": lambda y: F.dropout(y * 2, 0.7, True, True),
    "dropout of nothing": lambda y: F.dropout(y, 0.0, True),
    "dropout of all": lambda y: F.dropout(y, 1.0, True),
    "dropout of channels": lambda y: F.dropout1d(y[:, :, None], 0.5),
    "native dropout": lambda y: torch.ops.aten.native_dropout(y, 0.4, True),
    "uniform": lambda y: torch.rand_like(y) * y,
    "normal": lambda y: torch.randn_like(y) + y,
    "whole": lambda y: torch.randint_like(y, 2, 9) - y,
    "of sizes": lambda y: y * torch.rand(y.shape[0], 1) + torch.randn(7),
    "in place": lambda y: torch.empty_like(y).uniform_(-1, 2) + torch.zeros_like(y).normal_(1, 0.5) * y,
    "chance of all": lambda y: torch.bernoulli(y, 0.4) + torch.empty_like(y).bernoulli_(0.2),
    "chances": lambda y: torch.bernoulli(y.sigmoid()) * y,
    "exponential": lambda y: torch.empty_like(y).exponential_(2.0) * y,
    "around data": lambda y: torch.normal(y, y.abs()) + torch.normal(y, 0.3) + torch.normal(2.0, y.exp()),
    "one sample": lambda y: torch.multinomial(y.softmax(-1), 1),
    "samples": lambda y: torch.multinomial(y.softmax(-1), 3),
    "half": lambda y: F.dropout(y.half(), 0.3, True) + torch.randn_like(y.half()),
}


class Draws(nn.Module):
    def __init__(self, *names: str) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first, self.names = nn.Linear(5, 7), names

    def forward(self, x: Tensor) -> list[Any]:
        y = self.first(x)
        return [DRAWS[name](y) for name in self.names]


def _compiled(module: nn.Module, example: tuple[Tensor, ...] = (torch.ones(4, 5),), **partition: Any) -> State:
    exported = export(module, example, dynamic_shapes=({0: Dim("n", min=2, max=33)},))
    options = CompileOptions("11.4", "reference", partition=PartitionOptions(random="engine", **partition))
    return compile_in_stages(exported, options)


def check_drawn(module: nn.Module, made: State) -> None:
    assert [entry.op for entry in made.plan.partitioned.fallback if entry.computes] == []
    assert len(made.compiled.manifests) == 1
    assert made.verified.passed
    for rows in (2, 17, 33):
        x = torch.randn(rows, 5)
        torch.manual_seed(rows)
        wanted, after = module(x), torch.get_rng_state()
        torch.manual_seed(rows)
        got = made.compiled(x)
        # The engine multiplies where PyTorch's fused kernels do it in another order.
        torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-6)
        assert torch.equal(torch.get_rng_state(), after), "as much was drawn"


def test_all_of_them_are_drawn_in_order_before_one_engine() -> None:
    module = Draws(*DRAWS)
    check_drawn(module, _compiled(module, require_full=True))


@pytest.mark.slow  # the quick run has them in one program, above
@pytest.mark.parametrize("name", DRAWS)
def test_it_is_drawn_before_the_engine(name: str) -> None:
    module = Draws(name)
    check_drawn(module, _compiled(module))


def test_by_default_they_stay_where_they_are() -> None:
    exported = export(Draws("normal", "dropout"), (torch.ones(4, 5),))
    found = trtdiag.compile(exported, backend="reference", verify=False, min_segment_ops=1)
    ops = {str(node.target) for node in found.exported_program.graph.nodes}
    assert {"aten.randn_like.default", "aten.dropout.default"} <= ops
    assert len(found.manifests) == 2


class Attends(nn.Module):
    """As transformers in training mode do: with a mask, causal, and with dropout before and after."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, 0.2, batch_first=True)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = F.dropout(x[:, :, None] * torch.linspace(-1, 1, 8), 0.1, True)
        mask = y[:, None, :, :5] > 0
        attended = F.scaled_dot_product_attention(y[:, None], y[:, None], y[:, None], mask, 0.3, scale=0.5)
        causal = F.scaled_dot_product_attention(y, y, y, dropout_p=0.4, is_causal=True)
        return self.layer(y), attended, causal, torch.rand_like(y)


@pytest.mark.slow  # quick: all random numbers are drawn in order before one engine
def test_attention_that_drops_weights_is_taken_apart_on_a_cpu() -> None:
    module = Attends().train()
    check_drawn(module, _compiled(module))


class Later(nn.Module):
    """With replacement: how much is drawn hangs on the chances."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        first = torch.rand_like(x) + x
        places = torch.multinomial(first, 4, replacement=True)
        return first, places, torch.rand_like(x) * x


def test_what_hangs_on_data_stays_and_all_behind_it() -> None:
    made = _compiled(Later())
    left = {entry.op: entry.limit.code for entry in made.plan.partitioned.fallback if entry.computes}
    assert left["aten.multinomial.default"] == "random"
    assert left["aten.rand_like.default"] == "random"
    assert any("hangs on its input" in limit.why for limit in made.plan.lowered.limits)
    x = torch.rand(9, 5)
    torch.manual_seed(3)
    wanted = Later()(x)
    torch.manual_seed(3)
    torch.testing.assert_close(made.compiled(x), wanted)


class Turned(nn.Module):
    """Draws in the order in which tensors lie in memory: turned, and with channels last."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        turned = (x * 2).t().contiguous().t()
        image = torch.stack([x, x * 2, x * 3], -1)[..., None].contiguous(memory_format=torch.channels_last)
        return torch.rand_like(turned) * x, F.dropout(image, 0.4, True)


def test_numbers_lie_in_the_order_of_memory() -> None:
    module = Turned()
    check_drawn(module, _compiled(module))


class Strided(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.rand_like((x * 2)[:, ::2]) + x[:, :3]


def test_a_tensor_with_gaps_is_drawn_for_where_it_stands() -> None:
    made = _compiled(Strided())
    assert "aten.rand_like.default" in {entry.op for entry in made.plan.partitioned.fallback if entry.computes}


def test_a_saved_program_draws_the_same(tmp_path: Any) -> None:
    module = Draws("dropout", "one sample")
    trtdiag.save(_compiled(module).compiled, tmp_path / "drawn.pt2")
    loaded, x = trtdiag.load(tmp_path / "drawn.pt2"), torch.randn(9, 5)
    torch.manual_seed(7)
    wanted = module(x)
    torch.manual_seed(7)
    torch.testing.assert_close(loaded(x), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.slow  # quick: tests/compiling/test_torch_backend.py has the options of compile
def test_torch_compile_takes_the_option() -> None:
    module = Draws("dropout").train()
    torch._dynamo.reset()
    fast = torch.compile(module, backend="trtdiag", options={"random": "engine", "require_full": True})
    x = torch.randn(9, 5)
    with torch.no_grad():
        fast(x)
        torch.manual_seed(5)
        got = fast(x)
        torch.manual_seed(5)
        torch.testing.assert_close(got, module(x), rtol=1e-5, atol=1e-6)
