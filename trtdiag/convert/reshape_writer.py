"""Adds layers to a network; reshapes, permutes, slices and broadcasts tensors, below the operators of ``Writer``."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import torch

from trtdiag.convert.refusal import refuse
from trtdiag.convert.shape_tensor_writer import Ask, ShapeTensorWriter
from trtdiag.network import DType, NetworkBuilder, Value
from trtdiag.network.layer import INPUT, Layer, Sizes
from trtdiag.network.layers import Cast, Concatenation, Gather, SampleMode, Shuffle, Slice, Squeeze
from trtdiag.network.missing_features import lacks
from trtdiag.symbolic import Expr, Num, as_expr, to_text
from trtdiag.targets.target import Target

Size = Expr | int
ZERO, ONE = Num(0), Num(1)


class ReshapeWriter:
    """Writes layers, and those that change shapes; sizes are numbers or expressions over the network's symbols.

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
        self.sizes = ShapeTensorWriter(builder, self.index, ask)
        self.chosen: dict[tuple[str, int], tuple[str, Value, Value]] = {}
        """By the program's symbol of a number of places and the tensor they were looked for in: the network's symbol,
        that tensor, and the places."""
        self._once: dict[Hashable, Value] = {}

    def once(self, what: Hashable, make: Callable[[], Value]) -> Value:
        """What ``make`` writes, written when it is first asked for under this name."""
        if what not in self._once:
            self._once[what] = make()
        return self._once[what]

    def add(self, layer: Layer, *inputs: Value) -> Value:
        """The output of a layer that has one."""
        return self.add_all(layer, *inputs)[0]

    def add_all(self, layer: Layer, *inputs: Value) -> tuple[Value, ...]:
        """The outputs of a layer."""
        missing = lacks(self.target, layer, [value.tensor for value in inputs])
        if missing is not None:
            raise refuse("layer-missing", f"{self.target.name} has no {missing}")
        values = self.builder.add(layer, *inputs)
        for value in values:
            if value.dtype.value not in self.target.dtypes:
                raise refuse("dtype-missing", f"{self.target.name} has no {value.dtype.value}")
            if value.rank > self.target.max_rank:
                most = self.target.max_rank
                raise refuse("rank", f"it needs a tensor of {value.rank} dims; TensorRT has {most} at most")
            self.sizes.note(value)
        return values

    def constant(self, content: torch.Tensor, dtype: DType | None = None) -> Value:
        """A tensor that the network brings; ``dtype`` is said for a quantized one."""
        return self.builder.constant(content, dtype=dtype)

    def attribute(self, sizes: Sequence[Expr]) -> tuple[Sizes, list[Value]]:
        """Sizes as an attribute of a layer, or as its next input where not all are numbers."""
        known = numbers(sizes)
        return (INPUT, [self.sizes.vector(sizes)]) if known is None else (known, [])

    def cast(self, x: Value, dtype: DType) -> Value:
        """``x`` in ``dtype``; itself where it is that already."""
        return x if x.dtype is dtype else self.add(Cast(dtype), x)

    def reshape(self, x: Value, shape: Sequence[Size]) -> Value:
        """The elements of ``x``, in row-major order, in another shape of as many elements.

        One layer, without a tensor of sizes wherever 0 for a size that keeps its place and one -1 say the same for
        all sizes, empty ones included.
        """
        wanted = tuple(as_expr(size) for size in shape)
        if len(wanted) == x.rank and all(self.builder.facts.equal(*pair) for pair in zip(x.shape, wanted, strict=True)):
            return x
        static = numbers(wanted)
        if static is not None:
            return self.add(Shuffle(reshape=static, zero_is_placeholder=False), x)
        placed = self._placed(x, wanted)
        if placed is not None:
            return self.add(Shuffle(reshape=placed), x)
        facts = self.builder.facts
        if facts.quotient(x.shape, wanted) != ONE and not facts.same_count(x.shape, wanted):
            words = f"({', '.join(map(to_text, x.shape))}) and ({', '.join(map(to_text, wanted))})"
            raise refuse("size-not-proven", f"shapes {words} are not proven to have equally many elements")
        return self.add(Shuffle(reshape=INPUT, zero_is_placeholder=False), x, self.sizes.vector(wanted))

    def _placed(self, x: Value, wanted: Sequence[Expr]) -> tuple[int, ...] | None:
        """The sizes with 0 for what keeps its place and at most one -1; ``None`` where these do not say it."""
        facts = self.builder.facts
        placed: list[int] = []
        for axis, size in enumerate(wanted):
            if isinstance(size, Num) and size.value != 0:
                placed.append(int(size.value))
            elif axis < x.rank and facts.equal(size, x.shape[axis]):
                placed.append(0)
            else:
                placed.append(-1)
        if -1 not in placed:
            return tuple(placed)
        rest = placed.index(-1)
        others = [size for axis, size in enumerate(wanted) if axis != rest]
        # Beside an empty dim, -1 can be anything.
        if placed.count(-1) > 1 or wanted[rest] == ZERO or not all(facts.at_least(size, 1) for size in others):
            return None
        found = facts.quotient(x.shape, others)
        return tuple(placed) if found is not None and facts.equal(found, wanted[rest]) else None

    def along(self, x: Value, axis: int, rank: int) -> Value:
        """The dims of ``x`` as those of ``rank`` dims from ``axis`` on, the others 1, so that it broadcasts."""
        return self.reshape(x, [*[1] * axis, *x.shape, *[1] * (rank - axis - x.rank)])

    def with_rank(self, x: Value, rank: int) -> Value:
        """``x`` with leading dims of 1."""
        return x if x.rank == rank else self.unsqueeze(x, range(rank - x.rank))

    def permute(self, x: Value, order: Sequence[int]) -> Value:
        """Dim i of the result is dim ``order[i]`` of ``x``."""
        same = list(order) == list(range(x.rank))
        return x if same else self.add(Shuffle(first=tuple(order)), x)

    def unsqueeze(self, x: Value, axes: Sequence[int]) -> Value:
        """New dims of size 1 at ``axes`` of the result."""
        new = sorted(axes)
        if not new:
            return x
        shape: list[Expr] = list(x.shape)
        for axis in new:
            shape.insert(axis, ONE)
        if numbers(shape) is not None or self._placed(x, shape) is not None:
            return self.reshape(x, shape)
        # Behind all others, which then keep their places, and from there to where they belong.
        kept = [axis for axis in range(len(shape)) if axis not in new]
        order = [kept.index(axis) if axis in kept else x.rank + new.index(axis) for axis in range(len(shape))]
        return self.add(Shuffle(reshape=(0,) * x.rank + (1,) * len(new), second=tuple(order)), x)

    def squeeze(self, x: Value, axes: Sequence[int]) -> Value:
        """``x`` without ``axes``, each of size 1."""
        gone = sorted(set(axes))
        kept = [axis for axis in range(x.rank) if axis not in gone]
        shape = [x.shape[axis] for axis in kept]
        if numbers(shape) is not None or self._placed(x, shape) is not None:
            return self.reshape(x, shape)
        if "Squeeze" in self.target.layers:
            return self.add(Squeeze(tuple(gone)), x)
        return self.add(Shuffle(reshape=(0,) * len(kept)), self.permute(x, kept + gone))

    def broadcast_to(self, x: Value, shape: Sequence[Size]) -> Value:
        """``x`` repeated along its dims of size 1, and new leading dims, up to ``shape``."""
        wanted = tuple(as_expr(size) for size in shape)
        x = self.with_rank(x, len(wanted))
        stride: list[int] = []
        for axis, (size, goal) in enumerate(zip(x.shape, wanted, strict=True)):
            same = self.builder.facts.equal(size, goal)
            if not same and size != ONE:
                why = f"dim {axis}: {to_text(size)} is proven neither to be {to_text(goal)} nor 1"
                raise refuse("size-not-proven", why)
            stride.append(int(same))
        return x if all(stride) else self.slice(x, [0] * x.rank, wanted, stride)

    def slice(
        self,
        x: Value,
        start: Sequence[Size | Value],
        size: Sequence[Size],
        stride: Sequence[int],
        mode: SampleMode = SampleMode.STRICT_BOUNDS,
        fill: Value | None = None,
    ) -> Value:
        """A Slice layer; what is no number enters as a tensor.

        Bools reach over their ends as integers where the target samples none.
        """
        if x.dtype is DType.BOOL and mode is not SampleMode.STRICT_BOUNDS and not self.target.samples_bools:
            filling = None if fill is None else self.cast(fill, DType.INT32)
            return self.cast(self.slice(self.cast(x, DType.INT32), start, size, stride, mode, filling), DType.BOOL)
        starts = [value if isinstance(value, Value) else as_expr(value) for value in start]
        begin = numbers([value for value in starts if isinstance(value, Num)])
        first: list[Value] = []
        if len(begin or ()) < len(starts):
            begin, first = None, [self._starts(starts)]
        count, inputs = self.attribute([as_expr(value) for value in size])
        inputs += [fill] if fill is not None else []
        return self.add(Slice(INPUT if begin is None else begin, count, tuple(stride), mode), x, *first, *inputs)

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
        if as_expr(start) == ZERO and step == 1 and self.builder.facts.equal(as_expr(length), x.shape[axis]):
            return x
        return self.slice(x, begins, sizes, steps)

    def concat(self, values: Sequence[Value], axis: int) -> Value:
        """The values one after the other."""
        return values[0] if len(values) == 1 else self.add(Concatenation(axis), *values)

    def gather(self, x: Value, indices: Value, axis: int) -> Value:
        """Slices of ``x`` across ``axis``, by index."""
        return self.add(Gather(axis=axis), x, indices)


def numbers(sizes: Sequence[Expr]) -> tuple[int, ...] | None:
    """The sizes, where all of them are numbers."""
    found = tuple(int(size.value) for size in sizes if isinstance(size, Num))
    return found if len(found) == len(sizes) else None
