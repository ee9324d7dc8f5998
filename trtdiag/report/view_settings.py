"""What was asked for, with what it was made, and how to make it again, as the page shows it."""

from __future__ import annotations

import platform

from trtdiag.analysis.result import Analysis
from trtdiag.frontend.program import SourceKind
from trtdiag.report.page import Part, table
from trtdiag.report.settings import WORDS, reproduce_command, settings_of
from trtdiag.targets import target_name
from trtdiag.wording import amount, bytes_text, one_line, seconds_text

_LONGEST_CHARS = 2000
_KINDS = {SourceKind.FILE: "a file", SourceKind.LIVE: "a live ExportedProgram", SourceKind.FACTORY: "a factory"}
_WITHOUT = frozenset({"timing_cache", "engine_cache", "runtime_cache"})
"""Options that are off where they are not set."""


def settings_view(analysis: Analysis, command: str) -> Part:
    """The section of the page."""
    rows = [
        (name, one_line(_words(name, value), 600), "default" if value == usual else "set")
        for name, value, usual in settings_of(analysis.options)
    ]
    heads = ("setting", "value", "")
    return {
        "settings": table(heads, rows, kinds=("code", "code")) if rows else None,
        "versions": _versions(analysis),
        "command": one_line(command or reproduce_command(analysis), _LONGEST_CHARS),
    }


def _words(name: str, value: object) -> str:
    if value is None:
        return "none" if name in _WITHOUT else "automatic"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple) and name in WORDS:
        return ", ".join(map(WORDS[name], value)) or "none"
    if isinstance(value, tuple):
        return ", ".join("=".join(map(str, each)) if isinstance(each, tuple) else str(each) for each in value) or "none"
    return str(value)


def _versions(analysis: Analysis) -> Part:
    program = analysis.program
    versions = program.versions
    rows = [
        ("program", f"{one_line(program.label)} ({_KINDS[program.kind]})"),
        ("graph", amount(analysis.op_nodes, "call")),
        ("target", one_line(target_name(analysis.target))),
        ("trtdiag", analysis.trtdiag_version),
        ("torch, here", versions.running_torch),
        ("torch that exported", versions.exporting_torch or "not recorded"),
        ("schema of the file", versions.schema or "not recorded"),
        ("Python", platform.python_version()),
        ("platform", platform.platform(terse=True)),
    ]
    if program.file_bytes is not None:
        rows.insert(1, ("file size", bytes_text(program.file_bytes)))
    if program.export_s is not None:
        rows.append(("export took", seconds_text(program.export_s)))
    rows.extend(("note", one_line(note, _LONGEST_CHARS)) for note in program.notes)
    return table((), rows)
