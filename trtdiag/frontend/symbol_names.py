"""Names for symbols that a user recognises."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from trtdiag.frontend.data_dependent.example_values import made_at
from trtdiag.frontend.dim_sites import InputsBySource
from trtdiag.frontend.program import InputTensor, integer_names
from trtdiag.frontend.torch_private import symbol_sources
from trtdiag.graph.unbacked_symbols import BINDINGS
from trtdiag.symbolic import Sym, free_symbols


def symbol_names(inputs: Sequence[InputTensor]) -> dict[str, str]:
    """Each input symbol's name: the declared Dim's (``h``), else the first dim that it sizes (``x.shape[2]``).

    A derived root that sizes no input by itself (``_seq`` under ``2*_seq``) takes its name from the declaration.
    """
    names: dict[str, str] = {}
    dims = [dim for tensor in inputs for dim in tensor.dims]
    for dim in dims:
        if isinstance(dim.expr, Sym):
            name = names.get(dim.expr.name)
            if name is None or (dim.declared_name is not None and name.endswith("]")):
                names[dim.expr.name] = dim.declared_name or dim.site
    for dim in dims:
        free = free_symbols(dim.expr)
        if not isinstance(dim.expr, Sym) and dim.declared_root is not None and len(free) == 1:
            names.setdefault(next(iter(free)), dim.declared_root)
    return names


def program_names(exported: ExportedProgram, inputs: Sequence[InputTensor]) -> dict[str, str]:
    """A name for every symbol of a program that has one.

    Beside ``symbol_names``: an integer input's name; ``_x_dim1`` for the root of a size like ``2*root`` that was never
    declared; for a size from data the value that bears it, ``nonzero.shape[0]`` or ``item``.
    """
    names = integer_names(inputs)
    names.update(symbol_names(inputs))
    for tensor in inputs:
        for dim in tensor.dims:
            unnamed = [symbol for symbol in sorted(free_symbols(dim.expr)) if symbol not in names]
            for number, symbol in enumerate(unnamed):
                word = re.sub(r"\W+", "_", tensor.name).strip("_")
                names[symbol] = f"_{word}_dim{dim.index}{f'_{number + 1}' if number else ''}"
    for symbol, name in _of_data(exported):
        names.setdefault(symbol, name)
    return names


def failed_names(
    env: ShapeEnv | None, inputs: Sequence[InputTensor], values_of_data: Mapping[str, str]
) -> dict[str, str]:
    """The same for an export that failed; a size from data of no known value goes by the line that made it.

    ``value of net.py:25``, a second one of that line ``value 2 of net.py:25``; of data where torch kept no line.
    """
    names = {**values_of_data, **symbol_names(inputs)}
    if env is None:
        return names
    by_source = InputsBySource(inputs)
    for symbol, sources in symbol_sources(env).items():
        given = next(filter(None, map(by_source.input, sources)), None)
        if given is not None and given.dtype is None:  # an integer that may vary
            names.setdefault(symbol, given.name)
    count: Counter[str] = Counter()
    for symbol in getattr(env, "var_to_stack", {}):
        if str(symbol) in names or not str(symbol).startswith(("u", "zu")):
            continue
        frame = made_at(env, symbol).best
        line = "data" if frame is None else PurePath(frame.short).name
        count[line] += 1
        names[str(symbol)] = f"value{f' {count[line]}' if count[line] > 1 else ''} of {line}"
    return names


def _of_data(exported: ExportedProgram) -> Iterator[tuple[str, str]]:
    for module in exported.graph_module.modules():
        if not isinstance(module, torch.fx.GraphModule):
            continue
        for node in module.graph.nodes:
            bound = node.meta.get(BINDINGS)
            for symbol, path in (bound if isinstance(bound, Mapping) else {}).items():
                yield str(symbol), node.name + "".join(_step(path))


def _step(path: Sequence[Any]) -> Iterator[str]:
    """Where in the value of a node a symbol stands, as Python: ``[1].shape[0]``; nothing for a number."""
    keys = list(path)
    while keys:
        key = keys.pop(0)
        method = getattr(key, "name", None)
        if method in ("size", "stride", "storage_offset") and type(key).__name__ == "CallMethodKey":
            place = keys.pop(0) if keys else None
            where = "" if place is None else f"[{getattr(place, 'idx', place)}]"
            yield f".shape{where}" if method == "size" else f".{method}(){where}"
        elif hasattr(key, "idx"):
            yield f"[{key.idx}]"
