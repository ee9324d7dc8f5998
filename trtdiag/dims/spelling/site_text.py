"""The text of a site: ``x.shape[2]`` of a tensor's dim, ``n`` of an integer input."""

from __future__ import annotations

import re

_DIM = re.compile(r"(?P<input>.+)\.shape\[(?P<dim>\d+)\]", re.DOTALL)


def split_site(site: str) -> tuple[str, int | None]:
    """The name of the input and the index of its dim, ``None`` where the site is an integer input."""
    match = _DIM.fullmatch(site)
    return (match["input"], int(match["dim"])) if match else (site, None)
