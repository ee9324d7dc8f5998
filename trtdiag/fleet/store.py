"""The folder of a sweep: a folder for each step under the digest of what decides over it, and the results of all.

steps/KEY/result.json     what the step found, written last: where it is there and fits, the step is done
steps/KEY/measured.json   seconds, memory, times of calls
steps/KEY/depends.json    the user's modules that were imported, with their digests, and versions of packages
steps/KEY/report.html     its page, and what else it wrote
results.json, seconds.json, index.html, earlier.json
"""

from __future__ import annotations

import errno
import json
import os
import platform
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trtdiag.errors import PlatformError, TrtdiagError, UserError
from trtdiag.files.atomic_write import write_entry
from trtdiag.files.typed_json import JsonTypeError
from trtdiag.fleet.digests import Digests, version_of
from trtdiag.fleet.facts import (
    CRASHED,
    FORMS,
    KILLED,
    TIMED_OUT,
    Case,
    Failure,
    Measured,
    Step,
    StepResult,
    needs_program,
    stops,
)
from trtdiag.fleet.programs import MARK
from trtdiag.report.save import telling

RESULT, MEASURED, DEPENDS = "result.json", "measured.json", "depends.json"
_SAFE = re.compile(r"[^A-Za-z0-9._-]+")
_MOST_NAME = 60
_UNWRITTEN = ("report-not-writable", "file-not-written")
"""References of errors about files that are written, which steps write into the folder of the sweep alone."""


def folder_of(root: Path, key: str) -> Path:
    """The folder of a step."""
    return root / "steps" / key


def prepared(root: Path) -> Path:
    """Make the folder of a sweep, and give it as a whole path.

    Raises:
        UserError: ``report-not-writable``; ``sweep-folder`` where it holds something else.
    """
    root = Path(os.path.abspath(root))
    mark = root / MARK
    if os.path.exists(root) and not mark.exists() and (not root.is_dir() or any(root.iterdir())):
        raise UserError(
            f"{root} is there, and no folder of a sweep",
            because="it holds other files" if root.is_dir() else "it is a file",
            fix="name a folder that is empty or not there",
            reference="sweep-folder",
        )
    with telling(root, "sweep"):
        (root / "steps").mkdir(parents=True, exist_ok=True)
        if not mark.exists():
            write_entry(mark, [b"Made by trtdiag sweep.\n"])
    return root


@contextmanager
def keeping(root: Path) -> Iterator[None]:
    """Turns what the system refuses into an error about the folder of a sweep.

    Raises:
        PlatformError: ``sweep-not-writable``.
    """
    try:
        yield
    except OSError as error:
        raise not_writable(root, error.strerror or str(error)) from error


def not_writable(root: Path, why: str) -> PlatformError:
    """The error about a sweep that cannot be kept."""
    return PlatformError(
        f"the sweep cannot be kept in {root}",
        because=f"on {platform.node()}: {why}",
        fix="make room, or see that you may write there; then run the same command again: what was done stays",
        reference="sweep-not-writable",
    )


def of_the_disk(error: BaseException | None) -> str | None:
    """What the system said where a full disk, or a folder that cannot be written, stopped a step; else ``None``.

    It says nothing of the program, so it is not kept as its result.
    """
    if isinstance(error, TrtdiagError) and error.reference in _UNWRITTEN:
        return error.because
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return error.strerror or str(error)
        error = error.__cause__ or error.__context__
    return None


def safe_name(name: str) -> str:
    """A program's name as that of a file."""
    return _SAFE.sub(".", name).strip(".")[-_MOST_NAME:].strip(".") or "program"


def write_json(path: Path, body: Any) -> None:
    """Write a value as the folder keeps it: the same bytes for the same value."""
    write_entry(path, [(json.dumps(body, indent=1, ensure_ascii=True) + "\n").encode()])


def write_result(root: Path, key: str, result: StepResult, measured: Measured | None = None) -> None:
    """Write what a step found; after all else of it.

    Raises:
        PlatformError: ``sweep-not-writable``.
    """
    folder = folder_of(root, key)
    with keeping(root):
        folder.mkdir(parents=True, exist_ok=True)
        if measured is not None:
            write_json(folder / MEASURED, FORMS.written(Measured, measured))
        write_json(folder / RESULT, FORMS.written(StepResult, result))


def read_result(root: Path, key: str) -> StepResult | None:
    """What a step found; ``None`` where it is not done, or its file is damaged."""
    found: StepResult | None = _read(folder_of(root, key) / RESULT, StepResult)
    return found


def read_measured(root: Path, key: str) -> Measured | None:
    """What was measured of it; ``None`` where that is not known."""
    found: Measured | None = _read(folder_of(root, key) / MEASURED, Measured)
    return found


def _read(path: Path, kind: type[Any]) -> Any:
    try:
        return FORMS.read(kind, json.loads(path.read_bytes()))
    except (OSError, ValueError, JsonTypeError, KeyError, TypeError, RecursionError):
        return None


def drop(root: Path, keys: Iterable[str]) -> None:
    """Forget results, so that their steps are done again.

    Raises:
        PlatformError: ``sweep-not-writable``.
    """
    with keeping(root):
        for key in keys:
            (folder_of(root, key) / RESULT).unlink(missing_ok=True)


class Known:
    """Which steps are done: their results hold, and what they depended on is as it was.

    Args:
        root: The folder of the sweep.
        digests: Of files.
        retry_failed: Whether steps count as missing that crashed, were killed or ran into a limit.
    """

    def __init__(self, root: Path, digests: Digests, *, retry_failed: bool) -> None:
        self._root = root
        self._digests = digests
        self._retry_failed = retry_failed

    def missing(self, case: Case) -> list[Step]:
        """The steps of a case that are to be done."""
        found: list[Step] = []
        why = ""
        for step in case.steps:
            if why and needs_program(step):
                continue
            result = self.result(step, case.time_limit_s)
            if result is None:
                found.append(step)
            else:
                why = why or stops(result)
        return found

    def result(self, step: Step, limit_s: float) -> StepResult | None:
        """What a step found, where that still holds."""
        result = read_result(self._root, step.key)
        if result is None or not self._unchanged(step.key):
            return None
        if result.state in (CRASHED, KILLED, TIMED_OUT) and self._retry_failed:
            return None
        # Killed from outside says nothing of the program; with more time it may end.
        if result.state == KILLED or (result.limit_s is not None and result.limit_s < limit_s):
            return None
        return result

    def _unchanged(self, key: str) -> bool:
        try:
            depends = json.loads((folder_of(self._root, key) / DEPENDS).read_bytes())
            files, packages = dict(depends.get("files", {})), dict(depends.get("packages", {}))
        except OSError:
            return True  # it ended before it could say
        except (ValueError, TypeError, AttributeError, RecursionError):
            return False  # damaged
        return all(self._digests.of_file(path) == digest for path, digest in files.items()) and all(
            version_of(name) == version for name, version in packages.items()
        )


def ended(step: Step, state: str, failure: Failure, case: Case) -> StepResult:
    """The result of a step that did not end by itself."""
    return StepResult(step.name, state, failure, case.time_limit_s if state == TIMED_OUT else None)


def relative(key: str, name: str) -> str:
    """The address of a step's file from the page."""
    return f"steps/{key}/{name}"
