"""What is said about a file that cannot be read: one entry per kind of failure, all wording in one place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trtdiag.errors import CaptureError
from trtdiag.frontend.archive.file_kinds import EXPORT_AGAIN

_TRANSFER = "compare its size or checksum with the original, copy or download it again, or save it again"
_DO_NOT_LOAD = "do not load this file with torch.export.load either, unless you know where it comes from"

FAILURES: Mapping[str, tuple[str, str, str]] = {
    "file-not-found": (
        "there is no file {file}",
        "the path does not exist",
        "check the spelling and the working directory",
    ),
    "is-a-directory": (
        "{file} is a directory",
        "an exported program is one file, as torch.export.save writes it",
        "name the file inside it; if it is an unpacked archive, use the .pt2 it was unpacked from",
    ),
    "not-a-regular-file": (
        "{file} is not a regular file",
        "it is a pipe, a socket or a device, which has no size and cannot be searched",
        "write the program to a file and name that",
    ),
    "permission-denied": (
        "{file} may not be read",
        "the operating system denies this user the permission",
        "change the permissions of the file and its folders, or read it as another user",
    ),
    "unreadable-file": (
        "{file} cannot be read",
        "the operating system says: {0}",
        "copy the file to a local disk and try again",
    ),
    "file-changed": (
        "{file} was changed while it was read",
        "{0}; its weights are read when they are needed",
        "do it again when nothing writes to the file any more; another file may take its place by its name",
    ),
    "empty-file": (
        "{file} is empty",
        "the file has 0 bytes; a save or a download that was interrupted leaves such a file",
        "save or download it again",
    ),
    "not-a-zip": (
        "{file} is not an exported program",
        "torch.export.save writes a zip archive, and this looks like {0}",
        "{1}",
    ),
    "truncated-archive": (
        "{file} is cut off",
        "it begins as a zip archive, and after {0:,} bytes {1}",
        _TRANSFER,
    ),
    "corrupt-archive": ("{file} is damaged", "its table of contents cannot be right: {0}", _TRANSFER),
    "corrupt-member": ("{file} is damaged inside {0}", "{1}", _TRANSFER),
    "too-large": (
        "{file} declares more content than is read",
        "{0}",
        f"if you trust its origin, {EXPORT_AGAIN}: that writes members without compression",
    ),
    "unsupported-archive": (
        "{file} uses zip features that torch.export.save never writes",
        "{0}",
        EXPORT_AGAIN,
    ),
    "not-an-exported-program": ("{file} holds no exported program", "it is {0}", "{1}"),
    "newer-schema": (
        "{file} was written by a newer torch than this one",
        "its {0} is {1} (torch {3}); torch {5} reads {2}",
        "install torch {4} or newer, or export the model again with torch {5}",
    ),
    "older-archive": (
        "{file} was written by a torch that is too old",
        "its {0} is {1} (torch {3}); torch {5} reads {2}",
        "export the model again with torch {5}, or load and save it with a torch between the two",
    ),
    "corrupt-program": (
        "{file} does not describe a program that torch could have saved",
        "{0}: {1}",
        EXPORT_AGAIN,
    ),
    "unknown-custom-op": (
        "{file} calls ops that are not registered here: {0}",
        "a custom op exists only after the package that defines it was imported",
        "{1}",
    ),
    "unknown-input-type": (
        "{file} takes or returns a {0}, which is not registered here",
        "{1} names a container class that only its own package can register",
        "{2}",
    ),
    "unknown-dialect": (
        "{file} is a program of the dialect {0!r}, which is not registered here",
        "such a program was already lowered by another tool (ExecuTorch writes EDGE)",
        "give the program as torch.export.export returned it, before that tool lowered it",
    ),
    "unsafe-pickle": (
        "{file} keeps {0} in a pickle that could run code",
        "{1}",
        "where you trust the file, load it with torch.export.load and give the loaded program to"
        " trtdiag.analyze; otherwise ask for weights that are plain tensors",
    ),
    "custom-object": (
        "{file} contains custom objects: {0}",
        "restoring one runs code of its class on bytes of the file (torch bind objects, opaque values,"
        " TensorRT engines of torch_tensorrt)",
        "give the program as exported, before it was compiled; where you trust the file, load it with"
        " torch.export.load and give the loaded program to trtdiag.analyze",
    ),
    "unsafe-expression": (
        "{file} contains an expression that is more than arithmetic",
        "{0} is {1}: {2}; torch evaluates it as Python code",
        _DO_NOT_LOAD,
    ),
    "unsafe-name": (
        "{file} contains a name that could carry code",
        "{0} is {1}: {2}; torch writes it into Python source and runs that",
        _DO_NOT_LOAD,
    ),
    "unsafe-operator": (
        "{file} calls something that is not an operator of a model",
        "{0} is {1}: {2}",
        _DO_NOT_LOAD,
    ),
    "nested-too-deeply": (
        "{file} cannot be read",
        "{0}: {1}",
        "give the model its tensors in flatter lists and dicts, and export it again",
    ),
    "load-failed": (
        "torch cannot rebuild the program of {file}",
        "{0}",
        "it was exported by torch {1} and read by torch {2}: use the same version,"
        " or export the model again; --debug shows where torch stopped",
    ),
}
"""By reference what happened, because of what, and what to do; numbers stand for what ``refusal`` is told besides."""


def refusal(reference: str, file: str, *told: object) -> CaptureError:
    """The error with control characters of the file taken out: a terminal would obey them.

    Args:
        reference: Which of ``FAILURES``.
        file: How to name the file to the user.
        told: What its texts have numbers for.
    """
    filled = [text.format(*told, file=file) for text in FAILURES[reference]]
    message, because, fix = ("".join(char if char.isprintable() else "?" for char in text) for text in filled)
    return CaptureError(message, because=because, fix=fix, reference=reference)


def other_torch(
    reference: str, file: str, what: str, theirs: str, ours: str, exporting: str | None, running: str
) -> CaptureError:
    """``newer-schema``: the file is of a format that this torch does not know yet; ``older-archive``: reads no more."""
    version = exporting or "of the version that exported it"
    return refusal(reference, file, what, theirs, ours, exporting or "unknown", version, running)


def unknown_input_type(file: str, where: str, kind: str) -> CaptureError:
    """A container class of the inputs or outputs that is not registered with pytree."""
    if kind.startswith("transformers.") and ":" in kind:  # a cache, which no import registers
        folder = "give the folder that transformers' exporters saved it in, with its export.json"
        return refusal("unknown-input-type", file, kind, where, folder)
    module = kind.rpartition(".")[0]
    known = all(map(str.isidentifier, module.split("."))) and module != "builtins"
    imported = f"import what registers it first: --import {module} (import {module} in Python), or a module of yours"
    return refusal("unknown-input-type", file, kind, where, imported if known else EXPORT_AGAIN)


def unsafe_pickle(file: str, member: str, globals_: Sequence[str], purpose: str) -> CaptureError:
    """A pickle that could run code."""
    because = f"{member}: it is no pickle that torch's restricted reader accepts"
    if globals_:
        because = f"reading {member} would call {', '.join(globals_[:5])}"
    return refusal("unsafe-pickle", file, purpose, because)


def unsafe(what: str, file: str, where: str, text: str, reason: str) -> CaptureError:
    """An ``expression`` that torch would evaluate, a ``name`` that it would paste into source, or no ``operator``."""
    shown = repr(text if len(text) <= 120 else text[:117] + "...")
    return refusal(f"unsafe-{what}", file, where, shown, reason)


def load_failed(file: str, error: BaseException, exporting: str | None, running: str) -> CaptureError:
    """Torch itself fails on a file that passed all checks."""
    reason = str(error).strip().partition("\n")[0][:300]
    because = f"{type(error).__name__}: {reason}" if reason else type(error).__name__
    return refusal("load-failed", file, because, exporting or "unknown", running)
