"""float32 as engines compute it unless they are told otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def in_whole_float32() -> Iterator[None]:
    """PyTorch computes float32 with all of its bits: TF32 keeps 10 of 23.

    By torch's own ``flags``: cuDNN's cannot be assigned once something has called ``disable_global_flags``, which
    torch's testing modules do when they are imported.
    """
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32
    others = {"enabled": cudnn.enabled, "benchmark": cudnn.benchmark, "deterministic": cudnn.deterministic}
    matmul.allow_tf32 = False
    try:
        with cudnn.flags(**others, allow_tf32=False):
            yield
    finally:
        matmul.allow_tf32 = before
