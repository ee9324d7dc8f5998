"""Every prim that lowering writes as ATen ops: none is left, and the numbers are those of the prim."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, export

from tests.lower.agreement import assert_lowered_agrees, lowered_of, targets
from tests.random_cases import some
from trtdiag.lower.decomposable import _OVERLOADS, _WRITTEN_OUT
from trtdiag.options import CompileOptions
from trtdiag.pipeline.compile import compile_in_stages

P = torch.ops.prims
CPU = torch.device("cpu")
MADE: dict[str, Any] = {"device": CPU, "requires_grad": False}

# Of x (n, 6, 5) from 0.1 to 0.9 and whole numbers i from 1 to 6 of the same sizes.
Op = Callable[[Tensor, Tensor], Tensor]
ROWS: dict[str, Op] = {
    "acosh": lambda x, i: P.acosh(x + 1),
    "amax": lambda x, i: P.amax(x, [1, 2]),
    "amin": lambda x, i: P.amin(x, [0]),
    "bitwise_and": lambda x, i: P.bitwise_and(i, i + 1),
    "bitwise_not": lambda x, i: P.bitwise_not(i),
    "bitwise_or": lambda x, i: P.bitwise_or(i, i + 1),
    "bitwise_xor": lambda x, i: P.bitwise_xor(i, i + 1),
    "broadcast_in_dim": lambda x, i: P.broadcast_in_dim(x, [x.shape[0], 3, 6, 5, 2], [0, 2, 3]),
    "cat": lambda x, i: P.cat([x, x], 1),
    "clone": lambda x, i: P.clone(x),
    "collapse": lambda x, i: P.collapse(x, 1, 2),
    "collapse_view": lambda x, i: P.collapse_view(x, 1, 2),
    "convert_element_type": lambda x, i: P.convert_element_type(x * 9, torch.int32),
    "copy_strided": lambda x, i: P.copy_strided(x, [30, 1, 6]),
    "device_put": lambda x, i: P.device_put(x, CPU),
    "div": lambda x, i: P.div(i - 4, i + 1),  # towards zero
    "fill": lambda x, i: P.fill(x, 2.0),
    "fmax": lambda x, i: P.fmax(x / (x > 0.5) * 0, x),
    "fmin": lambda x, i: P.fmin(x, x / (x > 0.5) * 0),
    "full": lambda x, i: P.full([x.shape[0], 5], 2.0, dtype=torch.float32, **MADE),
    "full_like": lambda x, i: P.full_like(x, 2.0, dtype=torch.float32, **MADE),
    "iota": lambda x, i: P.iota(x.shape[0], start=2, step=3, dtype=torch.int64, **MADE),
    "pow": lambda x, i: P.pow(x, x),
    "prod": lambda x, i: P.prod(x, [1, 2]),
    "reshape": lambda x, i: P.reshape(x, [x.shape[0], 30]),
    "rev": lambda x, i: P.rev(x, [0, 2]),
    "scalar_tensor": lambda x, i: P.scalar_tensor(2.5, dtype=torch.float32, device=CPU),
    "shift_left": lambda x, i: P.shift_left(i, i),
    "shift_right_arithmetic": lambda x, i: P.shift_right_arithmetic(i - 4, i),
    "split_dim": lambda x, i: P.split_dim(x, 1, 2),
    "squeeze": lambda x, i: P.squeeze(x[:, :1], [1]),
    "sum": lambda x, i: P.sum(x, [0, 2]),
    "transpose": lambda x, i: P.transpose(x, [2, 0, 1]),
    "var": lambda x, i: P.var(x, [1], 1.0),
    "view_of": lambda x, i: P.view_of(x),
    "view_of_dtype": lambda x, i: P.view_of_dtype(x, torch.int32),
    "where": lambda x, i: P.where(i > 3, x, x),
}


def _pointwise(name: str) -> Op:
    """Of one float or of two, as its schema says."""
    op = getattr(P, name).default
    count = len(op._schema.arguments)
    return lambda x, i: op(*[x, x * 2][:count])


OPS = {name: ROWS.get(name) or _pointwise(name) for name in sorted({*_OVERLOADS, *_WRITTEN_OUT})}


class Call(nn.Module):
    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self.names = names

    def forward(self, x: Tensor, i: Tensor) -> tuple[Tensor, ...]:
        return tuple(OPS[name](x, i) for name in self.names)


def _example(rows: int) -> tuple[Tensor, Tensor]:
    torch.manual_seed(rows)
    return torch.rand(rows, 6, 5) * 0.8 + 0.1, torch.randint(1, 7, (rows, 6, 5))


def _exported(names: list[str]) -> Any:
    return export(Call(names), _example(3), dynamic_shapes=({0: (n := Dim("n", min=1, max=13))}, {0: n}))


def check_prims(names: list[str]) -> None:
    _, lowered = assert_lowered_agrees(_exported(names), _example(3), beside_torch=False)
    assert lowered.limits == ()
    assert not [name for name in targets(lowered) if name.startswith("prims")]


def test_prims_become_aten_ops() -> None:
    check_prims(some(list(OPS), 4))


@pytest.mark.slow  # the quick run has them in one program, above
@pytest.mark.parametrize("name", OPS)
def test_a_prim_becomes_aten_ops(name: str) -> None:
    check_prims([name])


@pytest.mark.slow  # quick: prims become ATen ops, above, which have converters
def test_they_are_in_one_engine() -> None:
    names = ["broadcast_in_dim", "convert_element_type", "div", "sum", "var", "where"]
    found = compile_in_stages(_exported(names), CompileOptions(backend="reference"))
    assert found.plan.partitioned.fallback == ()
    assert found.verified.passed


def test_a_sum_over_no_dims_stays() -> None:
    """Its kernel sums all of them, which its metadata says nothing of."""
    exported = export(Call(["sum"]), _example(3))
    node = next(node for node in exported.graph.nodes if str(node.target) == "prims.sum.default")
    node.args = (node.args[0], [])
    node.meta["val"] = node.args[0].meta["val"]
    _, lowered = lowered_of(exported)
    assert "prims.sum.default" in targets(lowered)
