"""What of all warnings reaches the person at the terminal.

Those about options, by name, and about packages with converters; torch's with ``--verbose``.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
from click.core import ParameterSource
from rich.console import Console
from rich.text import Text

from trtdiag.converter_packages import ConverterWarning
from trtdiag.import_hook import after_import
from trtdiag.option_warnings import OptionWarning
from trtdiag.wording import one_line

_LONGEST_CHARS = 200
_OF_ARGUMENTS = {"time_limit_s": "limit_s"}
"""Parameters of commands that are called otherwise than the function's argument."""


@contextmanager
def told_warnings() -> Iterator[None]:
    """Print warnings about options and packages to stderr in this block, each time and not once.

    All others come with ``--verbose``, those that torch's kernels print themselves, too.  So does what torch logs,
    which is about its own ways; with ``TORCH_LOGS`` set it comes as asked for.  What other packages log reaches stderr
    where they have set up nothing: that waits, too.
    """
    with warnings.catch_warnings(), _held_back(logging.lastResort), _held_back_kernels():
        warnings.simplefilter("always", OptionWarning)
        warnings.simplefilter("always", ConverterWarning)
        usual = warnings.showwarning

        def show(message: Warning | str, *where: Any, **more: Any) -> None:
            if isinstance(message, (OptionWarning, ConverterWarning)):
                _print(message)
            elif _verbose():
                usual(message, *where, **more)

        warnings.showwarning = show
        after_import("torch", _hold_back_logs)
        yield


_KERNELS = "TORCH_CPP_LOG_LEVEL"
_ERRORS_ALONE = "2"


@contextmanager
def _held_back_kernels() -> Iterator[None]:
    """Let what of torch is written in C++ print errors alone: it reads this once, when torch is imported."""
    if _KERNELS in os.environ:
        yield
        return
    os.environ[_KERNELS] = _ERRORS_ALONE
    try:
        yield
    finally:
        os.environ.pop(_KERNELS, None)


def with_kernels() -> None:
    """Let it print its warnings, too, in a command that has not imported torch yet."""
    if os.environ.get(_KERNELS) == _ERRORS_ALONE:
        del os.environ[_KERNELS]


def _verbose() -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get("trtdiag.verbose"))


@contextmanager
def told_if_verbose(logger: str) -> Iterator[None]:
    """Print what the logger is told in this block, by any thread, where ``--verbose`` is given."""
    if not _verbose():
        yield
        return
    stream, log = logging.StreamHandler(), logging.getLogger(logger)
    level = log.level
    log.addHandler(stream)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(stream)
        log.setLevel(level)


@contextmanager
def _held_back(last: logging.Handler | None) -> Iterator[None]:
    if last is None:
        yield
        return
    last.addFilter(_is_ours_or_told)
    try:
        yield
    finally:
        last.removeFilter(_is_ours_or_told)


def _is_ours_or_told(record: logging.LogRecord) -> bool:
    return record.name.partition(".")[0] == "trtdiag" or _verbose()


def _is_told(_record: logging.LogRecord) -> bool:
    return _verbose() or "TORCH_LOGS" in os.environ


def _hold_back_logs() -> None:
    """Give the handlers that torch writes to stderr with a filter; files that were asked for are written as before."""
    for name, logger in list(logging.Logger.manager.loggerDict.items()):
        if name.partition(".")[0] == "torch" and isinstance(logger, logging.Logger):
            for stream in logger.handlers:
                if _is_to_stderr(stream):
                    stream.addFilter(_is_told)


def _is_to_stderr(stream: logging.Handler) -> bool:
    """Whether torch made it to write to stderr: from 2.15 on by a class of its own, which is no stream."""
    if type(stream) is logging.StreamHandler:
        return True
    return type(stream).__module__.startswith("torch._logging.") and not isinstance(stream, logging.StreamHandler)


def _print(warning: OptionWarning | ConverterWarning) -> None:
    context = click.get_current_context(silent=True)
    if context is not None and context.params.get("quiet"):
        return
    words = one_line(str(warning), _LONGEST_CHARS)
    if isinstance(warning, OptionWarning):
        words = f"{_named(warning, context)} has no effect: {warning.why}"
    told = Text.assemble(("warning: ", "bold yellow"), words)
    Console(stderr=True, highlight=False).print(told, soft_wrap=True)


def _named(warning: OptionWarning, context: click.Context | None) -> str:
    """``--keep-in-torch nosuch`` as it was typed; what the file says as it stands there."""
    name = _OF_ARGUMENTS.get(warning.option, warning.option)
    typed = None if context is None else next((each for each in context.command.params if each.name == name), None)
    flag = f"--{warning.option.replace('_', '-')}" if typed is None else max(typed.opts, key=len)
    value = "" if warning.value is True else f" {one_line(_plain(warning.value), _LONGEST_CHARS)}"
    if context is not None and context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
        return f"{flag.lstrip('-')}{value} of [tool.trtdiag] in pyproject.toml"
    return flag + value


def _plain(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
