"""The page's words with sizes by the user's names, whatever stage made them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import TypeVar

from trtdiag.symbolic.text import in_words

View = TypeVar("View")


def named_view(view: View, names: Mapping[str, str]) -> View:
    """The same view with each graph symbol of ``names`` in its texts as its name.

    Args:
        view: A frozen dataclass of strings, tuples and other such dataclasses; the data of the drawing stay as they
            are, for they are made with names.
        names: What symbols are called.
    """
    if isinstance(view, str):
        return in_words(view, names)  # type: ignore[return-value]  # a str for a str
    if isinstance(view, tuple):
        return tuple(named_view(part, names) for part in view)  # type: ignore[return-value]  # a tuple for a tuple
    if not is_dataclass(view) or isinstance(view, type):
        return view
    parts = {f.name: getattr(view, f.name) for f in fields(view) if f.init and f.name != "payload"}
    changed = {name: new for name, part in parts.items() if (new := named_view(part, names)) != part}
    return replace(view, **changed) if changed else view
