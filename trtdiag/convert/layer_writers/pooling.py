"""Windows that move over the dims of space: what PyTorch's poolings ask, as Pooling layers or as slices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from trtdiag.convert.call import Call
from trtdiag.convert.layer_writers.spatial_dims import Spatial, reach, reaching, spatial
from trtdiag.convert.refusal import refuse
from trtdiag.convert.writer import Writer
from trtdiag.network import NUMBERS, DType, Value
from trtdiag.network.layers import ElementWiseOperation as Op, PaddingMode, Pooling, PoolingType
from trtdiag.network.layers.windows import window_count
from trtdiag.symbolic import Expr, Num


@dataclass(frozen=True)
class Windows:
    """The windows of one pooling.

    Attributes:
        space: What they move over.
        window: Elements of a window along each dim of space.
        stride: From one to the next.
        padding: Elements before the first; PyTorch has as many after the last.
        dilation: From one element of a window to the next.
        counts: How many windows there are.
    """

    space: Spatial
    window: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    counts: tuple[Expr, ...]

    @property
    def write(self) -> Writer:
        """Writes layers."""
        return self.space.write

    @property
    def extents(self) -> tuple[int, ...]:
        """The elements that a window reaches over."""
        return tuple(d * (w - 1) + 1 for w, d in zip(self.window, self.dilation, strict=True))

    def rounding(self) -> PaddingMode | None:
        """The padding mode of a layer with as many windows; ``None`` where none is proven to have as many."""
        for mode in PaddingMode:
            up = mode is PaddingMode.EXPLICIT_ROUND_UP
            counts = [
                window_count(size, padding=2 * padding, extent=extent, stride=stride, round_up=up)
                for size, padding, extent, stride in zip(
                    self.space.x.shape[2:], self.padding, self.extents, self.stride, strict=True
                )
            ]
            if all(self.write.builder.facts.equal(*pair) for pair in zip(counts, self.counts, strict=True)):
                return mode
        return None

    def filled(self, number: float | bool) -> Value:
        """The input, with ``number`` around it, exactly as far as the windows reach."""
        sizes = [reach(*three) for three in zip(self.counts, self.stride, self.extents, strict=True)]
        return reaching(self.write, self.space.x, self.padding, sizes, number)

    def layer(self, op: PoolingType, mode: PaddingMode | None, *, excludes: bool = False) -> Pooling:
        """A Pooling layer, without padding of its own where there is no mode."""
        none = (0,) * len(self.window)
        padding = none if mode is None else self.padding
        kind = mode or PaddingMode.EXPLICIT_ROUND_DOWN
        return Pooling(op, self.window, self.stride, padding, padding, kind, excludes)


def windows(call: Call, dims: int) -> Windows:
    """The windows that an op's arguments describe."""
    x = call.tensor("self")
    if x.dtype not in NUMBERS:
        raise refuse("pooling-dtype", f"no layer pools {x.dtype.value}")
    space = spatial(call.write, x, dims)
    kernel = call.integers("kernel_size", dims)
    has_stride = bool(call.arguments["stride"])
    stride = call.integers("stride", dims) if has_stride else kernel
    dilation = call.integers("dilation", dims) if "dilation" in call.arguments else (1,) * dims
    counts = tuple(call.out.shape[-dims:])
    return Windows(
        space,
        space.padded(kernel, 1),
        space.padded(stride, 1),
        space.padded(call.integers("padding", dims), 0),
        space.padded(dilation, 1),
        (Num(1),) * (space.dims - dims) + counts,
    )


def greatest(found: Windows) -> Value:
    """The greatest element of each window, by the layer where it can, else as the greatest of slices."""
    x = found.space.x
    if x.dtype.is_float and set(found.dilation) == {1}:
        mode = found.rounding()
        if mode is not None:
            return found.write.add(found.layer(PoolingType.MAX, mode), x)
        return found.write.add(found.layer(PoolingType.MAX, None), found.filled(lowest(x)))
    y = found.filled(lowest(x))
    for axis in range(found.space.dims):
        y = found.write.fold(Op.MAX, [tap(found, y, axis, place) for place in range(found.window[axis])])
    return y


def tap(found: Windows, y: Value, axis: int, place: int) -> Value:
    """Element ``place`` of each window along one dim of space, of what ``filled`` gave."""
    start = place * found.dilation[axis]
    return found.write.part(y, axis + 2, start, found.counts[axis], found.stride[axis])


def lowest(x: Value) -> float | int:
    """What is never greater than another element."""
    return -torch.inf if x.dtype.is_float else torch.iinfo(x.dtype.torch).min


def divisors(found: Windows, *, includes_padding: bool) -> list[Value]:
    """For each dim of space the elements that PyTorch divides by, as float32, in a shape that broadcasts.

    A window's part beyond the padding never counts; its part in the padding where it is included.
    """
    write, made = found.write, []
    sizes: Sequence[Expr] = found.space.x.shape[2:]
    for axis, size in enumerate(sizes):
        padding, window = found.padding[axis], found.window[axis]
        first = write.counting(found.counts[axis], -padding, found.stride[axis])
        end = first + window
        limit = write.sizes.element(size)
        if includes_padding:
            limit = limit + padding
        else:
            first = first.maximum(0)
        count = write.cast(end.minimum(limit) - first, DType.FLOAT32)
        made.append(write.along(count, axis + 2, found.space.x.rank))
    return made
