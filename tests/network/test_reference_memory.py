"""What the reference run holds in memory: tensors are freed after their last reader, and layers copy no more than once.

Counted by live tensors and by the bytes of the storages that a layer makes, not by the memory of the machine.
"""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch
from network_cases import ORIGIN
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from trtdiag.network import DType, Layer, NetworkBuilder, Placed
from trtdiag.network.layers.activation import Activation, ActivationType
from trtdiag.network.layers.elementwise import ElementWise, ElementWiseOperation
from trtdiag.network.layers.normalization import Normalization
from trtdiag.network.layers.slice import SampleMode, Slice
from trtdiag.network.run import PreparedRun

ELEMENTS = 5 * 7 * 11 * 13


class _Made(TorchDispatchMode):
    """The bytes of all storages that ops make."""

    def __init__(self) -> None:
        super().__init__()
        self._known: list[torch.UntypedStorage] = []  # kept, so that no address comes twice
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        before = {self._place(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)}
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor) and self._place(leaf) not in before:
                self._known.append(leaf.untyped_storage())
                self.bytes += leaf.untyped_storage().nbytes()
        return result

    @staticmethod
    def _place(tensor: torch.Tensor) -> int:
        return tensor.untyped_storage().data_ptr()


def _made(layer: Layer, *inputs: torch.Tensor) -> tuple[torch.Tensor, int]:
    with _Made() as made:
        (y,) = layer.reference(*inputs)
    return y, made.bytes


@pytest.mark.parametrize(
    ("start", "size", "stride"),
    [
        ((0, 0, 0, 0), (5, 7, 11, 12), (1, 1, 1, 1)),
        ((1, 2, 3, 4), (4, 5, 8, 9), (1, 1, 1, 1)),
        ((1, 0, 3, 0), (2, 7, 4, 1), (2, 1, 2, 1)),
        ((4, 0, 2, 0), (1, 7, 3, 13), (1, 1, 0, 1)),
        ((0, 0, 0, 0), (5, 0, 11, 13), (1, 1, 1, 1)),
    ],
)
def test_a_slice_makes_its_output_and_nothing_else(
    start: tuple[int, ...], size: tuple[int, ...], stride: tuple[int, ...]
) -> None:
    x = torch.randn(5, 7, 11, 13)
    y, made = _made(Slice(start, size, stride), x)
    assert made == 4 * y.numel()  # float32
    # A view of the input would keep all of it.
    assert y.untyped_storage().nbytes() == 4 * y.numel()
    for axis, (first, count, step) in enumerate(zip(start, size, stride, strict=True)):
        x = x.index_select(axis, first + torch.arange(count) * step)
    assert torch.equal(y, x)


def test_a_slice_of_everything_is_no_copy() -> None:
    x = torch.randn(5, 7)
    y, made = _made(Slice((0, 0), (5, 7), (1, 1)), x)
    assert y is x
    assert made == 0


def test_padding_makes_its_output_alone() -> None:
    x = torch.randn(3, 4, 5)
    y, made = _made(Slice((-1, 0, -2), (5, 4, 10), (1, 1, 1), SampleMode.FILL), x)
    assert torch.equal(y, torch.nn.functional.pad(x, (2, 3, 0, 0, 1, 1)))
    assert made == 4 * y.numel() + 4  # and the zero


@pytest.mark.parametrize("step", [-3, -2, -1, 0, 1, 2, 3])
def test_slices_of_every_start_and_size(step: int) -> None:
    """One dim of seven, also where it is left on either side: STRICT_BOUNDS refuses exactly that, FILL fills it."""
    x = torch.arange(7) + 1
    for first in range(-9, 10):
        for count in range(6):
            index = [first + place * step for place in range(count)]
            wanted = [int(x[place]) if 0 <= place < 7 else 0 for place in index]
            filled = Slice((first,), (count,), (step,), SampleMode.FILL)
            assert filled.reference(x)[0].tolist() == wanted, (first, count)
            strict = Slice((first,), (count,), (step,))
            if all(0 <= place < 7 for place in index):
                assert strict.reference(x)[0].tolist() == wanted, (first, count)
            else:
                with pytest.raises(IndexError, match="leaves dim 0 of size 7"):
                    strict.reference(x)


def test_normalization_holds_three_times_its_input_at_most() -> None:
    x = torch.randn(5, 7, 11, 13)
    layer = Normalization(axes=(1, 2, 3), epsilon=1e-5)
    y, made = _made(layer, x, torch.ones(1, 7, 11, 13), torch.zeros(1, 7, 11, 13))
    assert torch.allclose(y, torch.nn.functional.layer_norm(x, x.shape[1:]), atol=1e-6)  # sums in another order
    # The difference from the mean, which becomes the output, and its square; then numbers for each of 5 rows.
    assert made <= 2 * 4 * ELEMENTS + 5 * 5 * 4


@pytest.mark.parametrize(("shape", "groups"), [((1, 3, 1), 3), ((1, 5, 1, 1), 1)], ids=["group_norm", "grouped"])
def test_a_group_of_one_element_is_its_bias(shape: tuple[int, ...], groups: int) -> None:
    axes = tuple(range(2, len(shape)))
    each = [1, *shape[1:2], *[1] * len(axes)]
    layer = Normalization(axes, 1e-5, groups)
    (y,) = layer.reference(torch.randn(shape), torch.full(each, 2.0), torch.full(each, 0.5))
    # PyTorch adds x and the mean, 600 times as large, to the bias: a few units of the last place of 600 are left.
    torch.testing.assert_close(y, torch.full(shape, 0.5), rtol=0, atol=1e-3)


def _chain(cells: int) -> NetworkBuilder:
    """A recurrence as it is unrolled: each step reads a part of one input and the state before."""
    builder = NetworkBuilder()
    x = builder.input("x", DType.FLOAT32, [cells, 3])
    state = builder.input("h", DType.FLOAT32, [1, 3])
    for step in range(cells):
        part = builder.add_single(Slice((step, 0), (1, 3), (1, 1)), x, origin=ORIGIN)
        state = builder.add_single(ElementWise(ElementWiseOperation.SUM), part, state, origin=ORIGIN)
        state = builder.add_single(Activation(ActivationType.TANH), state, origin=ORIGIN)
    builder.output("y", state)
    return builder


def test_tensors_are_freed_after_their_last_reader() -> None:
    cells = 41
    network = _chain(cells).build()
    alive: list[weakref.ref[torch.Tensor]] = []
    most = 0

    def observe(placed: Placed, made: tuple[torch.Tensor, ...]) -> None:
        nonlocal most
        alive.extend(map(weakref.ref, made))
        most = max(most, sum(ref() is not None for ref in alive))

    run = PreparedRun(network)
    for _ in range(2):  # the second time with what the first has remembered
        most = 0
        (y,) = run([torch.randn(cells, 3), torch.zeros(1, 3)], observe)
        # The layer's own output, what it read, and the state that waits beside the part.
        assert most <= 4
        assert [ref() for ref in alive if ref() is not None] == [y]
        alive.clear()
        del y
