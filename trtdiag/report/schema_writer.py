"""Facts as JSON in the form of a schema, which alone says which keys there are, and in which order.

A key is the attribute of that name, or the item of a mapping; the items of a plain tuple are the keys in their order.
What a fact calls otherwise, or what is worked out of it, its ``Form`` gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, TypeAlias, get_args

import torch

from trtdiag.report.schema_check import Schema, named
from trtdiag.symbolic import Condition, Expr, to_text
from trtdiag.wording import dtype_text

Form: TypeAlias = Callable[[Any], Mapping[str, Any]]
_Writer: TypeAlias = Callable[[Any], Any]
_AS_THEY_ARE = frozenset({str, int, bool})
_EXPRESSIONS = (*get_args(Expr), *get_args(Condition))


def written(fact: object, root: Schema, forms: Mapping[type, Form], schema: Schema | None = None) -> Any:
    """A fact as plain lists and dicts.

    Args:
        fact: What to write.
        root: The schema of the whole document.
        forms: By type of fact, the keys that are not its attributes.
        schema: Of this fact; the whole where not given.
    """
    return _writer(root if schema is None else schema, root, forms)(fact)


def _writer(schema: Schema, root: Schema, forms: Mapping[type, Form]) -> _Writer:
    if "$ref" in schema:
        return _referred(schema["$ref"], root, forms)
    if "anyOf" in schema:  # something, or null
        return _writer(schema["anyOf"][0], root, forms)
    if "properties" in schema:
        return _object_writer(schema, root, forms)
    if "items" in schema:
        item = _writer(schema["items"], root, forms)
        return lambda facts: None if facts is None else [item(each) for each in facts]
    if isinstance(schema.get("additionalProperties"), Mapping):
        return lambda facts: None if facts is None else dict(facts)
    return _plain


def _referred(reference: str, root: Schema, forms: Mapping[type, Form]) -> _Writer:
    """A writer that is made when it is needed: a schema may name itself."""
    made: list[_Writer] = []

    def write(fact: Any) -> Any:
        if not made:
            made.append(_writer(named(reference, root), root, forms))
        return made[0](fact)

    return write


def _object_writer(schema: Schema, root: Schema, forms: Mapping[type, Form]) -> _Writer:
    writers = {key: _writer(kind, root, forms) for key, kind in schema["properties"].items()}
    required = schema.get("required", ())

    def write(fact: Any) -> Any:
        if fact is None:
            return None
        kind = type(fact)
        if kind is tuple:
            return {key: value(each) for (key, value), each in zip(writers.items(), fact, strict=True)}
        if kind is dict:
            return {key: value(fact[key]) for key, value in writers.items() if key in fact or key in required}
        form = forms.get(kind)
        told = {} if form is None else form(fact)
        return {key: value(told[key] if key in told else getattr(fact, key)) for key, value in writers.items()}

    return write


def _plain(value: Any) -> Any:
    """A value as JSON has it; ``null`` for infinity and NaN, which it does not have."""
    if value is None or type(value) in _AS_THEY_ARE:
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, torch.dtype):
        return dtype_text(value)
    return to_text(value) if isinstance(value, _EXPRESSIONS) else value
