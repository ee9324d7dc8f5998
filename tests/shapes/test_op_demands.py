"""What an op is said to ask of its sizes is what the op itself refuses: each rule is held against the op on real
tensors, at sizes of every kind, both ways."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Any

import pytest
import torch
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, Node
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

from trtdiag.graph.operators import OpOverload
from trtdiag.graph.values import NodeReader
from trtdiag.shapes.op_call import OpCall
from trtdiag.shapes.op_demands import demands_of
from trtdiag.shapes.shape_constraints import Demand
from trtdiag.symbolic import free_symbols, holds

aten: Any = torch.ops.aten
SIZES = (1, 2, 3, 4, 6)
MOST_POINTS = 160


@dataclass(frozen=True)
class T:
    """A tensor: a letter for each dynamic dim, a digit for each fixed one; floats of one unless ``dtype`` says else."""

    dims: str
    dtype: torch.dtype = torch.float32

    def real(self, sizes: dict[str, int]) -> torch.Tensor:
        shape = [int(dim) if dim.isdigit() else sizes[dim] for dim in self.dims]
        make = torch.ones if self.dtype.is_floating_point else torch.zeros
        return make(shape, dtype=self.dtype)


INDEX, MASK = torch.int64, torch.bool


def L(dims: str) -> T:
    return T(dims, INDEX)


CASES: list[tuple[OpOverload, tuple[Any, ...]]] = [
    (aten.add.Tensor, (T("ab"), T("cd"))),
    (aten.add.Tensor, (T("ab"), T("c"))),
    (aten.add_.Tensor, (T("ab"), T("c"))),
    (aten.where.self, (T("ab", MASK), T("c"), T("db"))),
    (aten.masked_fill.Scalar, (T("ab"), T("cd", MASK), 0.5)),
    (aten.masked_fill_.Scalar, (T("ab"), T("cd", MASK), 0.5)),
    (aten.clamp.Tensor, (T("ab"), T("cb"))),
    (aten.addcmul.default, (T("a"), T("b"), T("c"))),
    (aten.copy_.default, (T("ab"), T("cd"))),
    (aten.copy_.default, (T("ab"), T("c"))),
    (aten.prelu.default, (T("2a"), T("b"))),
    (aten.mse_loss.default, (T("ab"), T("cb"))),
    (aten.masked_select.default, (T("ab"), T("cd", MASK))),
    (aten.dot.default, (T("a"), T("b"))),
    (aten.mm.default, (T("ab"), T("cd"))),
    (aten.mv.default, (T("ab"), T("c"))),
    (aten.bmm.default, (T("abc"), T("def"))),
    (aten.matmul.default, (T("abc"), T("def"))),
    (aten.matmul.default, (T("2abc"), T("de"))),
    (aten.matmul.default, (T("abc"), T("d"))),
    (aten.matmul.default, (T("a"), T("bcd"))),
    (aten.addmm.default, (T("ab"), T("cd"), T("ef"))),
    (aten.addmm.default, (T("a"), T("2b"), T("cd"))),
    (aten.addmv.default, (T("a"), T("bc"), T("d"))),
    (aten.baddbmm.default, (T("abc"), T("dbe"), T("fgh"))),
    (aten.addbmm.default, (T("ab"), T("cde"), T("cfg"))),
    (aten.addr.default, (T("ab"), T("c"), T("d"))),
    (aten.linear.default, (T("ab"), T("cd"), T("e"))),
    (aten.cdist.default, (T("abc"), T("def"))),
    (aten.einsum.default, ("bij,bjk->bik", [T("abc"), T("def")])),
    (aten.einsum.default, ("ij,i,i->j", [T("ab"), T("c"), T("d")])),
    (aten._scaled_dot_product_attention_math.default, (T("a2bc"), T("d2ef"), T("g2hi"))),
    (aten._scaled_dot_product_attention_math.default, (T("12a4"), T("12b4"), T("12b4"), T("cd"))),
    (aten._scaled_dot_product_attention_math.default, (T("1a34"), T("1bc4"), T("1de4"), {"enable_gqa": True})),
    (aten._scaled_dot_product_attention_math.default, (T("abc4"), T("abd4"), T("abd4"), T("efcd"))),
    (aten.cat.default, ([T("ab"), T("cd")], 1)),
    (aten.cat.default, ([T("ab"), T("cd"), T("eb")], -2)),
    (aten.stack.default, ([T("ab"), T("cd")], 1)),
    (aten.hstack.default, ([T("abc"), T("def")],)),
    (aten.broadcast_tensors.default, ([T("ab"), T("cd"), T("e")],)),
    (aten.grid_sampler.default, (T("a3bc"), T("dbc2"), 0, 0, False)),
    (aten.nll_loss_nd.default, (T("a3"), L("b"))),
    (aten.cross_entropy_loss.default, (T("a3b"), L("cd"))),
    (aten.expand.default, (T("ab"), [-1, 6])),
    (aten.expand.default, (T("ab"), [3, 4, -1])),
    (aten.expand_as.default, (T("ab"), T("cde"))),
    (aten.view.default, (T("ab"), [4, 3])),
    (aten.reshape.default, (T("ab"), [-1, 4])),
    (aten.view_as.default, (T("ab"), T("cd"))),
    (aten.unflatten.int, (T("ab"), 1, [2, -1])),
    (aten.as_strided.default, (T("ab"), [3, 2], [2, 1])),
    (aten.as_strided.default, (T("ab"), [2, 2], [4, 0], 3)),
    (aten.split_with_sizes.default, (T("ab"), [1, 3], 1)),
    (aten.index.Tensor, (T("666"), [L("a"), L("b"), L("c")])),
    (aten.index.Tensor, (T("ab"), [T("c", MASK)])),
    (aten.index.Tensor, (T("ab"), [T("cd", MASK)])),
    (aten.index_put.default, (T("ab"), [L("c")], T("de"))),
    (aten.index_put.default, (T("ab"), [None, L("c")], T("de"))),
    (aten.index_put.default, (T("6ab6"), [L("c"), None, None, L("d")], T("efg"))),
    (aten.index_put.default, (T("a6b"), [None, L("c")], T("d"))),
    (aten.gather.default, (T("ab"), 1, L("cd"))),
    (aten.scatter.src, (T("ab"), 0, L("cd"), T("ef"))),
    (aten.scatter_add.default, (T("ab"), 1, L("cd"), T("ef"))),
    (aten.scatter_reduce.two, (T("ab"), 1, L("cd"), T("ef"), "sum")),
    (aten.index_copy.default, (T("ab"), 1, L("c"), T("de"))),
    (aten.index_add.default, (T("ab"), 0, L("c"), T("de"))),
    (aten.put.default, (T("ab"), L("cd"), T("e"))),
    (aten.slice_scatter.default, (T("ab"), T("cd"), 0, 1, 3)),
    (aten.slice_scatter.default, (T("ab"), T("cd"), 1, -2, 2**63 - 1)),
    (aten.slice_scatter.default, (T("ab"), T("cd"), 1, 0, 5, 2)),
    (aten.select_scatter.default, (T("3ab"), T("cd"), 0, 1)),
    (aten.diagonal_scatter.default, (T("ab"), T("c"), 1)),
    (aten.narrow.default, (T("ab"), 1, 1, 3)),
    (aten.select.int, (T("ab"), 1, 2)),
    (aten.select.int, (T("ab"), 1, -3)),
    (aten.topk.default, (T("ab"), 3)),
    (aten.searchsorted.Tensor, (T("ab"), T("cd"))),
    (aten.layer_norm.default, (T("ab"), [4], T("c"), T("d"))),
    (aten.group_norm.default, (T("ab2"), 2, T("c"))),
    (aten.batch_norm.default, (T("ab"), T("c"), None, T("d"), T("b"), False, 0.1, 1e-5, False)),
    (aten.conv1d.default, (T("2ab"), T("cde"))),
    (aten.conv1d.default, (T("2ab"), T("3a3"), None, [1], [1], [2])),
    (aten.conv1d.default, (T("2a4"), T("6b2"), T("c"), [1], [0], [1], 3)),
    (aten.convolution.default, (T("2a4"), T("b32"), None, [1], [0], [1], True, [0], 1)),
    (aten.conv_transpose1d.default, (T("2a4"), T("b32"))),
    (aten.max_pool1d.default, (T("1ab"), [4], [1], [1])),
    (aten.avg_pool2d.default, (T("1abc"), [3, 2])),
    (aten.unfold.default, (T("ab"), 1, 3, 1)),
    (aten.reflection_pad1d.default, (T("1ab"), [2, 1])),
    (aten.pad.default, (T("1ab"), [2, 3], "circular")),
    (aten.pad.default, (T("1ab"), [3, -3], "constant")),
    (aten.constant_pad_nd.default, (T("1ab"), [-1, -2, 4, -2], 0.5)),
]  # fmt: skip


class Symbolic:
    """A call of an op on tensors whose dims are symbols, as nodes of a graph."""

    def __init__(self, op: OpOverload, args: tuple[Any, ...]) -> None:
        self.env = ShapeEnv()
        self.mode = FakeTensorMode(shape_env=self.env)
        self.symbols: dict[str, Any] = {}
        self.graph = Graph()
        made = tuple(self._made(arg) for arg in args if not isinstance(arg, dict))
        self.node = self.graph.call_function(op, made, _named_arguments(args))
        self.names = {str(size.node.expr): letter for letter, size in self.symbols.items()}

    def _made(self, arg: Any) -> Any:
        if isinstance(arg, list) and any(isinstance(item, T) for item in arg):
            return [self._made(item) for item in arg]
        return self._placeholder(arg) if isinstance(arg, T) else arg

    def _placeholder(self, tensor: T) -> Node:
        shape = [int(dim) if dim.isdigit() else self._symbol(dim) for dim in tensor.dims]
        node = self.graph.placeholder(f"x{len(self.graph.nodes)}")
        with self.mode:
            node.meta["val"] = torch.empty(shape, dtype=tensor.dtype)
        return node

    def _symbol(self, letter: str) -> Any:
        if letter not in self.symbols:
            source = ConstantSource(letter)
            hint = 20 + len(self.symbols)
            symbol = self.env.create_symbol(hint, source, DimDynamic.DYNAMIC)
            self.symbols[letter] = self.env.create_symintnode(symbol, hint=hint, source=source)
        return self.symbols[letter]

    def demands(self) -> tuple[Demand, ...]:
        op = self.node.target
        assert isinstance(op, OpOverload)
        return demands_of(OpCall(self.node, op, NodeReader()))


def _named_arguments(args: tuple[Any, ...]) -> dict[str, Any]:
    return next((arg for arg in args if isinstance(arg, dict)), {})


def _points(letters: list[str]) -> Iterator[dict[str, int]]:
    """All sizes where they are few, else some at random; most letters alike in half of them, for most ops take few."""
    every = product(SIZES, repeat=len(letters))
    if len(SIZES) ** len(letters) <= MOST_POINTS:
        for sizes in every:
            yield dict(zip(letters, sizes, strict=True))
        return
    chooser = Random(0)  # the same points in every run
    for _ in range(MOST_POINTS // 2):
        yield {letter: chooser.choice(SIZES) for letter in letters}
        shared = chooser.choice(SIZES)
        other = dict.fromkeys(letters, shared)
        for letter in chooser.sample(letters, chooser.randint(0, 2)):
            other[letter] = chooser.choice(SIZES)
        yield other


def _runs(op: OpOverload, args: tuple[Any, ...], sizes: dict[str, int]) -> bool:
    def real(arg: Any) -> Any:
        if isinstance(arg, list):
            return [real(item) for item in arg]
        return arg.real({**sizes, "z": 20}) if isinstance(arg, T) else arg

    try:
        op(*(real(arg) for arg in args if not isinstance(arg, dict)), **_named_arguments(args))
    except (RuntimeError, IndexError, ValueError):
        return False
    return True


def _named(case: tuple[OpOverload, tuple[Any, ...]]) -> str:
    return f"{case[0]}-{'-'.join(t.dims for t in case[1] if isinstance(t, T))}"


@pytest.mark.parametrize("case", CASES, ids=_named)
def test_an_op_refuses_exactly_the_sizes_that_break_what_it_asks(case: tuple[OpOverload, tuple[Any, ...]]) -> None:
    op, args = case
    symbolic = Symbolic(op, args)
    conditions = [demand.condition for demand in symbolic.demands()]
    letters = sorted(set(symbolic.symbols) - {"z"})
    seen = set()
    for sizes in _points(letters):
        point = {symbol: sizes.get(letter, 20) for symbol, letter in symbolic.names.items()}
        asked = all(holds(condition, {s: point[s] for s in free_symbols(condition)}) for condition in conditions)
        ran = _runs(op, args, sizes)
        seen.add(ran)
        assert asked == ran, f"{sizes}: the op {'runs' if ran else 'refuses'}"
    assert seen == {True, False}
