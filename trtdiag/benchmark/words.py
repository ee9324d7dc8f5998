"""Words for sizes, tensors and what a program computes in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from trtdiag.benchmark.facts import AS_EXPORTED
from trtdiag.frontend.program import Program
from trtdiag.runtime.compiled import CompiledProgram

_PRECISION = {"keep": AS_EXPORTED, "fp16": "float16", "bf16": "bfloat16"}


def compiled_words(compiled: CompiledProgram) -> str:
    """Return what a compiled program computes in."""
    return _PRECISION[compiled.options.precision.value if compiled.options is not None else "keep"]


def tensor_words(name: str, value: Any) -> str:
    """Return a tensor as ``x float32 (2, 3)``, anything else as ``n=5``."""
    if not isinstance(value, torch.Tensor):
        return f"{name}={value}"
    return f"{name} {str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"


def named_sizes(program: Program, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return sizes by the user's names of the symbols."""
    return {program.names.get(symbol, symbol): size for symbol, size in sizes.items()}
