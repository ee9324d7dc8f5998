"""What is said about a file that cannot be read: one function per kind of failure, all wording in one place."""

from __future__ import annotations

from collections.abc import Sequence

from trtdiag.errors import CaptureError
from trtdiag.wording import listed

_EXPORT_AGAIN = "export the model again and save it with torch.export.save(program, 'model.pt2')"
_TRANSFER = "compare its size or checksum with the original, copy or download it again, or save it again"


def file_not_found(file: str) -> CaptureError:
    """The path leads nowhere."""
    return _refusal(
        f"there is no file {file}",
        because="the path does not exist",
        fix="check the spelling and the working directory",
        reference="file-not-found",
    )


def is_a_directory(file: str) -> CaptureError:
    """The path is a directory."""
    return _refusal(
        f"{file} is a directory",
        because="an exported program is one file, as torch.export.save writes it",
        fix="name the file inside it; if it is an unpacked archive, use the .pt2 it was unpacked from",
        reference="is-a-directory",
    )


def not_a_regular_file(file: str) -> CaptureError:
    """The path is a pipe, a socket or a device."""
    return _refusal(
        f"{file} is not a regular file",
        because="it is a pipe, a socket or a device, which has no size and cannot be searched",
        fix="write the program to a file and name that",
        reference="not-a-regular-file",
    )


def permission_denied(file: str) -> CaptureError:
    """The system refuses to open the file."""
    return _refusal(
        f"{file} may not be read",
        because="the operating system denies this user the permission",
        fix="change the permissions of the file and its folders, or read it as another user",
        reference="permission-denied",
    )


def unreadable_file(file: str, reason: str) -> CaptureError:
    """The system fails to read the file."""
    return _refusal(
        f"{file} cannot be read",
        because=f"the operating system says: {reason}",
        fix="copy the file to a local disk and try again",
        reference="unreadable-file",
    )


def empty_file(file: str) -> CaptureError:
    """The file has no bytes."""
    return _refusal(
        f"{file} is empty",
        because="the file has 0 bytes; a save or a download that was interrupted leaves such a file",
        fix="save or download it again",
        reference="empty-file",
    )


def not_a_zip(file: str, looks_like: str, advice: str) -> CaptureError:
    """The file is of another type."""
    return _refusal(
        f"{file} is not an exported program",
        because=f"torch.export.save writes a zip archive, and this looks like {looks_like}",
        fix=advice or _EXPORT_AGAIN,
        reference="not-a-zip",
    )


def truncated_archive(file: str, size_bytes: int, detail: str) -> CaptureError:
    """The file begins as a zip archive, and its end is missing."""
    return _refusal(
        f"{file} is cut off",
        because=f"it begins as a zip archive, and after {size_bytes:,} bytes {detail}",
        fix=_TRANSFER,
        reference="truncated-archive",
    )


def corrupt_archive(file: str, detail: str) -> CaptureError:
    """The table of contents of the zip makes no sense."""
    return _refusal(
        f"{file} is damaged",
        because=f"its table of contents cannot be right: {detail}",
        fix=_TRANSFER,
        reference="corrupt-archive",
    )


def corrupt_member(file: str, member: str, detail: str) -> CaptureError:
    """A member's bytes are not those that were written."""
    return _refusal(
        f"{file} is damaged inside {member}",
        because=detail,
        fix=_TRANSFER,
        reference="corrupt-member",
    )


def too_large(file: str, detail: str) -> CaptureError:
    """The file declares more than it can reasonably hold."""
    return _refusal(
        f"{file} declares more content than is read",
        because=detail,
        fix=f"if you trust its origin, {_EXPORT_AGAIN}: that writes members without compression",
        reference="too-large",
    )


def unsupported_archive(file: str, detail: str) -> CaptureError:
    """A zip feature that torch never writes."""
    return _refusal(
        f"{file} uses zip features that torch.export.save never writes",
        because=detail,
        fix=_EXPORT_AGAIN,
        reference="unsupported-archive",
    )


def not_an_exported_program(file: str, looks_like: str, advice: str) -> CaptureError:
    """A zip archive that some other function wrote."""
    return _refusal(
        f"{file} holds no exported program",
        because=f"it is {looks_like}",
        fix=advice or _EXPORT_AGAIN,
        reference="not-an-exported-program",
    )


def newer_schema(file: str, what: str, theirs: str, ours: str, exporting: str | None, running: str) -> CaptureError:
    """The file is of a format that this torch does not know yet."""
    return _refusal(
        f"{file} was written by a newer torch than this one",
        because=f"its {what} is {theirs} (torch {exporting or 'unknown'}); torch {running} reads {ours}",
        fix=f"install torch {exporting or 'of the version that exported it'} or newer, or export the model again"
        f" with torch {running}",
        reference="newer-schema",
    )


def older_archive(file: str, what: str, theirs: str, ours: str, exporting: str | None, running: str) -> CaptureError:
    """The file is of a format that this torch reads no more."""
    return _refusal(
        f"{file} was written by a torch that is too old",
        because=f"its {what} is {theirs} (torch {exporting or 'unknown'}); torch {running} reads {ours}",
        fix=f"export the model again with torch {running}, or load and save it with a torch between the two",
        reference="older-archive",
    )


