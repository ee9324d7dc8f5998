"""Reshapes and their kin as layers: right for all sizes, and without a tensor of sizes where none is needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch

from trtdiag.convert.refusal import Refused
from trtdiag.convert.writer import Writer
from trtdiag.network import DType, NetworkBuilder, run
from trtdiag.network.network import Network
from trtdiag.network.value import Value
from trtdiag.symbolic import Expr, Num, Range, Sym, add, evaluate, mul
from trtdiag.targets.versions import get_target

A, B, C = Sym("a"), Sym("b"), Sym("c")
# Every size may be 0, and a prime; 1 comes between.
POINTS = [{"a": a, "b": b, "c": c} for a in (0, 1, 7) for b in (0, 1, 5) for c in (0, 1, 3)]
ANY = {name: Range(0, 50) for name in "abc"}
FILLED = {name: Range(1, 50) for name in "abc"}


def _network(
    shape: Sequence[Expr | int], write: Callable[[Writer, Value], Value], ranges: dict[str, Range], target: str
) -> tuple[Network, tuple[Expr, ...]]:
    builder = NetworkBuilder(ranges)
    writer = Writer(builder, get_target(target))
    x = builder.input("x", DType.FLOAT32, [Num(n) if isinstance(n, int) else n for n in shape])
    writer.sizes.note(x)
    y = write(writer, x)
    builder.output("y", y)
    return builder.build(), y.shape


def _check(
    shape: Sequence[Expr | int],
    write: Callable[[Writer, Value], Value],
    true: Callable[[torch.Tensor, dict[str, int]], torch.Tensor],
    *,
    layers: Sequence[str] | None = None,
    ranges: dict[str, Range] = ANY,
) -> None:
    for target in ("8.6", "11.4"):
        network, _ = _network(shape, write, ranges, target)
        if layers is not None:
            assert [type(placed.layer).__name__ for placed in network.layers] == list(layers)
        for point in POINTS:
            if any(value not in ranges[name] for name, value in point.items()):
                continue
            sizes = [n if isinstance(n, int) else int(evaluate(n, point)) for n in shape]
            x = torch.randn(sizes)
            (y,) = run(network, [x])
            assert torch.equal(y, true(x, point)), point


def _sizes(shape: Sequence[Expr | int], point: dict[str, int]) -> list[int]:
    return [n if isinstance(n, int) else int(evaluate(n, point)) for n in shape]


RESHAPES: list[tuple[Sequence[Expr | int], Sequence[Expr | int], bool, bool]] = [
    # from, to, one layer where sizes may be 0, one layer where they are 1 or more
    ((A, B, 12), (A, B, 3, 4), True, True),
    ((A, B, 3, 4), (A, B, 12), True, True),
    ((A, 6), (A, 2, 3), True, True),
    ((6, A), (2, 3, A), True, True),
    ((2, 3, A), (6, A), True, True),
    ((A, B), (mul(A, B),), True, True),
    ((A, B, C), (A, mul(B, C)), False, True),
    ((A, B, C), (mul(A, B), C), False, False),
    ((mul(4, A), B), (A, 4, B), False, False),
    ((A, B, C), (C, B, A), False, False),
    ((A, 0), (0, A), False, False),
    ((A, 0, B), (A, 0, B, 7), True, True),
    ((A, B), (1, A, B), False, False),
    ((0, 3), (3, 0), True, True),
    ((A,), (A, 1), True, True),
    ((), (1, 1), True, True),
]


@pytest.mark.parametrize("maybe_empty", [True, False])
@pytest.mark.parametrize("case", RESHAPES, ids=str)
def test_reshape(case: tuple[Sequence[Expr | int], Sequence[Expr | int], bool, bool], maybe_empty: bool) -> None:
    shape, goal, one_if_empty, one_if_filled = case
    one = one_if_empty if maybe_empty else one_if_filled
    ranges = ANY if maybe_empty else FILLED

    def write(writer: Writer, x: Value) -> Value:
        return writer.reshape(x, goal)

    _check(shape, write, lambda x, p: x.reshape(_sizes(goal, p)), layers=["Shuffle"] if one else None, ranges=ranges)
    network, _ = _network(shape, write, ranges, "11.4")
    assert (len(network.layers) == 1) is one


def test_the_same_shape_needs_no_layer() -> None:
    _check((A, B), lambda w, x: w.reshape(x, (A, B)), lambda x, _: x, layers=[])


def test_counts_that_may_differ_are_refused() -> None:
    with pytest.raises(Refused) as caught:
        _network((A, B), lambda w, x: w.reshape(x, (C,)), ANY, "11.4")
    assert caught.value.limit.code == "size-not-proven"


@pytest.mark.parametrize("axes", [[0], [1], [3], [0, 2], [0, 1, 4], [2, 5, 6]])
def test_unsqueeze_is_one_layer_for_all_sizes(axes: list[int]) -> None:
    def true(x: torch.Tensor, _: dict[str, int]) -> torch.Tensor:
        for axis in axes:
            x = x.unsqueeze(axis)
        return x

    _check((A, B, 5, C), lambda w, x: w.unsqueeze(x, axes), true, layers=["Shuffle"])


@pytest.mark.parametrize("axes", [[0], [2], [5], [0, 2], [0, 2, 5]])
def test_squeeze_needs_no_tensor_of_sizes(axes: list[int]) -> None:
    """Two Shuffle at most, and one Squeeze where there is that layer and a Shuffle alone cannot say it."""
    networks = [_network((1, A, 1, B, C, 1), lambda w, x: w.squeeze(x, axes), ANY, t)[0] for t in ("8.6", "11.4")]
    old, new = ([type(placed.layer).__name__ for placed in network.layers] for network in networks)
    assert set(old) == {"Shuffle"}
    assert new == (["Squeeze"] if len(old) == 2 else old)
    _check((1, A, 1, B, C, 1), lambda w, x: w.squeeze(x, axes), lambda x, _: x.squeeze(axes))


@pytest.mark.parametrize(
    ("shape", "goal"),
    [((1, B), (A, B)), ((B,), (A, B)), ((A, 1, C), (A, B, C)), ((), (A,)), ((1, 1), (3, 0)), ((A, 5), (A, 5))],
    ids=str,
)
def test_broadcast(shape: Sequence[Expr | int], goal: Sequence[Expr | int]) -> None:
    """What is not among the sizes of x is read off another input."""
    for target in ("8.6", "11.4"):
        builder = NetworkBuilder(ANY)
        writer = Writer(builder, get_target(target))
        x = builder.input("x", DType.INT32, [Num(n) if isinstance(n, int) else n for n in shape])
        like = builder.input("like", DType.BOOL, [A, B])
        for value in (x, like):
            writer.sizes.note(value)
        builder.output("y", writer.broadcast_to(x, goal))
        network = builder.build()
        for point in POINTS:
            tensor = torch.randint(0, 99, _sizes(shape, point), dtype=torch.int32)
            (y,) = run(network, [tensor, torch.zeros(point["a"], point["b"], dtype=torch.bool)])
            assert torch.equal(y, tensor.broadcast_to(_sizes(goal, point)))


def test_a_size_that_may_be_one_is_not_broadcast() -> None:
    with pytest.raises(Refused) as caught:
        _network((A, B), lambda w, x: w.broadcast_to(x, (A, 7)), ANY, "11.4")
    assert caught.value.limit.code == "size-not-proven"


def test_a_part_from_a_size() -> None:
    """``x[b - a:]`` of a + b elements."""
    shape = (add(A, B, C), B, C)

    def write(writer: Writer, x: Value) -> Value:
        return writer.part(x, 0, C, add(A, B))

    network_shape = (Sym("d"), B, C)
    builder = NetworkBuilder({**ANY, "d": Range(0, 150)}, (), {"d": shape[0]})
    writer = Writer(builder, get_target("8.6"))
    x = builder.input("x", DType.BOOL, network_shape)
    writer.sizes.note(x)
    builder.output("y", write(writer, x))
    network = builder.build()
    for point in POINTS:
        tensor = torch.randint(0, 2, _sizes(shape, point)).bool()
        (y,) = run(network, [tensor])
        assert torch.equal(y, tensor[point["c"] :])


def test_more_dims_than_the_target_has_are_refused() -> None:
    with pytest.raises(Refused) as caught:
        _network((A, 2, 2, 2, 2, 2, 2), lambda w, x: w.unsqueeze(x, [0, 1]), ANY, "11.4")
    assert caught.value.limit.code == "rank"
    _check((A, 2, 2, 2, 2, 2, 2), lambda w, x: w.unsqueeze(x, [1]), lambda x, _: x.unsqueeze(1), layers=["Shuffle"])


@pytest.mark.parametrize(("start", "step"), [(0, 1), (A, 1), (3, B), (A, B), (add(mul(2, A), 1), -2)], ids=str)
def test_counting(start: Expr | int, step: Expr | int) -> None:
    for target in ("8.6", "11.4"):
        network, _ = _network((A, B, C), lambda w, x: w.counting(C, start, step), ANY, target)
        for point in POINTS:
            (y,) = run(network, [torch.zeros(_sizes((A, B, C), point))])
            first, by = _sizes((start, step), point)
            assert y.tolist() == [first + by * i for i in range(point["c"])]
