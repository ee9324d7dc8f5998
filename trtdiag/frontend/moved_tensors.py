"""Tensors on another device: each copied once, those that share memory still sharing it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor, in_kernel_invocation_manager

from trtdiag.graph.inputs import storage_key

_ALIAS: OpOverload = torch.ops.aten.alias.default


class MovedTensors:
    """Gives tensors on a device; one that is there already is given as it is.

    Args:
        device: With its index, where it has several.
        every: All tensors that will be asked for: those of one storage go there together.
    """

    def __init__(self, device: torch.device, every: Iterable[Any] = ()) -> None:
        self._device = device
        distinct = {id(tensor): tensor for tensor in every if _is_plain(tensor)}
        self._users = Counter(storage_key(tensor) for tensor in distinct.values())
        self._moved: dict[int, tuple[Any, Any]] = {}  # with the original: its id is another's once it is gone
        self._storages: dict[int, Tensor] = {}

    def of(self, value: Any) -> Any:
        """The tensor there; a fake one stays fake, and one without content (meta) and what is no tensor as they are."""
        if not isinstance(value, Tensor):
            return value
        known = self._moved.get(id(value))
        if known is None:
            with torch.no_grad():
                known = self._moved[id(value)] = (value, self._made(value))
        return known[1]

    def _made(self, tensor: Tensor) -> Tensor:
        if isinstance(tensor, FakeTensor):
            fake = fake_on(tensor, self._device)
            return nn.Parameter(fake, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else fake
        if tensor.device == self._device or tensor.device.type == "meta":
            return tensor
        if not _is_plain(tensor):
            return tensor.to(self._device)
        shared = self._users[storage_key(tensor)] > 1
        moved = None if shared else tensor.detach().to(self._device)
        if moved is None or moved.stride() != tensor.stride():
            moved = self._viewed(tensor)
        if isinstance(tensor, nn.Parameter):
            return nn.Parameter(moved, requires_grad=tensor.requires_grad)
        return moved.requires_grad_(tensor.requires_grad)

    def _viewed(self, tensor: Tensor) -> Tensor:
        """The same elements of the same storage, as strided."""
        at = storage_key(tensor)
        if at not in self._storages:
            bytes_ = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())
            self._storages[at] = bytes_.to(self._device)
        storage = self._storages[at].untyped_storage()
        made = torch.empty(0, dtype=tensor.dtype, device=self._device)
        return made.set_(storage, tensor.storage_offset(), tensor.size(), tensor.stride())


def fake_on(value: FakeTensor, device: torch.device) -> FakeTensor:
    """The same value of a trace on another device, in the same fake mode; sizes and strides are not looked at."""
    with in_kernel_invocation_manager(value.fake_mode):
        content_free = _ALIAS(value)
    return FakeTensor(value.fake_mode, content_free, device)


def _is_plain(value: Any) -> bool:
    return type(value) in (Tensor, nn.Parameter, nn.Buffer) and value.layout is torch.strided