def corrupt_program(file: str, member: str, detail: str) -> CaptureError:
    """A member was read whole, and its content is not what torch writes."""
    return _refusal(
        f"{file} does not describe a program that torch could have saved",
        because=f"{member}: {detail}",
        fix=_EXPORT_AGAIN,
        reference="corrupt-program",
    )


def unknown_custom_op(file: str, ops: Sequence[str], hint: str) -> CaptureError:
    """Ops that nothing in this Python process has registered."""
    return _refusal(
        f"{file} calls ops that are not registered here: {listed(ops)}",
        because="a custom op exists only after the package that defines it was imported",
        fix=hint,
        reference="unknown-custom-op",
    )


def unknown_input_type(file: str, where: str, kind: str) -> CaptureError:
    """A container class of the inputs or outputs that is not registered with pytree."""
    package = kind.partition(".")[0]
    return _refusal(
        f"{file} takes or returns a {kind}, which is not registered here",
        because=f"{where} names a container class that only its own package can register",
        fix=f"import {package} (and what registers the class for torch.export) before reading the file"
        if package.isidentifier() and package != "builtins"
        else _EXPORT_AGAIN,
        reference="unknown-input-type",
    )


def unknown_dialect(file: str, dialect: str) -> CaptureError:
    """A dialect whose verifier is not registered."""
    return _refusal(
        f"{file} is a program of the dialect {dialect!r}, which is not registered here",
        because="such a program was already lowered by another tool (ExecuTorch writes EDGE)",
        fix="give the program as torch.export.export returned it, before that tool lowered it",
        reference="unknown-dialect",
    )


def unsafe_pickle(file: str, member: str, globals_: Sequence[str], purpose: str) -> CaptureError:
    """A pickle that could run code."""
    named = ", ".join(globals_[:5]) if globals_ else "it is no pickle that torch's restricted reader accepts"
    return _refusal(
        f"{file} keeps {purpose} in a pickle that could run code",
        because=f"reading {member} would call {named}" if globals_ else f"{member}: {named}",
        fix="where you trust the file, load it with torch.export.load and give the loaded program to"
        " trtdiag.analyze; otherwise ask for weights that are plain tensors",
        reference="unsafe-pickle",
    )


def custom_object(file: str, names: Sequence[str]) -> CaptureError:
    """Objects of C++ or Python classes that only their own code can restore."""
    return _refusal(
        f"{file} contains custom objects: {', '.join(names[:5])}",
        because="restoring one runs code of its class on bytes of the file (torch bind objects, opaque values,"
        " TensorRT engines of torch_tensorrt)",
        fix="give the program as exported, before it was compiled; where you trust the file, load it with"
        " torch.export.load and give the loaded program to trtdiag.analyze",
        reference="custom-object",
    )


def unsafe_expression(file: str, where: str, text: str, reason: str) -> CaptureError:
    """An expression that torch would evaluate as Python."""
    return _refusal(
        f"{file} contains an expression that is more than arithmetic",
        because=f"{where} is {_shorten(text)}: {reason}; torch evaluates it as Python code",
        fix="do not load this file with torch.export.load either, unless you know where it comes from",
        reference="unsafe-expression",
    )


def unsafe_name(file: str, where: str, text: str, reason: str) -> CaptureError:
    """A name that torch would paste into Python source."""
    return _refusal(
        f"{file} contains a name that could carry code",
        because=f"{where} is {_shorten(text)}: {reason}; torch writes it into Python source and runs that",
        fix="do not load this file with torch.export.load either, unless you know where it comes from",
        reference="unsafe-name",
    )


def nested_too_deeply(file: str, where: str, reason: str) -> CaptureError:
    """Inputs or results that torch may not be able to follow."""
    return _refusal(
        f"{file} cannot be read",
        because=f"{where}: {reason}",
        fix="give the model its tensors in flatter lists and dicts, and export it again",
        reference="nested-too-deeply",
    )


def unsafe_operator(file: str, where: str, target: str, reason: str) -> CaptureError:
    """A call target that is no operator."""
    return _refusal(
        f"{file} calls something that is not an operator of a model",
        because=f"{where} is {_shorten(target)}: {reason}",
        fix="do not load this file with torch.export.load either, unless you know where it comes from",
        reference="unsafe-operator",
    )


def load_failed(file: str, error: BaseException, exporting: str | None, running: str) -> CaptureError:
    """Torch itself fails on a file that passed all checks."""
    reason = str(error).strip().partition("\n")[0][:300]
    return _refusal(
        f"torch cannot rebuild the program of {file}",
        because=f"{type(error).__name__}: {reason}" if reason else type(error).__name__,
        fix=f"it was exported by torch {exporting or 'unknown'} and read by torch {running}: use the same version,"
        " or export the model again; --debug shows where torch stopped",
        reference="load-failed",
    )


def _refusal(message: str, *, because: str, fix: str, reference: str) -> CaptureError:
    """The error with control characters of the file taken out: a terminal would obey them."""
    return CaptureError(_plain(message), because=_plain(because), fix=_plain(fix), reference=reference)


def _plain(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _shorten(text: str) -> str:
    return repr(text if len(text) <= 120 else text[:117] + "...")
