"""Weights by content: equal tensors are one, whatever they were called."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Hashable, Mapping
from shutil import disk_usage
from threading import Lock
from typing import IO

import torch

from trtdiag.graph.values import memory_state
from trtdiag.network.dtype import DType

ALIGNMENT = 16
"""Bytes: the greatest element is 8, and the system's allocator gives memory in steps of 16."""
Places = Mapping[str, tuple[int, DType, tuple[int, ...]]]
"""Where each weight begins in a file, and what it is."""


def weight_bytes(weight: torch.Tensor) -> memoryview:
    """The elements as they lie in memory, little endian, without a copy where ``weight`` is contiguous on the CPU."""
    flat = weight.detach().cpu().contiguous().reshape(-1)
    if flat.stride(0) != 1:  # one element counts as contiguous whatever its stride; a view as bytes refuses it
        flat = flat.as_strided(flat.shape, (1,))
    return flat.view(torch.uint8).numpy().data


def weight_key(weight: torch.Tensor) -> str:
    """A name that only a tensor of the same dtype, shape and bytes has.

    Cost: reads all bytes once.
    """
    digest = hashlib.sha256(f"{DType.holding(weight.dtype).value}{list(weight.shape)}".encode())
    digest.update(weight_bytes(weight))
    return digest.hexdigest()


class WeightKeys:
    """The keys of weights that were asked for before, so that each is hashed once.

    It holds the weights, so that no other takes the place of one in memory.

    Args:
        recipe: How a weight is made of a program's parameters, where that is to be known of constants; weights of other
            recipes are other constants, for they are equal only as long as the parameters are.
    """

    def __init__(self, recipe: Callable[[torch.Tensor], Hashable] = lambda _weight: None) -> None:
        self.recipe = recipe
        self._known: dict[tuple[Hashable, ...], tuple[torch.Tensor, str]] = {}

    def of(self, weight: torch.Tensor) -> str:
        """The ``weight_key``; not computed again while the tensor has the same place, layout and version."""
        state = memory_state(weight)
        if state is None:
            return weight_key(weight)
        if state not in self._known:
            self._known[state] = (weight, weight_key(weight))
        return self._known[state][1]

    def add(self, weight: torch.Tensor, key: str) -> None:
        """Remember a key that was computed elsewhere."""
        state = memory_state(weight)
        if state is not None:
            self._known[state] = (weight, key)


def weight_from_bytes(dtype: DType, shape: tuple[int, ...], content: memoryview) -> torch.Tensor:
    """The tensor whose ``weight_bytes`` are ``content``: in their place, or a copy where they may not be written to."""
    if not len(content):
        return torch.empty(shape, dtype=dtype.torch)
    if not content.readonly:
        lying = torch.frombuffer(content, dtype=torch.uint8)
        if lying.data_ptr() % ALIGNMENT == 0:
            return lying.view(dtype.torch).reshape(shape)
    return torch.frombuffer(bytearray(content), dtype=torch.uint8).view(dtype.torch).reshape(shape)


class WeightsFile:
    """A file without a name that the processes map, with each weight once."""

    def __init__(self) -> None:
        self.file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  whoever made it closes it
        self._lock = Lock()
        self._places: dict[str, tuple[int, DType, tuple[int, ...]]] = {}
        self._end = 0

    def places(self, weights: Mapping[str, torch.Tensor]) -> Places:
        """Where weights are, by key; those that are not there yet are written.

        Raises:
            OSError: There is no room for them.
        """
        with self._lock:
            new = {key: weight for key, weight in weights.items() if key not in self._places}
            if disk_usage(tempfile.gettempdir()).free < 2 * sum(weight.nbytes for weight in new.values()):
                raise OSError(f"{tempfile.gettempdir()} has too little room for the weights")
            self.file.seek(self._end)
            for key, weight in new.items():
                self.file.write(weight_bytes(weight))
                self.file.write(b"\0" * (-weight.nbytes % ALIGNMENT))
                self._places[key] = self._end, DType.holding(weight.dtype), tuple(weight.shape)
                self._end = self.file.tell()
            self.file.flush()
            return {key: self._places[key] for key in weights}

    def clear(self) -> None:
        """Give its room on the disk back; no process reads it now."""
        with self._lock:
            self._places.clear()
            self._end = 0
            self.file.truncate(0)
