"""float32 as engines compute it unless they are told otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def in_whole_float32() -> Iterator[None]:
    """PyTorch computes float32 with all of its bits: TF32 keeps 10 of 23.

    Set by hand: monkeypatch deletes what an object has by ``__getattr__`` alone, and torch refuses that.
    """
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32
    matmul.allow_tf32 = cudnn.allow_tf32 = False
    try:
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32 = before
