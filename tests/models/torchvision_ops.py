"""torchvision without its compiled ops: a wheel built for a CUDA torch beside a CPU torch."""

from __future__ import annotations

import importlib.util
from functools import lru_cache
from pathlib import Path

import torch

_NMS = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


@lru_cache(maxsize=1)
def declare_missing_ops() -> torch.library.Library | None:
    """Declare the ops that ``import torchvision`` registers fake kernels for, where its library does not load.

    Without them the import itself fails.  They have no kernel: a model that runs them still fails, one that only
    imports torchvision does not.
    """
    found = importlib.util.find_spec("torchvision")
    if found is None or found.origin is None:
        return None
    for compiled in Path(found.origin).parent.glob("_C.*"):
        try:
            torch.ops.load_library(str(compiled))
        except OSError:
            continue
        return None
    library = torch.library.Library("torchvision", "DEF")
    library.define(f"nms{_NMS}")
    library.define(f"qnms{_NMS}")
    return library
