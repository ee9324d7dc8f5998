"""A source with what it is to be exported with, where it does not bring that itself."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from trtdiag.errors import ArgumentError, CaptureError
from trtdiag.files.bounded_read import reason
from trtdiag.frontend.archive.file_kinds import check_saved_by_torch
from trtdiag.frontend.capture import Source, names_factory
from trtdiag.frontend.factory import load_factory, made_by
from trtdiag.frontend.hugging_face import brings_its_own, folder_source
from trtdiag.frontend.module_inputs import Inputs, ModuleInputs, module_inputs
from trtdiag.frontend.user_code import users_code
from trtdiag.wording import one_of_type


def resolve_source(source: Any, inputs: Inputs | None = None, *, meta: bool = False, unpickle: bool = False) -> Source:
    """The source that ``capture`` takes.

    Args:
        source: What ``capture`` takes, or a module, or what names one: a folder of Hugging Face,
            ``package.module:name`` or ``path/to/file.py:name`` of a class or function without arguments that gives a
            module, a file of ``torch.save(module)``.
        inputs: What to export a module with.
        meta: Whether to make the model on the meta device, without weights.
        unpickle: Whether a file may be a pickled module, whose reading runs code that it names.

    Raises:
        ArgumentError: ``wrong-argument``: the source brings its own inputs or weights, or they do not fit it.
        CaptureError: It cannot be made.
    """
    if isinstance(source, torch.nn.Module) and inputs is not None and not meta:
        return module_inputs(source, inputs)
    if isinstance(source, (str, PathLike)):
        text = os.fspath(source)
        if os.path.isdir(text):
            return folder_source(Path(text), inputs, meta=meta)
        if names_factory(text) and (inputs is not None or meta):
            return _factory_source(load_factory(text), text, inputs, meta=meta)
        if unpickle and inputs is not None:
            return _pickled(Path(text), inputs)
    elif _is_factory(source) and (inputs is not None or meta):
        return _factory_source(source, getattr(source, "__qualname__", "factory"), inputs, meta=meta)
    if unpickle:
        raise ArgumentError(
            "a pickled module needs its inputs",
            because="unpickle is given without inputs, or for what is no file",
            fix="give the file of torch.save(module), and --inputs NAME=SIZES:DTYPE",
            reference="wrong-argument",
        )
    if meta and isinstance(source, torch.nn.Module):
        raise ArgumentError(
            "meta has no meaning for a module that is made",
            because="its weights are where it was made",
            fix="make it under torch.device('meta'), or give a function that makes it",
            reference="wrong-argument",
        )
    if inputs is not None or meta:
        raise brings_its_own(source, inputs)
    return source  # type: ignore[no-any-return]  # capture says what it is not


def _is_factory(source: Any) -> bool:
    return callable(source) and not isinstance(source, (torch.nn.Module, ExportedProgram))


def _factory_source(factory: Callable[[], Any], label: str, inputs: Inputs | None, *, meta: bool) -> Source:
    made = _on_meta(factory, label) if meta else made_by(factory, label)
    if inputs is None:
        if isinstance(made, (tuple, list)):

            def again() -> Any:
                return made

            again.__qualname__ = label
            return again
        return made  # type: ignore[no-any-return]  # capture says what it is not
    if not isinstance(made, torch.nn.Module):
        raise brings_its_own(label, inputs)
    return replace(module_inputs(made.eval(), inputs), label=label)


def _on_meta(factory: Callable[[], Any], label: str) -> Any:
    with torch.device("meta"):
        return made_by(factory, label)


def _pickled(path: Path, inputs: Inputs) -> ModuleInputs:
    fix = "save it with torch.save(module) under this torch, with the code of its classes importable (--import)"
    try:
        check_saved_by_torch(path)
    except (OSError, ValueError) as error:
        why = reason(error) if isinstance(error, OSError) else str(error)
        told = f"{path.name} holds no module of torch.save"
        raise CaptureError(told, because=why, fix=fix, reference="source-unreadable") from error
    with users_code(f"reading {path.name}", reference="source-unreadable", fix=fix):
        made = torch.load(path, map_location="cpu", weights_only=False)
    if not isinstance(made, torch.nn.Module) or isinstance(made, torch.jit.ScriptModule):
        raise ArgumentError(
            f"{path.name} holds {one_of_type(made)}, which cannot be exported",
            because="torch.export takes a torch.nn.Module with its Python code",
            fix="save the module itself with torch.save(module), not its state_dict or TorchScript",
            reference="wrong-argument",
        )
    return replace(module_inputs(made.eval(), inputs), label=path.name)
