"""The facts of the dtypes stage: tensors that a target has no counterpart for, or would narrow."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from trtdiag.dtypes.value_span import Span
from trtdiag.graph.source import Frame
from trtdiag.symbolic.ranges import Range


class Role(Enum):
    """What a tensor is to the program."""

    INPUT = "input"
    CONSTANT = "constant"
    OUTPUT = "output"
    INNER = "inner"


class Fit(Enum):
    """Whether int64 values fit into int32."""

    FITS = "fits"
    OVERFLOWS = "overflows"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class WideTensor:
    """An int64 tensor: its value range as far as known, and whether int32 holds every value.

    ``why`` says where the range comes from (``arange(0, seq) with seq <= 256``, ``values read: 0..7``,
    ``user input, any int64``) .
    """

    node: str
    role: Role
    values: Range
    fit: Fit
    why: str
    frame: Frame | None


@dataclass(frozen=True)
class OddTensor:
    """A tensor of a dtype that needs attention: float64, or one that TensorRT has no counterpart for.

    ``root`` is True where no input of the node has that dtype already (the op that introduces it); ``called`` is what
    the user calls a weight or a constant of the model (``layers.0.scale``), empty for other tensors.
    """

    node: str
    role: Role
    dtype: str
    op: str
    root: bool
    frame: Frame | None
    called: str = ""


@dataclass(frozen=True)
class QuantizedReader:
    """An op that computes with floats that come of quantized numbers.

    Attributes:
        node: Its name.
        op: As one writes it.
        floats: Whether no kernel computes it in INT8.
        beside: The other operand of a product, where that comes of no quantized numbers.
    """

    node: str
    op: str
    floats: bool
    beside: str = ""


@dataclass(frozen=True)
class QuantizedTensor:
    """A tensor that is quantized, at one of the places where floats come of it again.

    Attributes:
        node: The node that dequantizes, or does both at once; that which quantizes where products of integers follow.
        op: As one writes it.
        frame: Its source line.
        weight: Whether a constant is quantized.
        made_by: The op whose result is quantized; empty for inputs and weights of the program.
        by_product: Whether that is a convolution or a product.
        from_data: Whether scales or zero points are computed from the data.
        symmetric: Whether 0 stands for 0; ``None`` where that is not known.
        odd_axis: Why TensorRT does not fuse scales along this dim; empty where it does.
        readers: Who computes with it.
    """

    node: str
    op: str
    frame: Frame | None
    weight: bool
    made_by: str
    by_product: bool
    from_data: bool
    symmetric: bool | None
    odd_axis: str
    readers: tuple[QuantizedReader, ...]


@dataclass(frozen=True)
class DtypeFacts:
    """The dtypes of a program for one target.

    Attributes:
        target: Version text of the target.
        counts: dtype text -> number of tensor values, most frequent first.
        int64: Every int64 tensor, graph order.
        float64: Every float64 tensor.
        unsupported: Tensors of dtypes without counterpart on the target (complex, uint16, ...).
        native_int64: Whether the target has int64.
        constants: What was read of the program's tensors, for ``plan_types``; no fact of its own.
        quantized: What is quantized, in graph order.
    """

    target: str
    counts: tuple[tuple[str, int], ...]
    int64: tuple[WideTensor, ...]
    float64: tuple[OddTensor, ...]
    unsupported: tuple[OddTensor, ...]
    native_int64: bool
    constants: Mapping[Hashable, Span] = field(default_factory=dict, repr=False, compare=False)
    quantized: tuple[QuantizedTensor, ...] = ()
