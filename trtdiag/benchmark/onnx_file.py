"""The original as an ONNX file."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from trtdiag.benchmark.original import Original
from trtdiag.graph.pytree import flattened, leaves_of, rebuilt
from trtdiag.symbolic import Num

OPSET = 17
"""Has LayerNormalization.  Source: onnx-tensorrt 8.6, docs/operators.md: it reads operators up to Opset 17."""


def write_onnx(original: Original, path: Path) -> None:
    """Write the file, with the dims dynamic that the program has dynamic, its inputs named as in the program.

    torch's exporter of programs writes it where onnxscript is installed, its older one by tracing where not; they raise
    what they like.
    """
    inputs = [tensor for tensor in original.program.inputs if tensor.dtype is not None]
    names = [tensor.placeholder for tensor in inputs]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, about the exporter itself
        if find_spec("onnxscript") is not None:
            torch.onnx.export(original.exported, (), str(path), input_names=names, dynamo=True, verbose=False)
            return
        args, kwargs = original.inputs(original.sizes("opt"))
        axes = {
            tensor.placeholder: {d.index: f"{tensor.placeholder}_{d.index}" for d in tensor.dims if not _is_number(d)}
            for tensor in inputs
        }
        flat = _Flat(original.module, args, kwargs)
        torch.onnx.export(
            flat,
            flat.tensors,
            str(path),
            input_names=names,
            dynamic_axes={name: own for name, own in axes.items() if own},
            opset_version=OPSET,
            training=torch.onnx.TrainingMode.PRESERVE,  # modules of exported programs cannot be told a mode
            dynamo=False,
        )


class _Flat(torch.nn.Module):
    """A module that takes the tensors of its arguments one by one, as the older exporter wants them."""

    def __init__(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super().__init__()
        self.module = module
        self._leaves, self._spec = flattened((args, kwargs))
        self.tensors = tuple(leaf for leaf in self._leaves if isinstance(leaf, torch.Tensor))

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The tensors among what the module returns."""
        given = iter(tensors)
        leaves = [next(given) if isinstance(leaf, torch.Tensor) else leaf for leaf in self._leaves]
        args, kwargs = rebuilt(leaves, self._spec)
        return tuple(leaf for leaf in leaves_of(self.module(*args, **kwargs)) if isinstance(leaf, torch.Tensor))


def _is_number(dim: object) -> bool:
    return isinstance(getattr(dim, "expr", None), Num)
