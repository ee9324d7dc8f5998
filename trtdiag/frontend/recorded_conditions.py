"""Every condition that an exported program carries, wherever torch keeps it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from trtdiag.frontend.node_origins import origin_of
from trtdiag.frontend.program import RawGuard
from trtdiag.frontend.torch_private import guards_code, replacements, shape_env_guards, symbol_sources
from trtdiag.graph.node_kinds import walk
from trtdiag.graph.source import NO_STACK, OWN, Stack, parse_stack

_ASSERTIONS = (torch.ops.aten._assert_scalar.default, torch.ops.aten.sym_constrain_range_for_size.default)
_EXPORT_FILE = re.compile(r"[/\\]torch[/\\]export[/\\]__init__\.py$")
_ASSERTED = re.compile(r"Runtime assertion failed for expression (?P<condition>.+) on node '[^']*'$", re.DOTALL)


def recorded_guards(exported: ExportedProgram, env: ShapeEnv | None) -> Iterator[RawGuard]:
    """Yield the guards of the live ShapeEnv, the program's guard texts and its assertion nodes.

    The same condition is found in several of these places; the dims stage merges them, which keeps the source line
    of the one that has it and the place of all.
    """
    if env is not None:
        known = replacements(env)
        for condition, stack in shape_env_guards(env):
            yield RawGuard(in_roots(condition, known), "ShapeEnv", stack)
        loaded = not symbol_sources(env)  # then torch noted the lines that read the file
        for asserts in getattr(env, "deferred_runtime_asserts", {}).values():
            for deferred in asserts:
                stack = NO_STACK if loaded else _deferred_stack(deferred)
                yield RawGuard(in_roots(deferred.expr, known), "ShapeEnv", stack)
    for text in guards_code(exported):
        yield RawGuard(text, "_guards_code")
    for located in walk(exported.graph_module):
        if located.node.target in _ASSERTIONS:
            condition, stack = _condition(located.node), origin_of(located.node).stack
            yield RawGuard(condition, "_assert_scalar", stack, located.name)


def in_roots(condition: Any, known: Mapping[str, Any]) -> Any:
    """``condition`` with every symbol that torch replaced while tracing (``s27`` by ``2*s9``) replaced in it."""
    for _ in range(len(known) + 1 if known else 0):
        swaps = {s: known[str(s)] for s in getattr(condition, "free_symbols", ()) if str(s) in known}
        if not swaps:
            break
        condition = condition.xreplace(swaps)
    return condition


def _deferred_stack(deferred: Any) -> Stack:
    trace = getattr(deferred, "stack", None)
    summary = trace.summary() if trace is not None and hasattr(trace, "summary") else None
    return NO_STACK if not summary else _of_model(parse_stack("".join(summary.format())))


def _of_model(stack: Stack) -> Stack:
    """The frames inside the export: who called it is no part of the model."""
    outside = [i for i, frame in enumerate(stack.frames) if frame.package == OWN or _EXPORT_FILE.search(frame.file)]
    return Stack(stack.frames[outside[-1] + 1 :]) if outside else stack


def _condition(node: Node) -> object:
    """The asserted condition: the value of the node's argument where it is symbolic, else the text of its message."""
    argument: Any = node.args[0]
    value = argument.meta.get("val") if isinstance(argument, Node) else argument
    if isinstance(value, (torch.SymBool, torch.SymInt)):
        return value.node.expr
    message = str(node.args[1]) if len(node.args) > 1 else ""
    found = _ASSERTED.search(message)
    return found["condition"] if found else message or str(argument)
