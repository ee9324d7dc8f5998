"""Programs without a graph, written by hand: the dims stage needs inputs, ranges and guards only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from trtdiag.frontend.program import InputDim, InputTensor, Program, RawGuard, SourceKind, Versions
from trtdiag.graph.source import NO_STACK, Frame, Stack
from trtdiag.symbolic import parse_expr
from trtdiag.symbolic.ranges import Range

USER = Stack((Frame("model.py", 7, "forward", "if h % 2:"),))
OP = Stack(
    (Frame("model.py", 9, "forward", "return x.view(-1, 8)"), Frame("/site-packages/torch/_refs/__init__.py", 1))
)


def program(
    ranges: Mapping[str, Range],
    guards: Sequence[str | RawGuard],
    *,
    sizes: Sequence[str] | None = None,
    hints: Mapping[str, int] | None = None,
    declared: Mapping[str, str] | None = None,
) -> Program:
    """One input ``x`` with a dim per entry of ``sizes`` (expressions over the symbols, default: the symbols)."""
    names = dict(declared or {})
    dims = tuple(
        InputDim("x", index, parse_expr(size), declared=names.get(size), declared_name=names.get(size), dynamic=True)
        for index, size in enumerate(sizes or list(ranges))
    )
    return Program(
        label="by hand",
        kind=SourceKind.LIVE,
        exported=None,
        inputs=(InputTensor("x", "x", torch.float32, dims),),
        ranges=ranges,
        hints=dict(hints or {}),
        names={symbol: names.get(symbol, f"x.shape[{i}]") for i, symbol in enumerate(ranges)},
        guards=tuple(g if isinstance(g, RawGuard) else RawGuard(g, "_guards_code", NO_STACK) for g in guards),
        origins={},
        versions=Versions("2.13.0"),
    )
