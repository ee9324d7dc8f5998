"""Writes a program as ``torch.export.save`` does, with large weights straight from where they are.

torch makes a copy of each weight in memory to write it, and an engine is one weight.  So torch writes the program with
one element in the place of each large weight, into memory; its members are then copied to the file as they are, but for
these weights and for what is said of their sizes.
"""

from __future__ import annotations

import copy
import io
import json
import zipfile
from collections import Counter
from collections.abc import Mapping
from typing import IO, Any

import torch
from torch.export import ExportedProgram
from torch.export.pt2_archive import PT2ArchiveWriter

from trtdiag.frontend.archive.serializable_sizes import with_saved_sizes
from trtdiag.frontend.archive.summary import CONSTANTS, EXTRA, WEIGHTS
from trtdiag.graph.inputs import held_tensors, storage_key

LARGE_BYTES = 1 << 20
"""Own choice: what is smaller torch may copy."""
_MODEL = "model"
_CONFIGS = {f"{WEIGHTS}{_MODEL}_weights_config.json": WEIGHTS, f"{CONSTANTS}{_MODEL}_constants_config.json": CONSTANTS}
_OF_THE_WRITER = (".data/", "byteorder", "version")
"""Members that torch's writer of archives adds by itself."""


def save_program(
    exported: ExportedProgram,
    file: IO[bytes],
    extra: Mapping[str, str],
    tensors: Mapping[str, torch.Tensor] | None = None,
) -> None:
    """Write a program with further texts.

    Args:
        exported: The program; it stays as it is.
        file: Takes the bytes in order.
        extra: What ``torch.export.load`` gives as ``extra_files``.
        tensors: Further members, by name: the elements of contiguous tensors on the CPU.

    Raises:
        Exception: Whatever torch, or the code of a type in the program, raises on what cannot be saved.
    """
    exported = with_saved_sizes(exported)
    large = _large(exported)
    if large or tensors:
        small = io.BytesIO()
        torch.export.save(_without(exported, large), small)
        with zipfile.ZipFile(small) as archive:
            root = archive.namelist()[0].partition("/")[0] + "/"
            members = {name[len(root) :]: archive.read(name) for name in archive.namelist()}
        del small
        places = _placed(members, large)
        if places is not None:
            _write(file, members, {**places, **(tensors or {})}, extra)
            return
        if tensors:
            raise ValueError("this torch writes programs in another way than was known")
    torch.export.save(exported, file, extra_files=dict(extra))


def _large(exported: ExportedProgram) -> dict[str, torch.Tensor]:
    """Weights that are large, lie in the order of their dims, and have memory of their own."""
    users = Counter(storage_key(tensor) for tensor in held_tensors(exported))
    named = {**exported.constants, **exported.state_dict}
    return {
        name: tensor
        for name, tensor in named.items()
        if type(tensor) in (torch.Tensor, torch.nn.Parameter)
        if tensor.layout == torch.strided and tensor.device.type == "cpu" and tensor.is_contiguous()
        if tensor.nbytes >= LARGE_BYTES and tensor.nbytes == tensor.untyped_storage().nbytes()
        if users[storage_key(tensor)] == 1 and not (name in exported.constants and name in exported.state_dict)
    }


def _without(exported: ExportedProgram, large: Mapping[str, torch.Tensor]) -> ExportedProgram:
    """The program with one element in the place of each of these."""
    made = copy.copy(exported)
    one = {name: _one(tensor) for name, tensor in large.items()}
    made._state_dict = {name: one.get(name, held) for name, held in exported.state_dict.items()}
    made._constants = {name: one.get(name, held) for name, held in exported.constants.items()}
    return made


def _one(tensor: torch.Tensor) -> torch.Tensor:
    made = torch.zeros((1,) * tensor.dim(), dtype=tensor.dtype)
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(made, requires_grad=tensor.requires_grad)
    return made.requires_grad_(tensor.requires_grad)


def _placed(members: dict[str, bytes], large: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor] | None:
    """The member of each large weight, with their sizes now said in ``members``.

    ``None`` where torch has said something else of them than is known here: it is a newer one.
    """
    places: dict[str, torch.Tensor] = {}
    for config, folder in _CONFIGS.items():
        try:
            told: dict[str, Any] = json.loads(members[config])
            entries: dict[str, Any] = told["config"]
            for name in entries.keys() & large.keys():
                entry, tensor = entries[name], large[name]
                meta, member, one = entry["tensor_meta"], folder + entry["path_name"], [{"as_int": 1}] * tensor.dim()
                known = not entry["use_pickle"] and meta["storage_offset"] == {"as_int": 0}
                if not known or meta["sizes"] != one or meta["strides"] != one or member in places:
                    return None
                if len(members[member]) != tensor.itemsize:
                    return None
                meta["sizes"] = [{"as_int": size} for size in tensor.shape]
                meta["strides"] = [{"as_int": step} for step in tensor.stride()]
                places[member] = tensor
        except (KeyError, TypeError, ValueError, AttributeError):
            return None
        members[config] = json.dumps(told).encode()
    return places if len(places) == len(large) else None


def _write(
    file: IO[bytes], members: Mapping[str, bytes], places: Mapping[str, torch.Tensor], extra: Mapping[str, str]
) -> None:
    with PT2ArchiveWriter(file) as archive:
        for name, content in {**members, **dict.fromkeys(places.keys() - members.keys(), b"")}.items():
            if name.startswith(_OF_THE_WRITER):
                continue
            weight = places.get(name)
            if weight is None:
                archive.write_bytes(name, content)
            else:
                whole = weight if weight.nbytes == weight.untyped_storage().nbytes() else weight.clone()
                archive.archive_file.write_record(name, whole.untyped_storage(), weight.nbytes)  # type: ignore[arg-type]  # as torch.save does
        for name, text in extra.items():
            archive.write_string(EXTRA + name, text)
