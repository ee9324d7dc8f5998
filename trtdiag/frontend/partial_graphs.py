"""The graph as far as torch.export had come when it failed: an attribute of its error, which torch also prints."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from typing import Any, TextIO, cast

_GRAPH = "partial_fx_graph"
# nonzero: "i64[u0, 1]" = torch.ops.aten.nonzero.default(gt)
_VALUE = re.compile(r'^\s*(\w+): "(?:(\w+)\[([^"]*)\]|Sym\(([^"]*)\))', re.MULTILINE)
_FROM_DATA = re.compile(r"(z?uf?\d+)|Eq\((u\d+), 1\)")  # a bool is a number that is compared


def values_of_data(error: BaseException) -> Mapping[str, str]:
    """What bears each size or number from data: ``{"u0": "nonzero.shape[0]", "zuf0": "item"}``, as far as torch came.

    Args:
        error: Of torch.export.
    """
    found: dict[str, str] = {}
    for name, dtype, dims, number in _VALUE.findall(str(getattr(error, _GRAPH, ""))):
        for index, size in enumerate(dims.split(", ") if dtype else [number]):
            if symbol := _FROM_DATA.fullmatch(size):
                found.setdefault(symbol[1] or symbol[2], f"{name}.shape[{index}]" if dtype else name)
    return found


class PartialGraphWarning(UserWarning):
    """The graph as far as torch.export had come when it failed."""


@contextmanager
def partial_graphs_as_warnings() -> Iterator[None]:
    """Give the graph that torch.export prints to standard error when it fails as a warning, which can be held back.

    All else that is printed meanwhile, the model's own words among it, goes where it would.
    """
    if sys.stderr is None:
        yield
        return
    stream = _WithoutGraphs(sys.stderr)
    try:
        with redirect_stderr(cast("TextIO", stream)):
            yield
    finally:
        for graph in stream.graphs:
            warnings.warn(f"torch.export came this far:{graph}", PartialGraphWarning, stacklevel=2)


class _WithoutGraphs:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.graphs: list[str] = []

    def write(self, text: str) -> int:
        # torch prints in the handler of the very error that has the graph.
        graph = getattr(sys.exc_info()[1], _GRAPH, None)
        if graph is None:
            return self._stream.write(text)
        if text.strip():
            self.graphs.append(text)
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
