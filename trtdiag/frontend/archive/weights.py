"""Tensors of an archive from their raw bytes."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._export.serde import schema, serialize

from trtdiag.frontend.archive.errors import refusal, unsafe_pickle
from trtdiag.frontend.archive.safe_load import UnsafePickleError, load_plain
from trtdiag.frontend.archive.zip_members import Container
from trtdiag.frontend.move_to_device import is_here
from trtdiag.wording import one_of_type

Progress = Callable[[str, int, int], None]
# Weights saved without content (a program exported under fake tensors) are declared in a few bytes, so that their
# sum is what has to be bounded.
LIMIT_EMPTY_BYTES = 1 << 36
_MEMBER = re.compile(r"[A-Za-z0-9_.-]+")
CUSTOM_OBJECT_PREFIXES = ("custom_obj_", "opaque_obj_")
MAPPED_BYTES = 1 << 20
"""Own choice: members of fewer bytes are read, and checked, in any case."""
_MOST_READ_BYTES = 1 << 26
"""Own choice, of such members together: what exceeds it is mapped, too."""
_ALIGNMENT = 16
"""Bytes: the greatest element.  torch begins members at multiples of 64; other tools need not."""


class PayloadReader:
    """Reads the weights or constants of one archive.

    Large weights are not read but mapped, so that they cost no memory until they are looked at, and then no more than
    the system has to spare.  Wide integers are read: they may be indices, and what was found of them must stay so.

    Args:
        container: The archive.
        progress: Called with what is read, bytes done and bytes in all.
        whole: Whether the checksums of weights that are mapped are verified, which reads them once.
    """

    def __init__(self, container: Container, progress: Progress | None = None, *, whole: bool = True) -> None:
        self.container = container
        self._progress = progress
        self._whole = whole
        self._read_bytes = 0
        self._empty_bytes = 0
        self._done = 0
        self._total = sum(container.size(name) for name in container.names if name.startswith("data/"))
        self.notes: list[str] = []

    def tensors(self, folder: str, config: schema.PayloadConfig) -> dict[str, torch.Tensor]:
        """Every tensor by its name in the program; names that share a member share memory.

        Raises:
            CaptureError: A member is missing, damaged, of the wrong size, or only a full unpickler could read it.
        """
        objects = [name for name, each in config.config.items() if each.path_name.startswith(CUSTOM_OBJECT_PREFIXES)]
        if objects:
            raise refusal("custom-object", self.container.file, ", ".join(objects[:5]))
        storages: dict[str, torch.Tensor] = {}
        tensors: dict[str, torch.Tensor] = {}
        for name, payload in config.config.items():
            member = self._member(folder, payload.path_name)
            try:
                if payload.use_pickle:
                    tensors[name] = self._unpickled(member)
                    continue
                meta = payload.tensor_meta
                if meta is None:
                    raise refusal("corrupt-program", self.container.file, member, f"{name} has no shape")
                if member not in storages:
                    storages[member] = self._storage(member, meta)
                tensors[name] = _shaped(storages[member], meta, is_parameter=payload.is_param)
            except (AssertionError, KeyError, OverflowError, RuntimeError, TypeError, ValueError) as error:
                # as_strided refuses what reaches beyond the bytes; the others are sizes or dtypes that cannot be.
                reason = str(error).strip().partition("\n")[0][:200]
                raise refusal("corrupt-program", self.container.file, member, f"{name}: {reason}") from error
        return tensors

    def _member(self, folder: str, path_name: str) -> str:
        member = folder + path_name
        if not _MEMBER.fullmatch(path_name) or member not in self.container:
            raise refusal("corrupt-program", self.container.file, folder, f"there is no member {path_name[:80]!r}")
        return member

    def _unpickled(self, member: str) -> torch.Tensor:
        # torch writes a pickle for tensor subclasses only; a plain tensor in one is read all the same.
        value = _loaded(self.container, member, "a tensor")
        if not isinstance(value, torch.Tensor):
            raise refusal("corrupt-program", self.container.file, member, f"it is {one_of_type(value)}, no tensor")
        return value

    def _storage(self, member: str, meta: schema.TensorMeta) -> torch.Tensor:
        """All bytes of a member as one flat tensor."""
        size_bytes = self.container.size(member)
        dtype = serialize.deserialize_scalar_type(meta.dtype)
        if size_bytes == 0:
            return self._zeros(member, meta, dtype)
        if size_bytes % dtype.itemsize:
            raise ValueError(f"{size_bytes} bytes are no whole number of {dtype}")
        flat = self._mapped(member, size_bytes, dtype)
        if flat is None:
            flat = torch.empty(size_bytes, dtype=torch.uint8)
            self.container.read_into(member, flat.numpy().data)
            self._read_bytes += size_bytes
        self._done += size_bytes
        if self._progress is not None:
            self._progress(member, self._done, self._total)
        return self._placed(flat.view(dtype), meta)

    def _mapped(self, member: str, size_bytes: int, dtype: torch.dtype) -> torch.Tensor | None:
        """The bytes of a member in the memory of its file; ``None`` where they are to be read."""
        if size_bytes < MAPPED_BYTES and self._read_bytes + size_bytes <= _MOST_READ_BYTES:
            return None
        if dtype.itemsize > 1 and not dtype.is_floating_point and not dtype.is_complex:
            return None
        found = self.container.mapped(member)
        if found is None or found[1] % _ALIGNMENT:
            return None
        if self._whole:
            self.container.verify(member)
        file, start = found
        return torch.frombuffer(file, dtype=torch.uint8, count=size_bytes, offset=start)

    def _zeros(self, member: str, meta: schema.TensorMeta, dtype: torch.dtype) -> torch.Tensor:
        sizes = serialize.deserialize_size(meta.sizes)
        elements = math.prod(sizes)
        self._empty_bytes += max(0, elements) * dtype.itemsize
        if self._empty_bytes > LIMIT_EMPTY_BYTES:
            detail = (
                f"tensors without content add up to {self._empty_bytes:,} bytes; the limit is {LIMIT_EMPTY_BYTES:,}"
            )
            raise refusal("too-large", self.container.file, detail)
        if elements:
            self._note(f"{member} and others were saved without content: zeros stand in for them")
        return self._placed(torch.zeros(sizes, dtype=dtype), meta)

    def _placed(self, flat: torch.Tensor, meta: schema.TensorMeta) -> torch.Tensor:
        device = serialize.deserialize_device(meta.device)
        if device.type == "cpu":
            return flat
        if not is_here(device):
            self._note(f"weights were saved from {device}, which this machine lacks: they are on the CPU")
            return flat
        return flat.to(device)

    def _note(self, text: str) -> None:
        kind = text.partition(" ")[2]
        if not any(note.partition(" ")[2] == kind for note in self.notes):
            self.notes.append(text)


def check_byte_order(container: Container) -> None:
    """Raises where the file was written on a machine of the other byte order: torch would read wrong numbers."""
    if "byteorder" not in container:
        return
    written = container.read("byteorder").decode("ascii", "replace").strip()
    if written != sys.byteorder:
        detail = f"it was written on a {written[:20]}-endian machine, and this one is {sys.byteorder}-endian"
        raise refusal("unsupported-archive", container.file, detail)


def plain_state(container: Container, member: str) -> dict[str, Any]:
    """The dict of tensors that torch 2.8 and before kept in one saved file.

    Raises:
        CaptureError: It asks for more than tensors, or it is no dict.
    """
    if not container.size(member):
        return {}
    state = _loaded(container, member, "its tensors")
    if not isinstance(state, Mapping):
        raise refusal("corrupt-program", container.file, member, f"it is {one_of_type(state)}, no dict of tensors")
    return dict(state)


def _loaded(container: Container, member: str, what: str) -> object:
    try:
        return load_plain(container.read(member), member)
    except UnsafePickleError as error:
        raise unsafe_pickle(container.file, member, error.globals, what) from error


def _shaped(flat: torch.Tensor, meta: schema.TensorMeta, *, is_parameter: bool) -> torch.Tensor:
    view = torch.as_strided(
        flat,
        serialize.deserialize_size(meta.sizes),
        serialize.deserialize_stride(meta.strides),
        serialize.deserialize_storage_offset(meta.storage_offset),
    )
    if is_parameter:
        return torch.nn.Parameter(view, requires_grad=meta.requires_grad)
    return view.requires_grad_(True) if meta.requires_grad else view
