"""Input dims that began dynamic and that tracing narrowed to one value, or made equal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from torch.fx.experimental.symbolic_shapes import ShapeEnv

from trtdiag.frontend.guard_stacks import GuardStacks
from trtdiag.frontend.program import InputTensor, Join, Pin
from trtdiag.frontend.torch_private import replacements, shape_env_guards, symbol_sources
from trtdiag.graph.source import NO_STACK

_SIZE = re.compile(r"(?P<tensor>.+)\.size\(\)\[(?P<dim>\d+)\]$")
_PART = re.compile(r"\['?([^\]']+)'?\]")


def pinned_dims(env: ShapeEnv | None, inputs: Sequence[InputTensor], stacks: GuardStacks | None) -> tuple[Pin, ...]:
    """Each input dim whose symbol torch replaced by a number, with the guard that did it."""
    if env is None:
        return ()
    known = {name: int(expr) for name, expr in replacements(env).items() if getattr(expr, "is_Integer", False)}
    if not known:
        return ()
    sources = symbol_sources(env)
    guards = shape_env_guards(env)
    pins = []
    for symbol, value in known.items():
        cause = next(((c, s) for c, s in guards if _equates(c, symbol)), None)
        stack = NO_STACK if cause is None else cause[1]
        if cause is not None and stacks is not None:
            stack = stacks.of(cause[0]) or stack
        site = next((found for text in sources.get(symbol, ()) if (found := site_of(text, inputs))), None)
        if site is not None:
            op = None if cause is None or stacks is None else stacks.op_of(cause[0])
            pins.append(Pin(site, value, "" if cause is None else str(cause[0]), stack, op))
    return tuple(pins)


def joined_dims(env: ShapeEnv | None, inputs: Sequence[InputTensor], stacks: GuardStacks | None) -> tuple[Join, ...]:
    """Each pair of input dims of which torch replaced one by the other, or by a size made of the other."""
    if env is None:
        return ()
    sources = symbol_sources(env)
    joins = []
    for symbol, expr in replacements(env).items():
        made_of = sorted(str(free) for free in getattr(expr, "free_symbols", ()))
        ends = [
            next((site for text in sources.get(end, ()) if (site := site_of(text, inputs))), None)
            for end in (symbol, *made_of[:1])
        ]
        cause = next(((c, s) for c, s in shape_env_guards(env) if _equates_two(c, symbol)), None)
        if len(ends) < 2:
            continue
        if ends[0] is not None and ends[1] is not None and cause is not None:
            known = None if stacks is None else stacks.of(cause[0])
            op = None if stacks is None else stacks.op_of(cause[0])
            joins.append(Join((ends[0], ends[1]), str(cause[0]), known or cause[1], op))
    return tuple(joins)


def _equates_two(condition: Any, symbol: str) -> bool:
    """Whether the condition is an equation between this symbol and others."""
    free = {str(s) for s in condition.free_symbols} if type(condition).__name__ == "Equality" else set()
    return symbol in free and len(free) > 1


def _equates(condition: Any, symbol: str) -> bool:
    """Whether the condition is an equation in this symbol alone: what torch replaces a symbol by a number for."""
    return type(condition).__name__ == "Equality" and {str(s) for s in condition.free_symbols} == {symbol}


def site_of(source: str, inputs: Sequence[InputTensor]) -> str | None:
    """``L['x'].size()[2]`` as the user's ``x.shape[2]``, where it names a dim of an input."""
    match = _SIZE.match(source)
    if match is None:
        return None
    key = source_key(match["tensor"])
    flat = re.fullmatch(r"L\['flat_args'\]\[(\d+)\]", match["tensor"])
    for index, tensor in enumerate(inputs):
        if (int(flat[1]) == index) if flat else source_key(tensor.name) == key:
            return f"{tensor.name}.shape[{match['dim']}]"
    return None


def source_key(text: str) -> str:
    """A spelling shared by torch's sources and the user's names: path parts joined by ``_``, lower case.

    ``L['opts']['k'][1]`` and ``opts['k'][1]`` both give ``opts_k_1``; this is also how torch names placeholders.
    """
    plain = re.sub(r"^L(?=\[)", "", text)
    parts = _PART.sub(r"_\1", plain).replace(".", "_").strip("_")
    return re.sub(r"[^a-zA-Z0-9]", "_", parts).lower()
