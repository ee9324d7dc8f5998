"""The original as an ONNX file."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from pathlib import Path

import torch

from trtdiag.benching.original import Original
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
        torch.onnx.export(
            original.module,
            args,
            str(path),
            kwargs=kwargs or None,
            input_names=names,
            dynamic_axes={name: own for name, own in axes.items() if own},
            opset_version=OPSET,
            dynamo=False,
        )


def _is_number(dim: object) -> bool:
    return isinstance(getattr(dim, "expr", None), Num)
