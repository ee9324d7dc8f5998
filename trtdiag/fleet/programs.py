"""What sources name: files, folders full of them, folders of Hugging Face, factories, and manifests of all of these."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from trtdiag.arguments import wrong
from trtdiag.errors import ArgumentError, UserError
from trtdiag.fleet.facts import SweepProgram
from trtdiag.fleet.manifest import program_of, read_manifest
from trtdiag.wording import shown

MARK = ".trtdiag-sweep"
"""In the folder of a sweep: what it wrote there are no programs of another one."""
MANIFESTS = (".toml", ".json")
_PROGRAMS = (".pt2", ".ep")
_OF_HUGGING_FACE = ("config.json", "export.json")
_MAGIC = frozenset("*?[")


def read_programs(sources: Sequence[Any]) -> tuple[tuple[SweepProgram, ...], Mapping[str, Any], Mapping[str, Any]]:
    """The programs that sources name, and what manifests say of all: options of the sweep, and of ``compile``.

    Args:
        sources: Texts, paths, ``SweepProgram``s, or mappings with the keys of a program in a manifest.

    Raises:
        UserError: ``sweep-source-unknown``, ``sweep-without-programs``, ``manifest-unreadable``, ``sweep-names``.
    """
    found: list[Named] = []
    sweep: dict[str, Any] = {}
    options: dict[str, Any] = {}
    for source in sources:
        if isinstance(source, SweepProgram):
            found.append((source, source.source))
        elif isinstance(source, Mapping):
            found += _expanded(program_of(source, Path(), "a program"))
        elif isinstance(source, (str, os.PathLike)):
            text = os.fspath(source)
            if text.endswith(MANIFESTS) and os.path.isfile(text):
                manifest = read_manifest(Path(text))
                sweep |= manifest.sweep
                options |= manifest.options
                for program in manifest.programs:
                    found += _expanded(program)
            else:
                found += _expanded(SweepProgram("", text))
        else:
            raise wrong("programs", source, "texts, paths, or dicts as in a manifest", "wrong-argument", fix=_SAVE)
    if not found:
        raise UserError(
            "there is no program to sweep",
            because="no source was given, or the manifests name none",
            fix="name files, folders, factories, or a manifest with [[program]] tables",
            reference="sweep-without-programs",
        )
    return _named(found), sweep, options


Named = tuple[SweepProgram, str]
"""A program, and what to call it where it has no name."""
_SAVE = "save a live program with torch.export.save, and name the file: each runs in a process of its own"


def _expanded(program: SweepProgram) -> Iterator[Named]:
    """The program, or those that its source stands for: of a folder, or of a pattern with stars."""
    text = program.source
    if os.path.isdir(text):
        if any(os.path.isfile(os.path.join(text, name)) for name in _OF_HUGGING_FACE):
            yield program, text
            return
        places = list(_below(Path(text)))
        if not places:
            raise UserError(
                f"the folder {text} has no program",
                because=f"there is no file {' or '.join(_PROGRAMS)} and no folder of Hugging Face in it or below it",
                fix="name a folder that has",
                reference="sweep-without-programs",
            )
        yield from _several(program, places, Path(text))
    elif os.path.exists(text) or _names_factory(text):
        yield program, text
    elif _MAGIC & {*text}:
        places = [Path(each) for each in sorted(glob.glob(text, recursive=True))]
        if not places:
            raise _unknown(text, "no file has such a name")
        yield from _several(program, places, Path())
    else:
        raise _unknown(text, "there is no such file or folder, and it is not package.module:factory")


def _several(program: SweepProgram, places: Sequence[Path], folder: Path) -> Iterator[Named]:
    """A program for each place, called by its place in the folder; a name that was given begins theirs."""
    for place in places:
        name = place.relative_to(folder).as_posix() if place.is_relative_to(folder) else place.as_posix()
        yield replace(program, source=place.as_posix(), name=f"{program.name}/{name}" if program.name else ""), name


def _below(folder: Path) -> Iterator[Path]:
    """Programs in a folder and below it, in the order of their names; those of sweeps are none.

    Of links to folders those to one of Hugging Face are taken; others could lead anywhere, back here too.
    """
    for here, folders, files in os.walk(folder):
        folders.sort()
        if MARK in files:
            folders.clear()
            continue
        if any(name in files for name in _OF_HUGGING_FACE):
            folders.clear()
            yield Path(here)
            continue
        links = (Path(here, name) for name in folders if os.path.islink(os.path.join(here, name)))
        yield from (link for link in links if any((link / name).is_file() for name in _OF_HUGGING_FACE))
        yield from (Path(here, name) for name in sorted(files) if name.endswith(_PROGRAMS))


def _names_factory(text: str) -> bool:
    """Whether it is ``package.module:factory`` or ``path/to/file.py:factory``."""
    module, colon, attribute = text.rpartition(":")
    named = attribute if module.endswith(".py") else f"{module}.{attribute}"
    return bool(colon) and all(part.isidentifier() for part in named.split("."))


def _named(programs: Sequence[Named]) -> tuple[SweepProgram, ...]:
    """Each with a name of its own: the one given, else its place in the folder that was named, else its source."""
    found: dict[str, SweepProgram] = {}
    seen: set[str] = set()
    for program, place in programs:
        if repr(program) in seen:
            continue  # named twice, say by a folder and by itself
        seen.add(repr(program))
        given = [program.name] if program.name else [place, program.source]
        name = next((each for each in given if each not in found), "")
        if not name:
            there = found[given[-1]]
            raise UserError(
                f"two programs are called {shown(given[-1])}",
                because=f"their sources are {there.source} and {program.source}, with other settings",
                fix="give each a name of its own in a manifest",
                reference="sweep-names",
            )
        found[name] = replace(program, name=name)
    return tuple(found.values())


def _unknown(text: str, why: str) -> ArgumentError:
    return ArgumentError(
        f"{shown(text)} names no program",
        because=why,
        fix="name a .pt2 file, a folder, package.module:factory, or a manifest (.toml, .json)",
        reference="sweep-source-unknown",
    )
