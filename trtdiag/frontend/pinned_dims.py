"""Input dims, and integers, that began dynamic and that tracing narrowed to one value, or made equal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from torch.fx.experimental.symbolic_shapes import ShapeEnv

from trtdiag.frontend.dim_sites import InputsBySource
from trtdiag.frontend.guard_stacks import GuardStacks, Noted
from trtdiag.frontend.program import InputTensor, Join, Pin
from trtdiag.frontend.torch_private import replacements, shape_env_guards, symbol_sources
from trtdiag.graph.source import Stack


def pinned_dims(env: ShapeEnv | None, inputs: Sequence[InputTensor], stacks: GuardStacks | None) -> tuple[Pin, ...]:
    """Each input dim, or integer, whose symbol torch replaced by a number, with the guard that did it."""
    if env is None:
        return ()
    sources, guards, by_source = symbol_sources(env), shape_env_guards(env), InputsBySource(inputs)
    numbers = {symbol: int(expr) for symbol, expr in replacements(env).items() if getattr(expr, "is_Integer", False)}
    causes = {symbol: _cause(guards, symbol, stacks, alone=True) for symbol in numbers}
    pins = []
    for symbol, number in numbers.items():
        site = by_source.site(sources.get(symbol, ())) or _integer(by_source, sources.get(symbol, ()))
        if site is not None:
            cause = causes[symbol] or next(filter(None, map(causes.get, _equal_to(guards, symbol))), None)
            pins.append(Pin(site, number, *(cause or ("",))))
    return tuple(pins)


def _integer(by_source: InputsBySource, sources: Iterable[str]) -> str | None:
    found = next(filter(None, map(by_source.input, sources)), None)
    return None if found is None or found.dtype is not None else found.name


def joined_dims(env: ShapeEnv | None, inputs: Sequence[InputTensor], stacks: GuardStacks | None) -> tuple[Join, ...]:
    """Each pair of input dims of which torch replaced one by the other, or by a size made of the other."""
    if env is None:
        return ()
    sources, guards, by_source = symbol_sources(env), shape_env_guards(env), InputsBySource(inputs)
    joins = []
    for symbol, expr in replacements(env).items():
        made_of = min(map(str, getattr(expr, "free_symbols", ())), default="")
        first, second = (by_source.site(sources.get(end, ())) for end in (symbol, made_of))
        cause = _cause(guards, symbol, stacks, alone=False)
        if first is not None and second is not None and cause is not None:
            joins.append(Join((first, second), *cause))
    return tuple(joins)


def _equal_to(guards: Sequence[tuple[Any, Stack]], symbol: str) -> list[str]:
    """The symbols that this one was made equal to: where one of them became a number, so did this one."""
    sides = [{str(s) for s in c.args} for c, _stack in guards if type(c).__name__ == "Equality"]
    return [other for pair in sides if symbol in pair for other in pair - {symbol}]


def _cause(
    guards: Sequence[tuple[Any, Stack]], symbol: str, stacks: GuardStacks | None, *, alone: bool
) -> tuple[str, Stack, str | None] | None:
    """The first guard that is an equation in this symbol alone, or between it and others, with its line and op."""
    for condition, stack in guards:
        free = {str(s) for s in condition.free_symbols} if type(condition).__name__ == "Equality" else set()
        if symbol in free and (len(free) == 1) is alone:
            noted = Noted(stack, None) if stacks is None else stacks.of(condition, stack)
            return str(condition), noted.stack, noted.op
    return None
