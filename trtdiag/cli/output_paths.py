"""The files that a command's arguments name: none is written over another, and each can be written at all."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from trtdiag.artifact.atomic_file import not_written
from trtdiag.cli.config import config_file
from trtdiag.cli.report_files import ReportFiles
from trtdiag.cli.trace_option import trace_places
from trtdiag.errors import UserError
from trtdiag.files.destination import check_destination, is_written_through, open_descriptor
from trtdiag.files.module_files import module_files
from trtdiag.files.same_file import STREAM, Named, refuse_same
from trtdiag.report.save import telling

_STDOUT = 1


def read_by(
    sources: Sequence[tuple[str, str | os.PathLike[str] | None]],
    imports: Sequence[str] = (),
    *,
    configured: bool = False,
) -> list[Named]:
    """The files that a command reads: of its arguments, of the modules that it imports, and its configuration.

    Args:
        sources: Arguments and what they name; a file, a folder, ``package.module:factory``, or nothing.
        imports: What ``--import`` names.
        configured: Whether it reads ``pyproject.toml``.
    """
    found = []
    for argument, source in sources:
        if source is None:
            continue
        text = os.fspath(source)
        found.append(Named(argument, text))
        module, colon, _ = text.rpartition(":")
        if module.endswith(".py"):
            found.append(Named(f"the module of {argument}", module))
        elif os.path.isdir(text):
            files = (each for each in os.scandir(text) if each.is_file())
            found += [Named(f"a file in {argument}", each.path) for each in files]
        elif colon:
            found += [Named(f"the module of {argument}", file) for file in module_files(module)]
    for name in imports:
        found += [Named("the module of --import", file) for file in module_files(name)]
    config = config_file(Path.cwd()) if configured else None
    return found if config is None else [*found, Named("the configuration", str(config))]


def report_places(files: ReportFiles) -> list[Named]:
    """The files of reports, and of the trace."""
    return [*(place for _, place in files.places), *trace_places()]


def check_reports(reads: Sequence[Named], reports: Sequence[Named]) -> None:
    """Before the work: no file is written over one that is read or another one, and all can be written.

    Raises:
        UserError: ``same-file``, ``report-not-writable``.
    """
    refuse_same(reads, reports)
    for named in reports:
        if named.path != STREAM:
            with telling(named.path, "trace" if named.argument == "--trace" else "report"):
                check_destination(named.path)


def compiled_place(output: Path | None, usual: Path) -> Named:
    """The file of a compiled program, which can be written: what ``-o`` names, or what is usual.

    Raises:
        ArtifactError: ``file-not-written``.
        UserError: ``file-on-standard-output``.
    """
    argument, path, without = ("-o", output, None) if output else ("the compiled program", usual, "-o")
    _refuse_standard_output(argument, path)
    try:
        check_destination(path)
    except OSError as error:
        raise not_written(path, error) from error
    return Named(argument, os.fspath(path), without)


def file_and_size(place: Path) -> str:
    """``model_trt.pt2 (1,234 bytes)``."""
    return str(place) if is_written_through(place) else f"{place} ({place.stat().st_size:,} bytes)"


def place_of(argument: str, path: str | os.PathLike[str], what: str) -> Named:
    """The file of something else that is written, ``what``.

    Raises:
        UserError: ``file-on-standard-output``, ``report-not-writable``.
    """
    _refuse_standard_output(argument, path)
    with telling(path, what):
        check_destination(path)
    return Named(argument, os.fspath(path))


def _refuse_standard_output(argument: str, path: str | os.PathLike[str]) -> None:
    if open_descriptor(path) == _STDOUT:
        raise UserError(
            f"{argument} cannot be standard output",
            because="texts are printed there, and would stand in the middle of it",
            fix="name a file or a pipe",
            reference="file-on-standard-output",
        )
