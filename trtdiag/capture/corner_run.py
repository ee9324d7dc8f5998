"""Runs an exported program on shapes: fake tensors of given sizes, guards on, no memory and no arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import Any

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv
from torch.utils import _pytree as pytree

from trtdiag.capture.program import InputDim, InputTensor
from trtdiag.symbolic import evaluate

_UNDECIDABLE = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    GuardOnDataDependentSymNode,
    NotImplementedError,
)


class NotRunnableError(Exception):
    """Shapes alone do not tell how this program goes on; the reason is a readable clause."""


class ShapeRunner:
    """Runs one program at any number of points.

    Args:
        exported: The program.
        inputs: Its user inputs in order, sizes over the symbols of the points.
        args: Example inputs: their dtype, device and structure count, and the sizes of what is not dynamic.
        kwargs: The same.

    Raises:
        NotRunnableError: Its inputs have another structure than the example's.
    """

    def __init__(self, exported: ExportedProgram, inputs: Sequence[InputTensor], args: Any, kwargs: Any) -> None:
        self._leaves, self._spec = pytree.tree_flatten((tuple(args), dict(kwargs or {})))
        if len(self._leaves) != len(inputs):
            raise NotRunnableError("its inputs have another structure than the example's")
        self._inputs = inputs
        self._example = {
            dim.site: int(leaf.shape[dim.index])
            for leaf, tensor in zip(self._leaves, inputs, strict=True)
            if isinstance(leaf, torch.Tensor)
            for dim in tensor.dims
        }
        self._module = exported.module()

    def size(self, dim: InputDim, point: Mapping[str, int]) -> int:
        """The size of an input dim at ``point``; the example's where a symbol of it has no value there."""
        try:
            return int(evaluate(dim.expr, point))
        except KeyError:
            return self._example[dim.site]

    def refusal(self, point: Mapping[str, int]) -> str:
        """Why the program refuses the sizes of ``point`` (symbol -> value); empty where it takes them.

        Raises:
            NotRunnableError: What the program does depends on data.
        """
        # No size is symbolic here, so every guard of the program is decided by numbers.
        mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv())
        with mode, torch.no_grad(), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            args, kwargs = pytree.tree_unflatten([self._fake(*pair, point) for pair in self._pairs()], self._spec)
            try:
                self._module(*args, **kwargs)
            except _UNDECIDABLE as error:
                raise NotRunnableError(f"{type(error).__name__}: {_first_line(error)}") from error
            except Exception as error:  # whatever refuses these sizes, its words are the answer
                if isinstance(error.__context__, _UNDECIDABLE) or "data-dependent" in str(error):
                    raise NotRunnableError(_first_line(error)) from error
                return f"{type(error).__name__}: {_first_line(error)}"
        return ""

    def _pairs(self) -> Iterable[tuple[Any, InputTensor]]:
        return zip(self._leaves, self._inputs, strict=True)

    def _fake(self, leaf: Any, tensor: InputTensor, point: Mapping[str, int]) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        sizes = [self.size(dim, point) for dim in tensor.dims]
        try:
            return torch.empty(sizes, dtype=leaf.dtype, device=leaf.device)
        except RuntimeError as error:  # the bytes of such a tensor do not fit into 64 bits
            raise NotRunnableError(f"no tensor of {sizes} can be made: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else "no message"
