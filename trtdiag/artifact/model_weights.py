"""Weights of a model from wherever users have them: a state dict, files, another export of the same model."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

import torch
from torch.export import ExportedProgram

from trtdiag.errors import TrtdiagError, UserError
from trtdiag.files.bounded_read import open_regular
from trtdiag.files.safetensors import NotSafetensorsError, read_tensors
from trtdiag.frontend.archive.file_kinds import check_saved_by_torch
from trtdiag.frontend.archive.read import read_archive
from trtdiag.wording import first_line, shown

Weights = Union[Mapping[str, torch.Tensor], torch.nn.Module, ExportedProgram, str, "os.PathLike[str]"]
"""A state dict, a module, an exported program, or a file or folder of one."""
_PICKLES = (".pt", ".pth", ".bin", ".ckpt")
_PROGRAMS = (".pt2", ".ep")
_INDEX = "model.safetensors.index.json"


@dataclass(frozen=True)
class Given:
    """Weights that were given.

    Attributes:
        state: By the name of the parameter.
        program: The program that they are of, where one was given.
        place: What they are called in errors.
        said: Texts that were beside them.
    """

    state: Mapping[str, torch.Tensor]
    place: str
    program: ExportedProgram | None = None
    said: Mapping[str, str] | None = None


def model_weights(weights: Weights) -> Given:
    """The weights by name.

    Args:
        weights: A state dict, a module, an exported program; a ``.safetensors`` file, a file of ``torch.save`` (read
            without unpickling objects), a ``.pt2``, or a folder of safetensors files.

    Raises:
        UserError: ``weights-not-read``.
        CaptureError: A ``.pt2`` cannot be read.
    """
    if isinstance(weights, torch.nn.Module):
        return Given(weights.state_dict(), "the module")
    if isinstance(weights, ExportedProgram):
        return Given(weights.state_dict, "the program", weights)
    if isinstance(weights, Mapping):
        return Given(_tensors(weights, "the state dict"), "the state dict")
    if not isinstance(weights, (str, os.PathLike)):
        raise _refused("the weights", f"{type(weights).__name__} is no state dict, module, program or path")
    path = place_of(weights)
    if os.path.isdir(path):
        return _of_folder(path)
    before = _state_of(path)
    found = _of_file(path)
    if _state_of(path) != before:
        raise _refused(str(path), "it was written to while it was read", "give it again when it is whole")
    return found


def place_of(name: str | os.PathLike[str]) -> Path:
    """The path of a name, in which ``~`` is somebody's folder.

    Raises:
        UserError: ``weights-not-read``: there is nobody of that name.
    """
    try:
        return Path(name).expanduser()
    except RuntimeError as error:
        raise _refused(os.fspath(name), str(error)) from error


def _of_file(path: Path) -> Given:
    if path.suffix in _PROGRAMS:
        exported = read_archive(path).exported
        if exported is None:
            raise _refused(str(path), "it holds no program that can be read")
        return Given(exported.state_dict, str(path), exported)
    try:
        if path.suffix in _PICKLES:
            check_saved_by_torch(path)
            return Given(_tensors(torch.load(path, map_location="cpu", weights_only=True), str(path)), str(path))
        # Read whole: memory that a file is mapped to would change with it.
        state, said = read_tensors(bytearray(path.read_bytes()))
        return Given(state, str(path), said=said)
    except OSError as error:
        raise _refused(str(path), error.strerror or str(error)) from error
    except NotSafetensorsError as error:
        raise _refused(str(path), f"it is no whole safetensors file: {error}") from error
    except TrtdiagError:
        raise
    except pickle.UnpicklingError as error:
        raise _refused(str(path), "it holds more than tensors, and reading that could run code") from error
    except Exception as error:  # whatever torch.load raises on what is no file of its own
        raise _refused(str(path), first_line(error)) from error


def _of_folder(folder: Path) -> Given:
    names = sorted(each.name for each in folder.glob("*.safetensors"))
    try:
        index = folder / _INDEX
        if index.is_file():
            names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _refused(str(folder), f"{_INDEX} cannot be read: {error}") from error
    odd = [name for name in names if not isinstance(name, str) or not name.endswith(".safetensors")]
    if odd:  # a folder's own name would be read for ever
        raise _refused(str(folder), f"{_INDEX} says {shown(odd[0])}, no name of a safetensors file")
    if not names:
        raise _refused(str(folder), "there is no safetensors file in it")
    state: dict[str, torch.Tensor] = {}
    for name in names:
        state |= model_weights(folder / Path(name).name).state
    return Given(state, str(folder))


def _tensors(found: Any, place: str) -> dict[str, torch.Tensor]:
    """The tensors of a state dict, or of a checkpoint that has one as ``state_dict`` or ``model``."""
    for key in ("state_dict", "model"):
        if isinstance(found, Mapping) and isinstance(found.get(key), Mapping):
            found = found[key]
    if not isinstance(found, Mapping) or not all(isinstance(name, str) for name in found):
        raise _refused(place, f"it holds {type(found).__name__}, not tensors by name")
    odd = next((name for name, each in found.items() if not isinstance(each, torch.Tensor)), None)
    if odd is not None:
        raise _refused(place, f"{odd!r} is {type(found[odd]).__name__}, no tensor")
    return dict(found)


def _state_of(path: Path) -> tuple[int, int, int]:
    try:
        with open_regular(path) as file:  # a pipe would be waited for, and a device has no end
            seen = os.fstat(file.fileno())
    except (OSError, ValueError) as error:  # the latter of a name that no file can have
        raise _refused(ascii(str(path)), getattr(error, "strerror", None) or str(error)) from error
    return seen.st_ino, seen.st_size, seen.st_mtime_ns


def _refused(place: str, why: str, fix: str = "") -> UserError:
    return UserError(
        f"the weights in {place} cannot be read" if place != "the weights" else "these are no weights",
        because=why,
        fix=fix or "give a state dict, a .safetensors file, a file of torch.save(model.state_dict()), or a .pt2",
        reference="weights-not-read",
    )
