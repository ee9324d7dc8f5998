"""All ops that are written with pairs of real tensors, from the files that say how."""

from __future__ import annotations

from trtdiag.lower.complex import arithmetic, functions, products, transforms, views
from trtdiag.lower.complex.pair import registered, rule_of

__all__ = ["FILES", "ops_on_pairs", "rule_of"]

FILES = (views, arithmetic, functions, products, transforms)
"""Importing them enters their rules."""


def ops_on_pairs() -> dict[str, str]:
    """What each op becomes on complex numbers, in a sentence, by its name without namespace and overload."""
    return {name.partition("::")[2]: (rule.__doc__ or "").split("\n\n")[0] for name, rule in registered().items()}
