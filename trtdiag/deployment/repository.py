"""A model in a repository of Triton: new as a whole, or one more version of it."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from trtdiag.errors import ArtifactError, UserError
from trtdiag.files.atomic_folder import atomic_folder
from trtdiag.files.atomic_write import write_whole
from trtdiag.files.bounded_read import read_whole, reason
from trtdiag.files.destination import may_be_named
from trtdiag.wording import shown

CONFIG = "config.pbtxt"
MOST_VERSION = (1 << 31) - 1
"""Own choice: Triton reads 64 bits; numbers in its configuration have 32."""
_MOST_CONFIG_BYTES = 1 << 24
_MOST_NAME_BYTES = 255


def model_folder(repository: Path, name: str) -> Path:
    """The folder of a model.

    Raises:
        UserError: ``triton-name``: no model can have that name.
    """
    fits = name.strip() == name and name.isprintable() and not name.startswith(".") and not set(name) & set('/\\"')
    if not name or not fits or not may_be_named(name) or len(name.encode()) > _MOST_NAME_BYTES:
        raise UserError(
            f"a model cannot be called {shown(name)}",
            because="its name is that of its folder in the repository: without slashes, quotes, a dot at the start, and"
            " what cannot be printed",
            fix="name it in letters, digits and underscores, for example resnet",
            reference="triton-name",
        )
    return repository / name


def chosen_version(model: Path, version: int | None, *, force: bool) -> int:
    """The version to write: what is asked for, else the one after those that are there, 1 for a new model.

    Raises:
        UserError: ``triton-version``: it is there, and nothing was said of replacing it; ``repository-not-writable``.
    """
    with _telling(model):
        there = sorted(_versions(model))
    chosen = version if version is not None else (there[-1] + 1 if there else 1)
    if chosen > MOST_VERSION:
        raise UserError(
            f"{model} has no version behind {there[-1]}",
            because=f"versions of Triton go to {MOST_VERSION}",
            fix="name a version that is free: --version (version=1)",
            reference="triton-version",
        )
    if chosen in there and not force:
        raise UserError(
            f"{model} has a version {chosen}",
            because="a version that is there is not written over",
            fix=f"leave the version out, which makes it {there[-1] + 1}, or replace it with --force (force=True)",
            reference="triton-version",
        )
    return chosen


def _versions(model: Path) -> Iterator[int]:
    if os.path.exists(model):
        for path in model.iterdir():
            if path.name.isascii() and path.name.isdigit() and path.name[0] != "0":
                yield int(path.name)


def check_config(model: Path, config: str, *, force: bool, keep: bool) -> bool:
    """Whether the configuration is to be written; lines of remarks do not count.

    Raises:
        UserError: ``triton-config``: another one is there, and nothing was said of it; ``repository-not-writable``.
    """
    path = model / CONFIG
    with _telling(model):
        if not path.exists():
            return True
        there = read_whole(path, _MOST_CONFIG_BYTES).decode("utf-8", "replace")
    old, new = _meant(there), _meant(config)
    if old == new or keep:
        return False
    if force:
        return True
    changed = [line for line in difflib.unified_diff(old, new, n=0, lineterm="") if line[:3] not in ("---", "+++")]
    first = "; ".join(line for line in changed if not line.startswith("@@"))
    raise UserError(
        f"{path} says something else than this program needs",
        because=f"- is there, + would be written: {first[:400]}",
        fix="keep it with --keep-config (keep_config=True), replace it with --force (force=True), or export under"
        " another name",
        reference="triton-config",
    )


def _meant(config: str) -> list[str]:
    lines = (line.partition("  # ")[0].rstrip() for line in config.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def write_model(
    model: Path, version: int, fill: Callable[[Path], None], texts: Mapping[str, str], *, replace: bool
) -> None:
    """Write a version of a model, and the files beside the versions.

    A new model appears as a whole.  A version of one that is there appears as a whole before the files do.

    Args:
        model: Its folder.
        version: The number of the version.
        fill: Writes the files of the version into a folder.
        texts: The files beside the versions, by name.
        replace: Whether a version that is there goes.

    Raises:
        UserError: ``repository-not-writable``; ``triton-version`` where it is there by now.
    """
    with _telling(model):
        model.parent.mkdir(parents=True, exist_ok=True)
        if not model.exists():
            with atomic_folder(model) as work:
                (work / str(version)).mkdir()
                fill(work / str(version))
                for name, text in texts.items():
                    (work / name).write_text(text, encoding="utf-8")
            return
        with atomic_folder(model / str(version), replace=replace) as work:
            fill(work)
        for name, text in texts.items():
            write_whole(model / name, (text.encode("utf-8"),))


@contextmanager
def _telling(model: Path) -> Iterator[None]:
    try:
        yield
    except ArtifactError as error:  # of the program in it, at a name that nobody knows
        if error.reference != "file-not-written":
            raise
        raise _not_writable(model, error.because) from error
    except OSError as error:
        there = error.filename2 or error.filename  # of a copy the second is what is written
        if isinstance(error, FileExistsError) and there and os.path.isdir(there):
            raise UserError(
                f"{there} is there now",
                because="somebody else wrote it while this one was made",
                fix="run the same again, which makes it the next version",
                reference="triton-version",
            ) from error
        told = f"the operating system says: {reason(error)}" + (f" ({there})" if there else "")
        raise _not_writable(model, told) from error


def _not_writable(model: Path, why: str) -> UserError:
    return UserError(
        f"the model {model} cannot be written",
        because=why,
        fix="name a repository in a folder that exists, with space, in which you may write",
        reference="repository-not-writable",
    )
