"""What files are called that nobody named."""

from __future__ import annotations

import os
import re
from hashlib import sha256
from pathlib import Path, PurePath

_COMPILED = ((".html", rb'<section id="compiled"'), (".json", rb'"compiled":\s*\{'))
"""What is in reports of compile alone, by suffix."""
_LONGEST_BYTES = 200
"""Own choice: file systems take 255, and endings are added."""


def name_after(source: str) -> str:
    """The name of what is written about a source, without an ending: different sources of a project get different ones.

    A file has its own name, behind the folders that it is in below the working directory; a file elsewhere has its name
    alone.  A factory has its module's and its own: two modules often call theirs ``build``.

    Args:
        source: ``models/unet.pt2`` gives ``models.unet``, ``unet.pt2`` and ``/data/unet.pt2`` give ``unet``, and
            ``package.unet:build`` gives ``package.unet.build``.
    """
    if ":" in source and not os.path.exists(source):
        name = source.replace(":", ".")
    else:
        path = _below_here(PurePath(os.path.normpath(source)))
        name = ".".join((*path.parent.parts, path.stem))
    flat = name.replace("/", ".").replace("\\", ".").lstrip(".")
    return _short(flat) or "report"


def analysis_page(source: str) -> Path:
    """Where the page of an analysis goes: beside that of the compilation that made the file, which has its name.

    What was measured and compared then is nowhere else.
    """
    page = Path(f"{name_after(source)}.html")
    return page.with_suffix(".analysis.html") if any(_is_of_compile(page, *each) for each in _COMPILED) else page


def _is_of_compile(page: Path, suffix: str, mark: bytes) -> bool:
    try:
        return re.search(mark, page.with_suffix(suffix).read_bytes()) is not None
    except OSError:
        return False


def _below_here(path: PurePath) -> PurePath:
    """The path from the working directory; of one that is not below it the name alone."""
    if path.is_absolute():
        try:
            return path.relative_to(Path.cwd())
        except (ValueError, OSError):  # elsewhere, or there is no working directory any more
            return PurePath(path.name)
    return PurePath(path.name) if ".." in path.parts else path


def _short(name: str) -> str:
    """A name that a file system takes: of a longer one the end, and a mark of the whole."""
    whole = name.encode("utf-8", "surrogatepass")
    if len(whole) <= _LONGEST_BYTES:
        return name
    return f"{whole[9 - _LONGEST_BYTES :].decode('utf-8', 'ignore').lstrip('.')}-{sha256(whole).hexdigest()[:8]}"
