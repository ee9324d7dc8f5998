"""One op as a converter sees it: its arguments by name, in network values, and what it must yield."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from trtdiag.convert.refusal import refuse
from trtdiag.convert.writer import Writer
from trtdiag.graph.operators import OpOverload, short_name
from trtdiag.network import DType, Tensor, Value
from trtdiag.symbolic import Expr, Num, as_expr, is_condition, to_text

_DIMS = re.compile(r"\d(?=d)")


@dataclass(frozen=True)
class Call:
    """One op with its arguments.

    Attributes:
        op: The op.
        arguments: By schema name, defaults filled in: network values, expressions for sizes, Python values.
        outputs: The planned dtype of each output, and its shape over program symbols; ``None`` for one that nobody
            reads or that has no value.
        write: Writes layers.
        held: The content of arguments that the program itself brings (weights), by schema name; of one in a list
            by ``indices[1]``.
        reads_in_order: Whether it looks at memory by strides, and its tensor lies there in the order of its dims.
        half_asked: Whether the user asked for half precision; otherwise what is in it is so in the program.
    """

    op: OpOverload
    arguments: Mapping[str, Any]
    outputs: tuple[Tensor | None, ...]
    write: Writer
    held: Mapping[str, torch.Tensor] = field(default_factory=dict)
    reads_in_order: bool = False
    half_asked: bool = False

    @property
    def out(self) -> Tensor:
        """What the first output must be."""
        first = self.outputs[0]
        if first is None:
            raise refuse("output-unknown", "its output is neither a tensor nor known")
        return first

    @property
    def op_name(self) -> str:
        """The op without namespace and overload: ``max_pool2d``."""
        return short_name(self.op)

    @property
    def dims(self) -> int:
        """The dims of space in the name of the op: 2 of ``max_pool2d``."""
        return int(_DIMS.findall(self.op_name)[-1])

    def has(self, name: str) -> bool:
        """Whether an argument is there and is not ``None``."""
        return self.arguments.get(name) is not None

    def tensor(self, name: str) -> Value:
        """A tensor argument."""
        value = self.arguments[name]
        if isinstance(value, Value):
            return value
        if isinstance(value, (bool, int, float)):  # a number in the place of a tensor
            dtype = self.out.dtype
            return self.write.number(value, dtype)
        raise refuse("argument-kind", f"its argument {name} is no tensor here")

    def tensor_or_none(self, name: str) -> Value | None:
        """An optional tensor argument."""
        return self.tensor(name) if self.has(name) else None

    def tensors(self, name: str) -> list[Value]:
        """A list of tensors without gaps."""
        values = self.tensors_or_none(name)
        if any(value is None for value in values):
            raise refuse("argument-kind", f"its argument {name} has a gap")
        return [value for value in values if value is not None]

    def tensors_or_none(self, name: str) -> list[Value | None]:
        """A list of tensors, ``None`` where one is left out."""
        values = self.arguments[name]
        if not all(value is None or isinstance(value, Value) for value in values):
            raise refuse("argument-kind", f"its argument {name} is no list of tensors")
        return list(values)

    def size(self, name: str) -> Expr:
        """A size: a number, or an expression."""
        return self._size(self.arguments[name], name)

    def size_or_none(self, name: str) -> Expr | None:
        """An optional size."""
        return self.size(name) if self.has(name) else None

    def sizes(self, name: str) -> tuple[Expr, ...]:
        """A list of sizes; one number stands for a list of it."""
        value = self.arguments[name]
        listed = value if isinstance(value, (list, tuple)) else [value]
        return tuple(self._size(item, name) for item in listed)

    def integer(self, name: str) -> int:
        """A number that must be known at compile time."""
        value = self.size(name)
        if not isinstance(value, Num):
            raise refuse(
                "dynamic-attribute",
                f"{name} is {to_text(value)}, and the layer needs a number there",
                f"make {name} a Python number",
            )
        return int(value.value)

    def integers(self, name: str, count: int | None = None) -> tuple[int, ...]:
        """Numbers that must be known; a single one is repeated ``count`` times."""
        sizes = self.sizes(name)
        if not all(isinstance(size, Num) for size in sizes):
            dynamic = ", ".join(to_text(size) for size in sizes if not isinstance(size, Num))
            raise refuse("dynamic-attribute", f"{name} has {dynamic}, and the layer needs numbers there")
        numbers = tuple(int(size.value) for size in sizes if isinstance(size, Num))
        return numbers * count if count is not None and len(numbers) == 1 else numbers

    def axis(self, name: str, rank: int) -> int:
        """An axis counted from the front."""
        return self.integer(name) % rank if rank else 0

    def axes(self, name: str, rank: int) -> tuple[int, ...]:
        """Axes counted from the front, sorted, each once; all of them where none is named."""
        value = self.arguments.get(name)
        if value is None or (isinstance(value, (list, tuple)) and not value):
            return tuple(range(rank))
        return tuple(sorted({axis % rank if rank else 0 for axis in self.integers(name)})) if rank else ()

    def named_axes(self, name: str, rank: int) -> tuple[int, ...]:
        """The same, but none where a list names none."""
        return () if self.arguments.get(name) == [] else self.axes(name, rank)

    def flag(self, name: str) -> bool:
        """A flag; false where the op has none of this name."""
        return bool(self.arguments.get(name, False))

    def number(self, name: str) -> int | float | bool:
        """A number that is known at compile time."""
        value = self.arguments[name]
        if isinstance(value, (bool, int, float)):
            return value
        if isinstance(value, Num):
            return int(value.value) if isinstance(value.value, int) else float(value.value)
        raise refuse("dynamic-attribute", f"{name} is known only when the network runs")

    def number_or_none(self, name: str) -> int | float | bool | None:
        """An optional number."""
        return self.number(name) if self.has(name) else None

    def operand(self, name: str, dtype: DType) -> Value:
        """A tensor, a number or a size in ``dtype``, without dims unless it has them."""
        value = self.arguments[name]
        if isinstance(value, Value):
            return self.write.cast(value, dtype)
        if isinstance(value, (bool, int, float)):
            return self.write.number(value, dtype)
        expr = value if is_condition(value) else as_expr(value)
        if isinstance(expr, Num):
            return self.write.number(self.number(name), dtype)
        sizes = self.write.sizes
        real = dtype.is_float and not is_condition(value)
        vector = sizes.real(expr, dtype) if real else self.write.cast(sizes.element(expr), dtype)
        return self.write.reshape(vector, [])

    def is_number(self, name: str) -> bool:
        """Whether an argument is a plain number."""
        return isinstance(self.arguments.get(name), (bool, int, float))

    def _size(self, value: object, name: str) -> Expr:
        if isinstance(value, (bool, int)):
            return Num(int(value))
        if isinstance(value, (Value, float, str)) or value is None:
            raise refuse("argument-kind", f"{name} is {type(value).__name__}, and a size is needed there")
        if is_condition(value):  # type: ignore[arg-type]
            raise refuse("argument-kind", f"{name} is a condition, and a size is needed there")
        return value  # type: ignore[return-value]
