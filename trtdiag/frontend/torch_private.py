"""The one place that reads torch's private attributes of programs and shape environments.

Everything else in the package sees plain values.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch.export import ExportedProgram
from torch.fx import GraphModule
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from trtdiag.graph.source import NO_STACK, OWN, Frame, Stack
from trtdiag.symbolic import INT64_MAX, Expr, ExpressionError, Range, expr_from_sympy


def shape_env_of(graph_module: GraphModule) -> ShapeEnv | None:
    """The ShapeEnv that the values of the graph's nodes belong to, ``None`` for a fully static graph."""
    vals = [node.meta["val"] for node in graph_module.graph.nodes if node.meta.get("val") is not None]
    for val in vals:
        if isinstance(val, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            symbolic: ShapeEnv | None = val.node.shape_env
            return symbolic
    mode = detect_fake_mode([v for v in vals if isinstance(v, torch.Tensor)][:1])
    return None if mode is None else mode.shape_env


def guards_code(exported: ExportedProgram) -> list[str]:
    """The Python text of the program's guards; empty for programs of torch 2.8 and before."""
    return list(exported._guards_code or [])


def shape_env_guards(env: ShapeEnv) -> list[tuple[object, Stack]]:
    """Each guard's sympy condition and the frame that torch noted for it.

    In a program that was loaded, whose symbols have no sources, torch noted the line that loaded it: none is given.
    """
    loaded = not symbol_sources(env)
    return [(guard.expr, NO_STACK if loaded else _sloc_stack(getattr(guard, "sloc", None))) for guard in env.guards]


def _sloc_stack(sloc: Any) -> Stack:
    location = getattr(sloc, "framework_loc", None)
    if location is None or isinstance(location, str):
        return NO_STACK
    frame = Frame(str(location.filename), int(location.lineno or 0), str(location.name), (location.line or "").strip())
    return NO_STACK if frame.package in (OWN, "python") else Stack((frame,))


def backed_hints(env: ShapeEnv) -> dict[str, int]:
    """Each backed symbol's size in the example inputs."""
    hints: dict[str, int] = {}
    for symbol, value in env.backed_var_to_val.items():
        with suppress(TypeError, ValueError):  # a float symbol; sizes never depend on it
            hints[str(symbol)] = int(value)
    return hints


def symbol_sources(env: ShapeEnv) -> dict[str, list[str]]:
    """Each symbol's sources as text (``L['x'].size()[2]``); empty in a loaded program."""
    return {str(symbol): [str(each.name) for each in sources] for symbol, sources in env.var_to_sources.items()}


def replacements(env: ShapeEnv) -> dict[str, Any]:
    """Symbols that torch replaced by another expression during tracing."""
    return {str(symbol): expr for symbol, expr in env.replacements.items()}


def value_range(vr: Any) -> Range:
    """Torch's ValueRanges as a Range; infinities and int64's maximum are open ends."""
    low, high = _end(vr.lower), _end(vr.upper)
    return Range(low, None if high is not None and high >= INT64_MAX - 1 else high)


def range_of(env: ShapeEnv, symbol: Any) -> tuple[int | None, int | None]:
    """The least and greatest value that torch knows for ``symbol``; ``None`` for an open end."""
    known = env.var_to_range.get(symbol)
    if known is None:
        return None, None
    bounds = value_range(known)
    return bounds.min, bounds.max


def _end(value: Any) -> int | None:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError, AttributeError):  # int_oo, oo: no integer
        return None
    return None if abs(number) > INT64_MAX else number


def plain_ranges(constraints: Mapping[Any, Any]) -> dict[str, Range]:
    """``range_constraints`` of plain symbols; entries keyed by expressions follow from them and are left out."""
    return {str(key): value_range(vr) for key, vr in constraints.items() if getattr(key, "is_Symbol", False)}


def derived_ranges(constraints: Mapping[Any, Any]) -> list[tuple[Expr, Range]]:
    """``range_constraints`` of sizes that are made of symbols: of derived Dims as they were declared."""
    found = []
    for key, vr in constraints.items():
        if not getattr(key, "is_Symbol", True):
            with suppress(ExpressionError):  # nothing that a Dim could be
                found.append((expr_from_sympy(key), value_range(vr)))
    return found


def running_schema() -> str | None:
    """``major.minor`` of the schema that this torch writes, where it says so."""
    from torch._export.serde import schema

    return ".".join(str(part) for part in schema.SCHEMA_VERSION)
