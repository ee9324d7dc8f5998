"""Outputs whose sizes TensorRT knows only while it runs: it asks for their memory, and says their shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from typing import Any

import torch

from trtdiag.errors import InternalError


class CountedOutputs:
    """The outputs of one execution context whose sizes the data decides; PyTorch gives their memory.

    TensorRT waits for the device before it asks, and has said all shapes when ``execute_async_v3`` returns.

    Args:
        trt: The module ``tensorrt``.
        context: The execution context.
        outputs: The dtype of each of them, by name.
        device: Where their memory is.
    """

    def __init__(self, trt: Any, context: Any, outputs: Mapping[str, torch.dtype], device: torch.device) -> None:
        self._context, self._outputs = context, outputs
        self._allocator = _new_allocator(trt, device)
        for name in outputs:
            if not context.set_output_allocator(name, self._allocator):
                raise _refused(f"TensorRT takes no memory on demand for {name!r}")

    @contextmanager
    def asked(self) -> Iterator[None]:
        """A run: what kept PyTorch from giving memory is raised in the place of TensorRT's error."""
        own = self._allocator
        own.given, own.shapes, own.asked, own.fault = {}, {}, [], None
        try:
            yield
        except InternalError as error:
            if own.fault is not None:
                raise own.fault from error
            raise

    def tensors(self) -> dict[str, torch.Tensor]:
        """The outputs after a run, by name.

        Raises:
            InternalError: ``tensorrt-run`` where TensorRT has not said a shape, or has not asked for memory.
        """
        made = {name: self._tensor(name, dtype) for name, dtype in self._outputs.items()}
        self._allocator.given = {}  # they live as long as whoever gets them wants
        return made

    def _tensor(self, name: str, dtype: torch.dtype) -> torch.Tensor:
        shape = self._allocator.shapes.get(name) or tuple(self._context.get_tensor_shape(name))
        if any(size < 0 for size in shape):
            raise _refused(f"TensorRT has not said the shape of {name!r}: {shape}")
        memory = self._allocator.given.get(name)
        length = prod(shape) * dtype.itemsize
        if length == 0:
            return torch.empty(shape, dtype=dtype, device=self._allocator.device)
        if memory is None or memory.numel() < length:
            asked = ", ".join(str(size) for asker, size in self._allocator.asked if asker == name) or "none"
            raise _refused(f"TensorRT has not asked for the memory of {name!r}: {shape}, {length} bytes, not {asked}")
        # TensorRT may ask for as much as could come, before it knows how much does.
        own: torch.Tensor = memory[:length].view(dtype).reshape(shape)
        return own if 2 * length > memory.numel() else own.clone()


def _new_allocator(trt: Any, device: torch.device) -> Any:
    class Allocator(trt.IOutputAllocator):  # type: ignore[misc]  # the class is known when TensorRT is imported
        def __init__(self) -> None:
            trt.IOutputAllocator.__init__(self)
            self.device = device
            self.given: dict[str, torch.Tensor] = {}
            self.shapes: dict[str, tuple[int, ...]] = {}
            self.asked: list[tuple[str, int]] = []
            self.fault: Exception | None = None

        def reallocate_output(self, tensor_name: str, memory: Any, size: int, alignment: int) -> int:
            # Never the memory of the run before, which was handed out.
            del memory
            self.asked.append((tensor_name, size))
            try:
                size = max(size, 1)
                made = torch.empty(size, dtype=torch.uint8, device=self.device)
                if made.data_ptr() % alignment:
                    wider = torch.empty(size + alignment, dtype=torch.uint8, device=self.device)
                    made = wider.narrow(0, -wider.data_ptr() % alignment, size)
            except Exception as fault:  # TensorRT swallows it: the run fails, and says nothing of memory
                self.fault = fault
                return 0
            self.given[tensor_name] = made
            return made.data_ptr()

        def reallocate_output_async(self, tensor_name: str, memory: Any, size: int, alignment: int, stream: int) -> int:
            del stream  # PyTorch's current one, on which it allocates
            return self.reallocate_output(tensor_name, memory, size, alignment)

        def notify_shape(self, tensor_name: str, shape: Any) -> None:
            self.shapes[tensor_name] = tuple(shape)

    return Allocator()


def _refused(message: str) -> InternalError:
    return InternalError(
        message,
        because="how large it is depends on the values of the inputs, and TensorRT tells that while it runs",
        fix="leave the op that chooses by values to PyTorch (keep_in_torch), and report this with the model",
        reference="tensorrt-run",
    )
