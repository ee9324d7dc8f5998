"""Lets torch compute with sizes, and note where an op comes from, in fewer steps.

An export of a large transformer asks a million times for the expression of a size and makes as many new ones.  Each
time torch looks whether the expression is a number, by walking through it, and writes a line for a log that nobody
keeps; and each op's stack is made of new entries for the same lines.  This was a tenth of such an export.

A quotient of sizes is simplified with each quotient inside of it, and these again for each that they are in: with
window attention, whose sizes are quotients of quotients, that was half of an export.  And what is known of such sizes
is expanded again, and walked through for quotients, powers and numbers, whenever another guard comes.  Where windows
are padded such a quotient stands in its expression dozens of times, and torch expands and bounds each.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, lru_cache
from importlib import import_module
from traceback import FrameSummary, StackSummary
from typing import Any
from unittest import mock

import sympy
import torch
from cachetools import LRUCache
from torch.fx.experimental import recording, symbolic_shapes
from torch.fx.experimental.sym_node import SymNode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _traceback
from torch.utils._sympy import interp, value_ranges

from trtdiag.frontend.deferred_sympy import when_sympy_comes

_KNOWN = "2.13."
"""The release whose functions stand below; another is let alone."""
_MOST_KEPT = 1 << 16
_SAME = object()


@contextmanager
def quick_sizes() -> Iterator[None]:
    """Within it, torch does so; what it gives is the same.  Whoever calls has torch's turn."""
    if not torch.__version__.startswith(_KNOWN):
        yield
        return
    with ExitStack() as replaced:
        for owner, name, quick in _replacements():
            replaced.enter_context(mock.patch.object(owner, name, quick))
        within = [replaced]
        replaced.callback(within.clear)

        def simplify_once() -> None:
            simplified = _simplify()
            for stack in within:
                for module in (sympy, import_module("sympy.simplify.simplify")):
                    stack.enter_context(mock.patch.object(module, "simplify", simplified))

        if not when_sympy_comes(simplify_once):
            simplify_once()
        yield


def _replacements() -> Iterator[tuple[Any, str, Any]]:
    """What is replaced: where it is, its name, and by what."""
    expression: Any = SymNode.expr.fget  # type: ignore[attr-defined]  # a property
    is_number = lru_cache(_MOST_KEPT)(lambda expr: expr.is_number)

    def expr(node: SymNode) -> Any:
        env = node.shape_env
        if env is not None:
            version = env._replacements_version_counter
            if version == 0:  # nothing stands for anything else
                return node._expr
            if node._expr_cache is not None and node._expr_ver == version:
                return node._expr_cache
        return expression(node)

    def maybe_as_int(node: SymNode) -> int | None:
        found: Any = node.expr
        return int(found) if is_number(found) else None

    yield SymNode, "expr", property(expr)
    yield SymNode, "maybe_as_int", maybe_as_int
    yield _traceback, "_extract_symbolized_tb", _stack_maker()
    yield sympy.Basic, "atoms", _atoms()
    within = _Replacing()
    yield sympy.Basic, "xreplace", lambda expr, rule: within.replaced(expr, rule)
    yield sympy.Basic, "_xreplace", lambda expr, rule: within.part(expr, rule)
    # torch keeps 256 of these.
    yield symbolic_shapes, "safe_expand", lru_cache(_MOST_KEPT)(symbolic_shapes.safe_expand.__wrapped__)
    yield symbolic_shapes, "_fast_expand", _expand()
    yield value_ranges, "sympy_interp", _range_of
    if not recording.trace_shape_events_log.isEnabledFor(logging.DEBUG):
        yield ShapeEnv, "_create_fx_call_function", _call_maker()


def _simplify() -> Any:
    """Simplifies an expression once, those inside of it too: it calls itself by its name in its module."""
    simplify: Any = sympy.simplify
    once = lru_cache(_MOST_KEPT, typed=True)(simplify)

    def simplified(expr: Any, **options: Any) -> Any:
        return once(expr, **options) if isinstance(expr, sympy.Basic) else simplify(expr, **options)

    return simplified


def _atoms() -> Any:
    """The parts of an expression of some kinds, looked for once; each caller has a set of its own."""
    once = lru_cache(_MOST_KEPT, typed=True)(sympy.Basic.atoms)

    def atoms(expr: Any, *kinds: Any) -> set[Any]:
        return set(once(expr, *kinds))

    return atoms


class _Replacing:
    """Replaces in each part of an expression once."""

    def __init__(self) -> None:
        self._part: Any = sympy.Basic._xreplace
        self._known: dict[Any, tuple[Any, bool]] | None = None

    def replaced(self, expr: Any, rule: Any) -> Any:
        outer, self._known = self._known, {}  # a rule may have changed since
        try:
            return expr._xreplace(rule)[0]
        finally:
            self._known = outer

    def part(self, expr: Any, rule: Any) -> tuple[Any, bool]:
        """What stands for a part, and whether that is another."""
        known = self._known
        if known is None or not expr.args:
            return self._part(expr, rule)  # type: ignore[no-any-return]
        found = known.get(expr)
        if found is None:
            found = known[expr] = self._part(expr, rule)
        return found if found[1] else (expr, False)


def _expand() -> Any:
    """Expands an expression once, those inside of it too: torch's function calls itself by its name in its module."""
    expand: Any = symbolic_shapes._fast_expand
    kept: LRUCache[Any, Any] = LRUCache(_MOST_KEPT)

    def expanded(expr: Any) -> Any:
        found = kept.get(expr)
        if found is None:
            found = expand(expr)
            kept[expr] = _SAME if found is expr else found
        # What needs none is given back itself, not one that equals it: torch makes an expression with others anew.
        return expr if found is _SAME else found

    return expanded


def _range_of(
    analysis: Any, env: Any, expr: Any, *, index_dtype: torch.dtype = torch.int64, missing_handler: Any = None
) -> Any:
    """The range of an expression, from those of its parts, each looked for once."""
    known: dict[Any, Any] = {}

    def of(part: Any) -> Any:
        found = known.get(part)
        if found is None:
            if part.args:
                args = [of(arg) for arg in part.args]
                found = interp._run_sympy_handler(analysis, args, part, index_dtype=index_dtype)  # type: ignore[no-untyped-call]
            else:
                found = interp.sympy_interp(
                    analysis, env, part, index_dtype=index_dtype, missing_handler=missing_handler
                )
            known[part] = found
        return found

    return of(expr)


def _call_maker() -> Any:
    """Makes no node of a call where torch neither records what happens to sizes nor proves its guards with z3."""
    make: Any = ShapeEnv._create_fx_call_function

    def made(env: Any, op: Any, args: Any) -> Any:
        if env.should_record_events or env._translation_validation_enabled or env.fx_node_cache:
            return make(env, op, args)
        return None, False

    return made


def _stack_maker() -> Any:
    """Makes a stack of entries that are made once for each line."""
    entry = cache(FrameSummary)

    def made(frames: Any, skip: int) -> StackSummary:
        return StackSummary(entry(each["filename"], each["line"], each["name"]) for each in reversed(frames[skip:]))

    return made
