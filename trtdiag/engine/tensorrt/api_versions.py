"""What differs between TensorRT 8.6, 10 and 11 when a network is written; all of it is here."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch

from trtdiag.network import DType
from trtdiag.targets import COUNTERPARTS, Target

IN_HALF_BYTES = (DType.INT4, DType.FP4)
_FP4 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""The magnitudes of e2m1 in the order of their codes; the sign is the highest bit."""


def in_half_bytes(flat: torch.Tensor, dtype: DType) -> torch.Tensor:
    """The elements as TensorRT reads them: the first of each two in the four lower bits.

    Source: "Working with quantized types" of TensorRT, INT4: "the first element stored in the four least significant
    bits".
    """
    if dtype is DType.INT4:
        codes = flat.to(torch.uint8) & 15
    else:
        size = flat.float().abs()
        codes = torch.searchsorted(torch.tensor(_FP4), size).to(torch.uint8)
        codes = codes | (torch.signbit(flat.float()).to(torch.uint8) << 3)
    if len(codes) % 2:
        codes = torch.cat([codes, codes.new_zeros(1)])
    return codes[0::2] | (codes[1::2] << 4)


_STRONGLY_TYPED_SINCE = (10,)


@dataclass(frozen=True)
class Dialect:
    """TensorRT's Python module with what its version asks for.

    From 10 on networks are strongly typed: each tensor has the type that follows from its inputs.  8.6 chooses types by
    speed, unless every layer is pinned to one (``pin``).

    Attributes:
        trt: The module ``tensorrt``.
        target: What its version takes.
    """

    trt: Any
    target: Target

    @property
    def strongly_typed(self) -> bool:
        """Whether tensors keep the types that their layers give them."""
        return self.target.release >= _STRONGLY_TYPED_SINCE

    @property
    def sizes(self) -> DType:
        """What a Shape layer gives."""
        return DType.INT64 if self.strongly_typed else DType.INT32

    def dtype(self, dtype: DType) -> Any:
        """The member of ``tensorrt.DataType``."""
        return getattr(self.trt.DataType, COUNTERPARTS[dtype.value])

    def member(self, value: Enum) -> Any:
        """TensorRT's member of the same name, of the enum of the same name."""
        return getattr(getattr(self.trt, type(value).__name__), value.name)

    def create_network(self, builder: Any) -> Any:
        """An empty network definition."""
        flags = self.trt.NetworkDefinitionCreationFlag
        flag = flags.STRONGLY_TYPED if self.strongly_typed else flags.EXPLICIT_BATCH
        return builder.create_network(1 << int(flag))

    def weights(self, tensor: torch.Tensor, dtype: DType | None = None) -> tuple[Any, object]:
        """The weights, and what must live as long as they do: TensorRT copies them when it builds, not before.

        They are of the tensor's dtype where none is said.
        Without elements there is no memory either: TensorRT 8.6.0 refuses the address of an empty array, as
        "condition: !weights.values == !weights.count" (seen on an H200).
        """
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        dtype = DType.holding(flat.dtype) if dtype is None else dtype
        if dtype in IN_HALF_BYTES and flat.numel():
            packed = in_half_bytes(flat, dtype)
            return self.trt.Weights(self.dtype(dtype), packed.data_ptr(), flat.numel()), packed
        if not flat.numel():
            return self.trt.Weights(self.dtype(dtype)), flat
        if self.strongly_typed:  # numpy has no bfloat16
            return self.trt.Weights(self.dtype(dtype), flat.data_ptr(), flat.numel()), flat
        array = flat.numpy()
        return self.trt.Weights(array), array

    def add_fill(self, definition: Any, shape: tuple[int, ...], dtype: DType) -> Any:
        """A layer that counts; 8.6 takes the type from alpha and beta, which come as inputs."""
        made = definition.add_fill(shape, self.trt.FillOperation.LINSPACE, *self._said(dtype))
        if made is not None and not self.strongly_typed:
            made.set_output_type(0, self.dtype(dtype))
        return made

    def add_topk(self, definition: Any, x: Any, operation: Any, k: int, axis: int, indices: DType) -> Any:
        """A TopK layer; 8.6 has no indices but int32."""
        return definition.add_topk(x, operation, k, 1 << axis, *self._said(indices))

    def add_non_zero(self, definition: Any, x: Any, indices: DType) -> Any:
        """A NonZero layer; 8.6 has no indices but int32."""
        return definition.add_non_zero(x, *self._said(indices))

    def _said(self, dtype: DType) -> tuple[Any, ...]:
        """A type as a layer's last argument, where the version has it."""
        return (self.dtype(dtype),) if self.strongly_typed else ()

    def add_normalization(self, definition: Any, x: Any, scale: Any, bias: Any, axes: int) -> Any:
        """A Normalization layer; from 10 on with one scale a channel also for groups."""
        add = definition.add_normalization_v2 if self.strongly_typed else definition.add_normalization
        return add(x, scale, bias, axes)

    def pin(self, layer: Any, compute: DType | None, outputs: tuple[DType, ...]) -> None:
        """Hold a layer and its outputs to their types where the version would choose others."""
        if self.strongly_typed:
            return
        if compute is not None:
            layer.precision = self.dtype(compute)
        for index, dtype in enumerate(outputs):
            if dtype.is_float:
                layer.set_output_type(index, self.dtype(dtype))

    def let_go(self, layer: Any) -> None:
        """Let a layer that was held to its types choose them."""
        layer.reset_precision()
        for index in range(layer.num_outputs):
            layer.reset_output_type(index)

    def only_prefer(self, config: Any) -> None:
        """Let layers that are held to their types have others, where no kernel obeys."""
        config.clear_flag(self.trt.BuilderFlag.OBEY_PRECISION_CONSTRAINTS)
        config.set_flag(self.trt.BuilderFlag.PREFER_PRECISION_CONSTRAINTS)

    def choose_types(self, config: Any) -> None:
        """Let every layer have any type that it may be built with, held to one or not."""
        config.clear_flag(self.trt.BuilderFlag.OBEY_PRECISION_CONSTRAINTS)
        config.clear_flag(self.trt.BuilderFlag.PREFER_PRECISION_CONSTRAINTS)

    def tell_origin(self, layer: Any, text: str) -> None:
        """Give a layer what it was written for, where the version keeps that (8.6.1 does, its early access may not)."""
        if hasattr(layer, "metadata"):
            layer.metadata = text

    def type_output(self, tensor: Any, dtype: DType) -> None:
        """Give a network output its type; in strongly typed networks it has it."""
        if not self.strongly_typed:
            tensor.dtype = self.dtype(dtype)
