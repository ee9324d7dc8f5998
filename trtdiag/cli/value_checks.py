"""What the values of options and arguments may be at all; every command asks this before its work."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from trtdiag.cli.completed_values import with_candidates
from trtdiag.cli.renamed_options import tell_new_names, with_new_names
from trtdiag.errors import TrtdiagError, UserError

F = TypeVar("F", bound=Callable[..., Any])
_LONGEST_NAME = 255
"""Bytes.  Source: NAME_MAX of Linux, macOS and Windows; a file system may take fewer, and says so itself."""

_SOURCES = frozenset({"source", "sources", "compiled", "saved"})
"""The arguments that name files: paths begin in the working folder, and reports are written there."""

MOST_MIB = 1 << 40
"""More than any machine has, and in bytes still an integer of 64 bits."""

MOST_COUNT = (1 << 31) - 1
"""What libraries take as a number of things."""
_SIZE = re.compile(r"[+-]?[0-9]{1,18}")
"""Of fewer digits than the integers of 64 bits that tensors count with; ASCII, for 5² is no size."""
_SHOWN = 60


class Place(click.Path):
    """A file or folder to write or to read: a path that the system takes as one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Give the path, with the home folder in the place of ``~``."""
        text = str(_whole(value, self, param, ctx))
        if any(len(part.encode("utf-8")) > _LONGEST_NAME for part in Path(text).parts):
            self.fail(f"a name in it is longer than {_LONGEST_NAME} bytes", param, ctx)
        try:
            place = str(Path(text).expanduser()) if text.startswith("~") else text
        except RuntimeError:  # what pathlib raises where there is no such user
            self.fail(f"there is no home folder for {text.partition('/')[0]!r}", param, ctx)
        return super().convert(place, param, ctx)


class OutputFile(Place):
    """A file to write; where it may be standard output, that is ``-``."""

    def __init__(self, *args: Any, or_stream: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.or_stream = or_stream

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Give the path; it is no folder."""
        place = super().convert(value, param, ctx)
        if str(value) == "-" and not self.or_stream:
            self.fail("- stands for standard output, where this cannot go; ./- is a file of that name", param, ctx)
        if not Path(place).name:
            self.fail(f"{str(place)!r} is a folder, and a file is written", param, ctx)
        return place


class Count(click.types.IntParamType):
    """A whole number from ``least`` to ``most``.

    The help does not name the limits, as that of ``click.IntRange`` does: most are those of libraries.
    """

    def __init__(self, least: int, most: int = MOST_COUNT) -> None:
        self.least, self.most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Give the number."""
        number = super().convert(value, param, ctx)
        if number < self.least:
            self.fail(f"{value} is less than {self.least:,}", param, ctx)
        if number > self.most:
            self.fail(f"{value} is more than {self.most:,}", param, ctx)
        return number


class Positive(click.types.FloatParamType):
    """A number above 0, or at least ``least``: not infinite, and not none."""

    def __init__(self, least: float | None = None) -> None:
        self.least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Give the number."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is no number that can be used", param, ctx)
        if self.least is None and number <= 0:
            self.fail(f"{value} is not more than 0", param, ctx)
        if self.least is not None and number < self.least:
            self.fail(f"{value} is less than {self.least:g}", param, ctx)
        return number


class Seconds(Positive):
    """A time."""

    name = "number of seconds"


def seconds_option(*names: str, default: float, words: str, least: float | None = 1, **how: Any) -> Callable[[F], F]:
    """An option that is a time: ``least`` seconds and more, or more than none where that is ``None``."""
    shown = f"{words}  [default: {default:g}]"
    return click.option(*names, type=Seconds(least), default=default, metavar="SECONDS", help=shown, **how)


_AT_THE_END = "trtdiag.at_the_end"
_NOT_WRITTEN = frozenset({"report-not-writable", "file-not-written", "summary-not-writable"})


@contextmanager
def told_at_the_end() -> Iterator[None]:
    """Around the writing of a file: where the disk refuses it, the command first prints what it found, and then fails.

    Raises:
        TrtdiagError: Any other.
    """
    context = click.get_current_context(silent=True)
    try:
        yield
    except TrtdiagError as error:
        if error.reference not in _NOT_WRITTEN or context is None or not isinstance(context.command, CheckedCommand):
            raise
        context.meta.setdefault(_AT_THE_END, error)


class CheckedCommand(click.Command):
    """A command that refuses values which no option can use, by the option's name; a shell completes others."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Take what click takes."""
        super().__init__(*args, **kwargs)
        with_candidates(self.params)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as click does, then look at each text."""
        tell_new_names(ctx, args := with_new_names(ctx, self.params, args))
        rest = super().parse_args(ctx, args)
        for param in self.params:
            for text in _texts(ctx.params.get(param.name or "")):
                _whole(text, param.type, param, ctx)
        if _SOURCES & {param.name for param in self.params}:
            working_folder()
        return rest

    def invoke(self, ctx: click.Context) -> Any:
        """Run it; a file that could not be written makes it fail at its end, where nothing else did.

        Raises:
            TrtdiagError: Of ``told_at_the_end``.
        """
        code = super().invoke(ctx)
        if _AT_THE_END in ctx.meta:
            raise ctx.meta[_AT_THE_END]
        return code


def working_folder() -> Path:
    """The folder that the command runs in.

    Raises:
        UserError: ``no-working-folder``: it was removed.
    """
    try:
        return Path.cwd()
    except OSError as error:
        raise UserError(
            "the folder that this runs in is not there",
            because=str(error.strerror or error),
            fix="it was removed or moved: change to a folder that exists, and run it again",
            reference="no-working-folder",
        ) from error


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, (str, os.PathLike)):
        yield str(value)
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from _texts(each)


def _whole(value: Any, kind: click.ParamType[Any], param: click.Parameter | None, ctx: click.Context | None) -> Any:
    """``value``, where it is a text that is not empty and that can be written."""
    text = str(value)
    if not text.strip():
        kind.fail("it is empty", param, ctx)
    if "\0" in text:
        kind.fail("it has a null byte", param, ctx)
    if any("\ud800" <= char <= "\udfff" for char in text):  # how Python keeps bytes that are no UTF-8
        kind.fail("it is no text in UTF-8: rename what it names", param, ctx)
    return value


def listed(given: tuple[str, ...]) -> tuple[str, ...]:
    """``--select GRD,SYM --select TYP401`` as one tuple."""
    return tuple(word.strip() for item in given for word in item.split(",") if word.strip())


def sizes_of(given: tuple[str, ...], option: str = "--opt", or_words: str = "") -> tuple[tuple[str, int], ...]:
    """``--opt h=640,w=480`` as pairs.

    Raises:
        UserError: ``wrong-size``.
    """
    found = []
    for word in listed(given):
        name, _, size = word.rpartition("=")
        if not name.strip() or not _SIZE.fullmatch(size.strip()):
            shown = word if len(word) <= _SHOWN else f"{word[:_SHOWN]}..."
            raise UserError(
                f"{option}: {shown!r} is no size",
                because=f"a size is asked for as {or_words}DIM=SIZE, with a whole number of at most 18 digits",
                fix=f"write for example {option} h=640",
                reference="wrong-size",
            )
        found.append((name.strip(), int(size)))
    return tuple(found)
