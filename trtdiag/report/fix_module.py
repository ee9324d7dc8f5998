"""The answer of ``fix-dims`` as a Python module to import, and as a program file."""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path
from typing import IO

import torch
from torch.export import ExportedProgram

from trtdiag import __version__
from trtdiag.errors import ArtifactError, UserError
from trtdiag.files.atomic_write import whole_file
from trtdiag.files.bounded_read import read_whole
from trtdiag.fixdims.fix import Fix
from trtdiag.frontend.archive.serializable_sizes import with_saved_sizes
from trtdiag.frontend.torch_lock import TORCH_TURN
from trtdiag.frontend.unsavable import unsavable_part
from trtdiag.report.fix_words import example_words, fix_verdict, proof_words
from trtdiag.report.save import telling, write_atomically
from trtdiag.wording import first_line, one_line

_MOST_BYTES = 1 << 24
_WRITTEN = re.compile(r"# Written by trtdiag fix-dims \[([0-9a-f]{16})\]")


def module_text(fix: Fix, name: str) -> str:
    """The module: what it is for, where it comes from, how sure it is, then the code.

    Args:
        fix: The answer.
        name: Of the module, for the line that imports it.
    """
    examples = example_words(fix.plan)
    lines = [
        "dynamic_shapes to export a model with:",
        f"    from {name if name.isidentifier() else 'this_module'} import dynamic_shapes",
        "    torch.export.export(module, args, kwargs, dynamic_shapes=dynamic_shapes)",
        *([f"with example inputs of other sizes: {examples}"] if examples else []),
        f"Source: {fix.label}",
        f"Answer: {fix_verdict(fix).text}",
        f"Proof: {proof_words(fix.proof)}",
        f"Made by: trtdiag {__version__}, torch {torch.__version__}",
    ]
    comments = "".join(f"# {_on_one_line(line)}\n" for line in lines)
    body = f"{comments}\n{fix.code.strip()}\n"
    return f"# Written by trtdiag fix-dims [{_digest(body)}]\n{body}"


def _on_one_line(line: str) -> str:
    flat = one_line(line, 600)
    return f"    {flat}" if line.startswith("    ") else flat


def may_write(path: Path) -> None:
    """Refuse to write over a file that is not one of ours, or that was edited since.

    Raises:
        UserError: The file holds something else.
    """
    if not path.is_file():
        return
    try:
        text = read_whole(path, _MOST_BYTES).decode("utf-8")
    except (OSError, UnicodeDecodeError):  # whatever it holds, trtdiag did not write it
        text = ""
    first, _, body = text.partition("\n")
    match = _WRITTEN.fullmatch(first)
    if match is not None and match[1] == _digest(body):
        return
    raise UserError(
        f"{path} exists",
        because="it was edited since trtdiag wrote it" if match else "it was not written by trtdiag fix-dims",
        fix="name another file, or add --overwrite",
        reference="file-exists",
    )


def write_module(fix: Fix, path: Path, *, force: bool = False) -> None:
    """Write the module to ``path``, whole or not at all.

    Raises:
        UserError: The place cannot be written, or holds a file that trtdiag did not write and ``force`` is not set.
    """
    if not force:
        may_write(path)
    write_atomically(path, module_text(fix, path.stem), what="dims")


def save_program(program: ExportedProgram, path: Path) -> None:
    """Save the program to ``path``, whole or not at all.

    Raises:
        ArtifactError: torch cannot save it.
        UserError: The place cannot be written.
    """
    with telling(path, "program"), whole_file(path) as file:
        fill_with_program(file, program)


def fill_with_program(file: IO[bytes], program: ExportedProgram) -> None:
    """Write the program to a file that was begun.

    Raises:
        ArtifactError: torch cannot save it.
    """
    try:
        with TORCH_TURN:
            torch.export.save(with_saved_sizes(program), file)
    except Exception as error:  # whatever a custom op's or input type's own code raises
        known = unsavable_part(program)
        raise ArtifactError(
            "torch.export.save cannot save the program",
            because=first_line(error) if known is None else f"{known.part}: {known.why}",
            fix="use --write, and export and save it where its own types are at hand" if known is None else known.fix,
            reference="program-not-saveable",
        ) from error


def _digest(body: str) -> str:
    return sha256(body.encode("utf-8")).hexdigest()[:16]
