"""``torch.compile`` with its own compiler."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import torch

from trtdiag.benchmark.eager import way_of
from trtdiag.benchmark.original import Original
from trtdiag.benchmark.ways import Ready
from trtdiag.errors import PlatformError
from trtdiag.runtime.compiled import CompiledProgram


def prepare(original: Original, compiled: CompiledProgram) -> Ready:
    """Return the original's module, compiled anew for each set of sizes; with CUDA graphs on a GPU.

    Raises:
        PlatformError: ``inductor-missing``: on a GPU it needs triton.
    """
    del compiled
    on_gpu = original.device.type == "cuda"
    if on_gpu and find_spec("triton") is None:
        raise PlatformError(
            "inductor cannot compile for a GPU here",
            because="the Python package triton is not installed",
            fix="install the triton of this PyTorch, or leave inductor out",
            reference="inductor-missing",
        )

    def compiled_anew(function: Any) -> Any:
        torch.compiler.reset()
        return torch.compile(function, mode="reduce-overhead" if on_gpu else "default", dynamic=False)

    return way_of(original, compiled_anew)
