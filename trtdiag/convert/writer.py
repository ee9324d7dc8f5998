"""What converters write with: layers, and the few compositions of them that every family needs."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch

from trtdiag.convert.refused import refuse
from trtdiag.convert.sizes import Ask, SizeWriter
from trtdiag.network.builder import NetworkBuilder, Value
from trtdiag.network.dtype import DType
from trtdiag.network.layer import INPUT, Given, Layer
from trtdiag.network.layers.activation import Activation, ActivationType
from trtdiag.network.layers.cast import Cast
from trtdiag.network.layers.concatenation import Concatenation
from trtdiag.network.layers.constant import Fill
from trtdiag.network.layers.elementwise import ElementWise, ElementWiseOperation, Select
from trtdiag.network.layers.gather import Gather
from trtdiag.network.layers.reduce import Reduce, ReduceOperation
from trtdiag.network.layers.shuffle import Shuffle
from trtdiag.network.layers.slice import SampleMode, Slice
from trtdiag.network.layers.unary import Unary, UnaryOperation
from trtdiag.symbolic import Expr, Num, as_expr, to_text
from trtdiag.targets.target import Target

Size = Expr | int
ONE = Num(1)


class Writer:
    """Writes layers into a network for one target; sizes are numbers or expressions over the network's symbols.

    Attributes:
        builder: The network being written.
        target: Its target.
        sizes: Writes sizes as tensors.
        index: The dtype of sizes and indices on the target: int64, or int32 where there is none.
    """

    def __init__(self, builder: NetworkBuilder, target: Target, ask: Ask | None = None) -> None:
        self.builder = builder
        self.target = target
        self.index = DType.INT64 if "int64" in target.dtypes else DType.INT32
        self.sizes = SizeWriter(builder, self.index, ask)

    def add(self, layer: Layer, *inputs: Value) -> Value:
        """The output of a layer that has one."""
        value = self.builder.add_single(layer, *inputs)
        self.sizes.note(value)
        return value

    def add_all(self, layer: Layer, *inputs: Value) -> tuple[Value, ...]:
        """The outputs of a layer."""
        values = self.builder.add(layer, *inputs)
        for value in values:
            self.sizes.note(value)
        return values

    # Constants

    def constant(self, content: torch.Tensor) -> Value:
        """A tensor that the network brings."""
        return self.builder.constant(content)

    def scalar(self, number: float | bool, like: Value, rank: int | None = None) -> Value:
        """A number in the dtype of ``like`` with its rank, every dim 1, so that it broadcasts."""
        return self.number(number, like.dtype, like.rank if rank is None else rank)

    def number(self, number: float | bool, dtype: DType, rank: int = 0) -> Value:
        """A number as a tensor with ``rank`` dims of size 1."""
        finite = number == number and abs(number) != float("inf")
        if dtype.is_float:
            fits = not finite or abs(number) <= torch.finfo(dtype.torch).max
        else:
            fits = dtype is DType.BOOL or (finite and dtype.holds(int(number)))
        if fits:
            return self.constant(torch.full([1] * rank, number, dtype=dtype.torch))
        raise refuse("number-range", f"{number} does not fit into {dtype.value}")

    def filled(self, shape: Sequence[Size], number: float | bool, dtype: DType) -> Value:
        """A tensor that holds one number everywhere."""
        return self.broadcast_to(self.number(number, dtype, len(shape)), shape)

    def counting(self, length: Size, start: Value | int = 0, step: Value | int = 1) -> Value:
        """``start + step * i`` for i below ``length``, in ``index`` dtype."""
        size = as_expr(length)
        if isinstance(start, int) and isinstance(step, int):
            if isinstance(size, Num):
                return self.add(Fill((int(size.value),), self.index, start, (step,)))
            return self.add(Fill(INPUT, self.index, start, (step,)), self.sizes.vector([size]))
        begin = start if isinstance(start, Value) else self.number(start, self.index)
        by = step if isinstance(step, Value) else self.number(step, self.index, 1)
        return self.add(Fill(INPUT, self.index, INPUT, INPUT), self.sizes.vector([size]), begin, by)

    # One element

    def cast(self, x: Value, dtype: DType) -> Value:
        """``x`` in ``dtype``; itself where it is that already.

        TensorRT converts uint8 to and from float32 and float16 only; float32 holds all of its numbers.
        """
        if DType.UINT8 in (x.dtype, dtype) and not {x.dtype, dtype} & {DType.FLOAT32, DType.FLOAT16}:
            x = x if x.dtype is dtype else self.add(Cast(DType.FLOAT32), x)
        return x if x.dtype is dtype else self.add(Cast(dtype), x)

    def unary(self, op: UnaryOperation, x: Value) -> Value:
        """A Unary layer."""
        return self.add(Unary(op), x)

    def activation(self, op: ActivationType, x: Value, alpha: float = 0.0, beta: float = 0.0) -> Value:
        """An Activation layer."""
        return self.add(Activation(op, alpha, beta), x)

    # Two and three tensors

    def elementwise(self, op: ElementWiseOperation, left: Value, right: Value) -> Value:
        """An ElementWise layer, after the one of lower rank got leading dims of 1.

        Dims that are one dynamic size here and 1 there broadcast; a dynamic size that may be 1 does not.
        """
        a, b = self.aligned(left, right)
        return self.add(ElementWise(op), a, b)

    def select(self, condition: Value, then: Value, otherwise: Value) -> Value:
        """A Select layer, ranks aligned."""
        c, a, b = self.aligned(condition, then, otherwise)
        return self.add(Select(), c, a, b)

    def aligned(self, *values: Value) -> tuple[Value, ...]:
        """The values with leading dims of 1 up to the highest rank among them.

        Raises:
            Refused: ``broadcast-not-proven`` where two sizes are not proven to be equal, and neither is 1.
        """
        rank = max(value.rank for value in values)
        same = tuple(self.with_rank(value, rank) for value in values)
        for axis in range(rank):
            size: Expr = ONE
            for value in same:
                joint = self.builder.facts.broadcast(size, value.shape[axis])
                if joint is None:
                    told = f"{to_text(size)} and {to_text(value.shape[axis])}"
                    raise refuse(
                        "broadcast-not-proven", f"dim {axis - rank} of its operands is {told}, not proven equal"
                    )
                size = joint
        return same

    def with_rank(self, x: Value, rank: int) -> Value:
        """``x`` with leading dims of 1."""
        return x if x.rank == rank else self.unsqueeze(x, range(rank - x.rank))

    # Shapes

    def reshape(self, x: Value, shape: Sequence[Size]) -> Value:
        """The elements of ``x``, in row-major order, in another shape of as many elements."""
        wanted = tuple(as_expr(size) for size in shape)
        if wanted == x.shape:
            return x
        dynamic = [axis for axis, size in enumerate(wanted) if not isinstance(size, Num)]
        zero = any(size == Num(0) for size in wanted)
        if not dynamic:
            return self.add(Shuffle(reshape=_ints(wanted), zero_is_placeholder=False), x)
        placed = [
            0 if axis < x.rank and size == x.shape[axis] else -1 if not isinstance(size, Num) else int(size.value)
            for axis, size in enumerate(wanted)
        ]
        rests = [axis for axis in dynamic if placed[axis] == -1]
        if not zero and len(rests) <= 1 and (not rests or self._is_rest(x, wanted, rests[0])):
            return self.add(Shuffle(reshape=tuple(placed)), x)
        return self.add(Shuffle(reshape=INPUT, zero_is_placeholder=False), x, self.sizes.vector(wanted))

    def _is_rest(self, x: Value, wanted: Sequence[Expr], place: int) -> bool:
        """Whether -1 in a place means the wanted size."""
        others = [size for axis, size in enumerate(wanted) if axis != place]
        return self.builder.facts.quotient(x.shape, others) == wanted[place]

    def permute(self, x: Value, order: Sequence[int]) -> Value:
        """Dim i of the result is dim ``order[i]`` of ``x``."""
        same = list(order) == list(range(x.rank))
        return x if same else self.add(Shuffle(first=tuple(order)), x)

    def unsqueeze(self, x: Value, axes: Sequence[int]) -> Value:
        """New dims of size 1 at ``axes`` of the result."""
        shape: list[Expr] = list(x.shape)
        for axis in sorted(axes):
            shape.insert(axis, ONE)
        return self._moved(x, shape)

    def squeeze(self, x: Value, axes: Sequence[int]) -> Value:
        """``x`` without ``axes``, each of size 1."""
        return self._moved(x, [size for axis, size in enumerate(x.shape) if axis not in set(axes)])

    def _moved(self, x: Value, shape: Sequence[Expr]) -> Value:
        """``x`` with dims of size 1 put in or left out."""
        dynamic = [size for size in shape if not isinstance(size, Num)]
        if len(dynamic) <= 1 or tuple(shape) == x.shape:
            return self.reshape(x, shape)
        # More than one dynamic size: each keeps its place with 0 as long as no dim before it came or went; the
        # others are read off the shape of x.
        source = [axis for axis, size in enumerate(x.shape) if size != ONE]
        kept = [axis for axis, size in enumerate(shape) if size != ONE]
        same = [x.shape[axis] for axis in source] == [shape[axis] for axis in kept]
        placed = [int(size.value) if isinstance(size, Num) else None for size in shape]
        if same:
            for old, new in zip(source, kept, strict=True):
                if placed[new] is None and old == new:
                    placed[new] = 0
            if placed.count(None) <= 1 and 0 not in _ints([s for s in shape if isinstance(s, Num)]):
                return self.add(Shuffle(reshape=tuple(-1 if size is None else size for size in placed)), x)
        return self.reshape(x, shape)

    def broadcast_to(self, x: Value, shape: Sequence[Size]) -> Value:
        """``x`` repeated along its dims of size 1, and new leading dims, up to ``shape``."""
        wanted = tuple(as_expr(size) for size in shape)
        x = self.with_rank(x, len(wanted))
        if x.shape == wanted or not wanted:
            return x
        stride = tuple(0 if size == ONE else 1 for size in x.shape)
        return self.slice(x, [0] * x.rank, wanted, stride)

    def slice(
        self,
        x: Value,
        start: Sequence[Size | Value],
        size: Sequence[Size],
        stride: Sequence[int],
        mode: SampleMode = SampleMode.STRICT_BOUNDS,
        fill: Value | None = None,
    ) -> Value:
        """A Slice layer; what is no number enters as a tensor."""
        starts = [value if isinstance(value, Value) else as_expr(value) for value in start]
        sizes = [as_expr(value) for value in size]
        inputs: list[Value] = []
        begin: tuple[int, ...] | Given
        count: tuple[int, ...] | Given
        if all(isinstance(value, Num) for value in starts):
            begin = _ints([value for value in starts if isinstance(value, Num)])
        else:
            begin = INPUT
            inputs.append(self._starts(starts))
        if all(isinstance(value, Num) for value in sizes):
            count = _ints(sizes)
        else:
            count = INPUT
            inputs.append(self.sizes.vector(sizes))
        inputs += [fill] if fill is not None else []
        return self.add(Slice(begin, count, tuple(stride), mode), x, *inputs)

    def _starts(self, starts: Sequence[Expr | Value]) -> Value:
        parts = [
            self.reshape(self.cast(value, self.index), [1]) if isinstance(value, Value) else self.sizes.element(value)
            for value in starts
        ]
        return parts[0] if len(parts) == 1 else self.add(Concatenation(0), *parts)

    def part(self, x: Value, axis: int, start: Size, length: Size, step: int = 1) -> Value:
        """``length`` elements along one axis."""
        begins: list[Size] = [0] * x.rank
        sizes: list[Size] = list(x.shape)
        steps = [1] * x.rank
        begins[axis], sizes[axis], steps[axis] = start, length, step
        if as_expr(start) == Num(0) and as_expr(length) == x.shape[axis] and step == 1:
            return x
        return self.slice(x, begins, sizes, steps)

    def concat(self, values: Sequence[Value], axis: int) -> Value:
        """The values one after the other."""
        return values[0] if len(values) == 1 else self.add(Concatenation(axis), *values)

    def gather(self, x: Value, indices: Value, axis: int) -> Value:
        """Slices of ``x`` across ``axis``, by index."""
        return self.add(Gather(axis=axis), x, indices)

    def reduce(self, op: ReduceOperation, x: Value, axes: Sequence[int], keep_dims: bool = False) -> Value:
        """A Reduce layer; ``x`` where there is no axis."""
        return self.add(Reduce(op, tuple(axes), keep_dims), x) if axes else x


def _ints(sizes: Sequence[Expr]) -> tuple[int, ...]:
    return tuple(int(size.value) for size in sizes if isinstance(size, Num))


def elements(shape: Sequence[Expr]) -> int | None:
    """How many elements a shape has, where all sizes are numbers."""
    numbers = _ints(shape)
    return prod(numbers) if len(numbers) == len(shape) else None
