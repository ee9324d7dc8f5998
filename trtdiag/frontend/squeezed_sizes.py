"""Dims that a squeeze keeps: conditions that torch.export relies on and does not write."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from trtdiag.frontend.inputs import user_names
from trtdiag.frontend.node_origins import origin_of
from trtdiag.frontend.program import RawGuard
from trtdiag.graph.node_kinds import walk
from trtdiag.graph.operators import operator_of, schema_name

_SQUEEZES = frozenset({"aten::squeeze", "aten::squeeze_", "aten::squeeze_copy"})
_TOP, _IN_TORCH = re.compile(r"^\w+"), r"L['\g<0>']"


def kept_by_squeezes(exported: ExportedProgram) -> Iterator[RawGuard]:
    """A dynamic dim that a squeeze keeps is not 1: there the op gives a tensor of fewer dims than all after it expects.

    torch assumes so of every symbol while it traces, and writes no guard, though a declared range may have the 1.
    """
    sizes: dict[Any, str] = {}
    for located in walk(exported.graph_module):
        node, op = located.node, operator_of(located.node)
        if op is None or schema_name(op) not in _SQUEEZES:
            continue
        sizes = sizes or _input_sizes(exported)
        source = node.args[0]
        shape = getattr(source.meta.get("val"), "shape", ()) if isinstance(source, Node) else ()
        given = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", range(len(shape)))
        for dim in given if isinstance(given, Iterable) else (given,):
            size = shape[dim] if isinstance(dim, int) and -len(shape) <= dim < len(shape) else 1
            if not isinstance(size, torch.SymInt) or size.node.expr not in sizes:
                continue
            known = exported.range_constraints.get(size.node.expr)
            if known is not None and known.lower <= 1:
                condition = f"{sizes[size.node.expr]} != 1"
                yield RawGuard(condition, "squeeze", origin_of(node).stack, located.name, str(node.target))


def _input_sizes(exported: ExportedProgram) -> dict[Any, str]:
    """Each dynamic size of an input, in torch's words: ``L['x'].size()[1]``."""
    vals = {node.name: node.meta.get("val") for node in exported.graph.find_nodes(op="placeholder")}
    found: dict[Any, str] = {}
    for placeholder, name in zip(exported.graph_signature.user_inputs, user_names(exported), strict=False):
        val = vals.get(placeholder) if isinstance(placeholder, str) else None
        for axis, size in enumerate(val.shape if isinstance(val, torch.Tensor) else ()):
            if isinstance(size, torch.SymInt):
                found.setdefault(size.node.expr, f"{_TOP.sub(_IN_TORCH, name, count=1)}.size()[{axis}]")
    return found
