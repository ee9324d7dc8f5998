"""The interval rules by the short names of ops; each family enters its own."""

from __future__ import annotations

from collections.abc import Callable

from trtdiag.dtypes.call import Rule

RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Enter a function as the rule of the ops of these names."""

    def enter(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return enter
