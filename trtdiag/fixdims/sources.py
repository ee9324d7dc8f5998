"""What ``fix_dims`` was given: a model with inputs, a program, or a text."""

from __future__ import annotations

import errno
import stat
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from trtdiag.errors import CaptureError
from trtdiag.files.bounded_read import read_whole, reason
from trtdiag.frontend import factory as factories
from trtdiag.frontend.capture import PROGRAM_SUFFIXES, capture, names_factory
from trtdiag.frontend.factory import Recipe
from trtdiag.frontend.module_inputs import ModuleInputs
from trtdiag.frontend.program import Program
from trtdiag.frontend.shapes_spec import with_plain_shapes
from trtdiag.wording import one_of_type

MOST_TEXT_BYTES = 1 << 28
_LOOKED_AT_BYTES = 4096
_ZIP = b"PK\x03\x04"


@dataclass(frozen=True)
class ModelSource:
    """A module with example inputs and ``dynamic_shapes``."""

    label: str
    kind: str
    recipe: Recipe


@dataclass(frozen=True)
class ProgramSource:
    """An exported program: saved in a file, or live."""

    label: str
    kind: str
    program: Program


@dataclass(frozen=True)
class TextSource:
    """An error text or log."""

    label: str
    text: str


Source = ModelSource | ProgramSource | TextSource


def read_source(
    source: Any,
    args: Sequence[Any] | None,
    kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
    progress: Callable[[str], None],
) -> Source:
    """Tell the kinds of source apart.

    Raises:
        CaptureError: It is none of them, or cannot be read.
    """
    if isinstance(source, torch.nn.Module):
        if args is None and not kwargs:
            raise CaptureError(
                "a module alone cannot be exported",
                because="example inputs are not known",
                fix="give fix_dims(module, args, kwargs, dynamic_shapes=...)",
                reference="module-without-inputs",
            )
        recipe = Recipe(source, tuple(args or ()), dict(kwargs or {}), dynamic_shapes)
        return ModelSource(type(source).__name__, "live", with_plain_shapes(recipe))
    if isinstance(source, ModuleInputs):
        return ModelSource(source.label, "live", with_plain_shapes(source.recipe()))
    if isinstance(source, ExportedProgram):
        return ProgramSource("live program", "live", capture(source))
    if isinstance(source, tuple):
        recipe = factories.recipe_of(source, "the given tuple")
        return ModelSource("the given module", "live", with_plain_shapes(recipe))
    if isinstance(source, (str, PathLike)):
        return _named(str(source), progress)
    if callable(source):
        return _made(source, getattr(source, "__qualname__", "factory"), progress)
    raise CaptureError(
        f"{one_of_type(source)} has no dims to fix",
        because="it is no module, program, factory, path or text",
        fix="give (module, args, kwargs, dynamic_shapes), 'package.module:factory', a .pt2 file or an error text",
        reference="source-unknown",
    )


def _named(text: str, progress: Callable[[str], None]) -> Source:
    if "\n" in text:
        return TextSource("the given text", text)
    if names_factory(text):
        return _made(factories.load_factory(text), text, progress)
    path = Path(text)
    kind = _mode(path)
    is_file = kind is not None and stat.S_ISREG(kind) and not _is_empty_program(path)
    if is_file and not zipfile.is_zipfile(path) and not _begins_as_zip(path):
        return TextSource(path.name, read_text(path))
    if kind is None and (" " in text.strip() or "=" in text):
        return TextSource("the given text", text)
    return ProgramSource(path.name, "file", capture(path, progress=progress))


def _is_empty_program(path: Path) -> bool:
    """Whether it is called like a program and has no bytes, which reading it says."""
    return path.suffix in PROGRAM_SUFFIXES and not path.stat().st_size


def _begins_as_zip(path: Path) -> bool:
    """Whether a file that is no zip archive began as one: a program that is cut off, which reading it says."""
    try:
        with path.open("rb") as file:
            return file.read(len(_ZIP)) == _ZIP
    except OSError:
        return False  # reading it as a text says why


def _mode(path: Path) -> int | None:
    """What is there; ``None`` where nothing is, or the text is no name that a file could have."""
    try:
        return path.stat().st_mode
    except (OSError, ValueError):
        return None


def read_text(path: Path) -> str:
    """The text of a log, whatever its encoding.

    Raises:
        CaptureError: It is larger than ``MOST_TEXT_BYTES``, no text, or cannot be read.
    """
    try:
        raw = read_whole(path, MOST_TEXT_BYTES)
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise CaptureError(
                f"{path.name} is too large for a log",
                because=reason(error),
                fix="give the part of the log with the error",
                reference="log-too-large",
            ) from error
        raise CaptureError(
            f"cannot read {path}",
            because=reason(error),
            fix="check its name and rights",
            reference="source-unreadable",
        ) from error
    return log_text(raw, path.name)


def log_text(raw: bytes, name: str) -> str:
    """The text of the bytes of a log: UTF-8 or, where it begins so, UTF-16; bytes that are neither become marks.

    Raises:
        CaptureError: ``source-not-readable``: they are no text.
    """
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return raw.decode("utf-16", errors="replace")
    if b"\0" in raw[:_LOOKED_AT_BYTES]:
        raise CaptureError(
            f"{name} is neither a program nor a text",
            because="it is no zip archive, and it has null bytes",
            fix="give a .pt2 file made by torch.export.save, or a log",
            reference="source-not-readable",
        )
    return raw.decode("utf-8-sig", errors="replace")


def _made(factory: Callable[[], Any], label: str, progress: Callable[[str], None]) -> Source:
    progress("build the model")
    made = factories.call_factory(factory, label)
    if isinstance(made, ExportedProgram):
        return ProgramSource(label, "factory", capture(made))
    return ModelSource(label, "factory", with_plain_shapes(made))
