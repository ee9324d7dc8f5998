"""Which function says what an op asks of its sizes."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

import torch

from trtdiag.graph.operators import OpOverload, schema_name
from trtdiag.shapes.op_call import Callee, OpCall, UnreadableError, bare_name
from trtdiag.shapes.shape_constraints import Demand, Demands

Rule = Callable[[OpCall], Demands]
_R = TypeVar("_R", bound=Rule)

_RULES: dict[str, Rule] = {}
POINTWISE = "pointwise"
"""Stands for all ops that torch tags so and that have no function of their own."""


def asks(*names: str) -> Callable[[_R], _R]:
    """Register a function for ops of ATen, named without overload and in-place mark, and operators on graphs."""

    def register(function: _R) -> _R:
        for name in names:
            _RULES[name] = function
        return function

    return register


@lru_cache(maxsize=4096)
def rule_for(op: Callee) -> Rule | None:
    """The function for an op, ``None`` where nothing is known of it."""
    if not isinstance(op, OpOverload):
        return _RULES.get(bare_name(op))
    if not schema_name(op).startswith("aten::"):
        return None
    name = bare_name(op)
    rule = _RULES.get(name) or _RULES.get(name.rstrip("_"))
    return rule or (_RULES[POINTWISE] if torch.Tag.pointwise in op.tags else None)


def demands_of(call: OpCall) -> tuple[Demand, ...]:
    """What a call asks of its sizes; nothing where the op is unknown or an argument cannot be read."""
    rule = rule_for(call.op)
    if rule is None:
        return ()
    try:
        return tuple(rule(call))
    except UnreadableError:
        return ()
