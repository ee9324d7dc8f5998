"""What was asked for: every option with its default, and the command that asks for the same again."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from enum import Enum
from typing import Any

from trtdiag.analysis.result import Analysis
from trtdiag.asked_bounds import bound_word
from trtdiag.asked_profiles import profile_word
from trtdiag.frontend.program import SourceKind
from trtdiag.options import AnalyzeOptions, CompileOptions, PartitionOptions

WORDS: Mapping[str, Callable[[Any], str]] = {"profiles": profile_word, "assume": bound_word}
"""How the command line takes each entry of an option, where that is no plain text and no ``name=size``."""


def settings_of(options: AnalyzeOptions | CompileOptions | None) -> Iterator[tuple[str, object, object]]:
    """Every option with its value and its default, those of the partition among them."""
    if options is None:
        return
    for owner, usual in ((options, type(options)()), (options.partition, PartitionOptions())):
        for each in fields(owner):
            if each.name != "partition":
                yield each.name, _plain(getattr(owner, each.name)), _plain(getattr(usual, each.name))


def _plain(value: object) -> object:
    return value.value if isinstance(value, Enum) else value


def reproduce_command(analysis: Analysis) -> str:
    """What to type to make this report again."""
    program = analysis.program
    verb = "analyze" if analysis.compilation is None else "compile"
    changed = [
        (name, value) for name, value, usual in settings_of(analysis.options) if value != usual and name != "target"
    ]
    if program.kind is SourceKind.LIVE:
        told = "".join(f", {name}={value!r}" for name, value in changed)
        return f"trtdiag.{verb}(exported_program, target={analysis.target!r}{told})"
    parts = ["trtdiag", verb, program.label, "--target", analysis.target]
    for name, value in changed:
        parts += _flags(name, value)
    return shlex.join(parts)


def carried_flags(options: AnalyzeOptions | CompileOptions | None, command: str) -> list[str]:
    """The options that were given, as the command line has them, of those that the next command has, too."""
    shared = {"max_sizes"} if command == "fix-dims" else {name for name, *_ in settings_of(CompileOptions())}
    given = ((name, value) for name, value, usual in settings_of(options) if value != usual and name in shared)
    return [word for name, value in given for word in _flags(name, value)]


def flag_of(name: str) -> str:
    """The option of the command line for a setting: ``--build-limit`` for ``build_limit_s``, without the unit."""
    others = {"verify": "--no-verify", "profiles": "--profile", "max_sizes": "--max"}
    return others.get(name) or f"--{name.removesuffix('_s').replace('_', '-')}"


def _flags(name: str, value: Any) -> Iterator[str]:
    if name in WORDS:
        for each in value:
            yield from (flag_of(name), WORDS[name](each))
        return
    flag = flag_of(name)
    if isinstance(value, bool):
        yield flag
    elif isinstance(value, tuple):
        for each in value:
            yield from (flag, "=".join(map(str, each)) if isinstance(each, tuple) else str(each))
    else:
        yield from (flag, str(value))
