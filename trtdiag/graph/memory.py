"""Where a tensor's elements lie, and in which state."""

from __future__ import annotations

from collections.abc import Hashable

import torch


def memory_state(tensor: torch.Tensor) -> tuple[Hashable, ...] | None:
    """What two tensors with the same elements in the same memory share, as long as nobody writes there.

    ``None`` where torch does not count the writes to it (inference tensors), or where it has no memory of its own.
    While one of them lives, no other tensor has an equal state.  A write through ``.data`` is not counted.
    """
    if tensor.is_inference() or tensor.layout is not torch.strided or tensor.device.type == "meta":
        return None
    place = (tensor.device, tensor.untyped_storage().data_ptr(), tensor.storage_offset())
    turned = (tensor.is_conj(), tensor.is_neg())
    version = tensor._version  # noqa: SLF001 - torch has no public count of writes
    return (*place, tensor.dtype, tuple(tensor.shape), tensor.stride(), *turned, version)
