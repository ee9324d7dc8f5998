"""The interval rules by the short names of ops; each family enters its own."""

from __future__ import annotations

from collections.abc import Callable

from trtdiag.dtypes.call import Rule
from trtdiag.dtypes.value_span import Real, Span

RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Enter a function as the rule of the ops of these names."""

    def enter(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return enter


def always(low: Real, high: Real, why: str) -> Rule:
    """The rule of ops whose values are in ``low..high`` whatever they are given; ``{op}`` in ``why`` is the op."""
    return lambda call: Span(low, high, why.format(op=call.op))


def some_of(name: str) -> Rule:
    """The rule of ops that give values of this argument, and maybe not all."""
    return lambda call: call.span(name).part()
