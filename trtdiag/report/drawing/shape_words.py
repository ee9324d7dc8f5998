"""Shapes of values in the user's words."""

from __future__ import annotations

from torch import Tensor
from torch.fx import Node

from trtdiag.analysis.result import Analysis
from trtdiag.graph.values import NodeReader, NumberValue, TensorValue, Value
from trtdiag.shapes.facts import Size, TensorSizes
from trtdiag.symbolic import Condition, Expr, Num, to_text
from trtdiag.wording import dtype_text, one_line

_SHORT_DTYPES = {
    "float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "int64": "i64", "int32": "i32",
    "int16": "i16", "int8": "i8", "uint8": "u8", "bool": "bool", "complex64": "c64", "complex128": "c128",
}  # fmt: skip
_MOST_OUTPUTS = 3


class ShapeWords:
    """Says a node's shape and the ranges in it; equal expressions are put into words once.

    A dim goes by the name that the user declared, else by its place.
    """

    def __init__(self, analysis: Analysis) -> None:
        self._shapes = analysis.shapes
        self._names = analysis.program.words
        self._reader = NodeReader()
        self._texts: dict[Expr | Condition, str] = {}

    def of(self, name: str, node: Node) -> tuple[str, str]:
        """``("f32[batch, 8]", "batch 1..8")`` for a node."""
        if self._shapes is not None:
            tensors = self._shapes.tensors.get(name)
            if tensors:
                return self._of_tensors(tensors)
            scalar = self._shapes.scalars.get(name)
            if scalar is not None:
                return self.size(scalar.expr), self._range(scalar)
        values = self._reader.read(node)
        return _joined([self._of_value(value) for value in values]), ""

    def _of_tensors(self, tensors: tuple[TensorSizes, ...]) -> tuple[str, str]:
        shapes = [_tensor(tensor.dtype, [self.size(size.expr) for size in tensor.dims]) for tensor in tensors]
        ranges = (self._range(size) for tensor in tensors for size in tensor.dims)
        return _joined(shapes), ", ".join(dict.fromkeys(text for text in ranges if text))

    def _of_value(self, value: Value) -> str:
        if isinstance(value, TensorValue):
            return _tensor(str(value.dtype), [self.size(dim) for dim in value.dims])
        if isinstance(value, NumberValue):
            return value.kind if value.expr is None else self.size(value.expr)
        return ""

    def _range(self, size: Size) -> str:
        if isinstance(size.expr, Num):
            return ""
        return f"{self.size(size.expr)} {'' if size.exact else 'within '}{size.range}"

    def number(self, node: Node) -> str:
        """The number that a node yields; empty where it yields anything else."""
        if isinstance(node.meta.get("val"), Tensor):  # nearly all, and reading the sizes of one costs most here
            return ""
        values = self._reader.read(node)
        return self._of_value(values[0]) if len(values) == 1 and isinstance(values[0], NumberValue) else ""

    def size(self, expr: Expr | Condition) -> str:
        """A size in the user's words."""
        known = self._texts.get(expr)
        if known is None:
            known = self._texts[expr] = one_line(to_text(expr, self._names), 80)
        return known


def short_dtype(dtype: object) -> str:
    """``f16`` for ``torch.float16``."""
    plain = dtype_text(dtype)
    return _SHORT_DTYPES.get(plain, plain)


def _tensor(dtype: str, dims: list[str]) -> str:
    return f"{short_dtype(dtype)}[{', '.join(dims)}]"


def _joined(shapes: list[str]) -> str:
    shown = [shape for shape in shapes if shape][:_MOST_OUTPUTS]
    return ", ".join(shown) + (", …" if len(shapes) > _MOST_OUTPUTS else "")
