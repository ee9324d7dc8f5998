"""What a name can lead to instead of a file that can be read, for the tests of everything that reads files."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

SPARSE_BYTES = 3 << 30


def _pipe(place: Path) -> None:
    os.mkfifo(place)  # nobody ever writes to it: opening it to read would wait forever


def _endless(place: Path) -> None:
    place.symlink_to("/dev/zero")


def _loop(place: Path) -> None:
    place.symlink_to(place.name)


def _socket(place: Path) -> None:
    here = os.getcwd()
    os.chdir(place.parent)  # the name of a socket has at most 108 bytes
    try:
        socket.socket(socket.AF_UNIX).bind(place.name)
    finally:
        os.chdir(here)


def _sparse(place: Path) -> None:
    with place.open("wb") as file:
        file.truncate(SPARSE_BYTES)


NOT_FILES: dict[str, Callable[[Path], object]] = {
    "pipe": _pipe,
    "endless": _endless,
    "directory": Path.mkdir,
    "loop": _loop,
    "socket": _socket,
    "sparse": _sparse,
}
"""Each makes one at a place."""
NOT_TEXTS: dict[str, bytes] = {"empty": b"", "not-utf-8": b'{"a": "\xff\xfe"}\n', "null-bytes": b"\0" * 64}
