"""Attributes of layers as JSON, by the types of their fields: a file can say only what a field may hold."""

from __future__ import annotations

import types
from dataclasses import fields
from enum import Enum
from typing import Any, Union, get_args, get_origin, get_type_hints

from trtdiag.network.layer import Layer


class AttributeTextError(ValueError):
    """A JSON value is none that the field can hold."""


def attributes_to_json(layer: Layer) -> dict[str, Any]:
    """Field name to JSON value; floats as hexadecimal text, so that each keeps all its bits."""
    hints = _hints(type(layer))
    return {name: _encoded(getattr(layer, name), _leaves(hint)) for name, hint in hints.items()}


def _encoded(value: Any, leaves: frozenset[Any]) -> Any:
    if isinstance(value, Enum):
        return value.name
    # An integer in the place of a real number is one: 1 and 1.0 are the same attribute.
    if isinstance(value, float) or (type(value) is int and int not in leaves):
        return {"float": float(value).hex()}
    return [_encoded(item, leaves) for item in value] if isinstance(value, tuple) else value


def _leaves(hint: Any) -> frozenset[Any]:
    """The plain types that ``hint`` is made of."""
    members = get_args(hint)
    return frozenset().union(*map(_leaves, members)) if members else frozenset({hint})


def attributes_from_json(kind: type[Layer], given: object) -> Layer:
    """The layer of these attributes.

    Raises:
        AttributeTextError: A field is missing, unknown, or has a value of another type.
        LayerError: The attributes are impossible.
    """
    hints = _hints(kind)
    if not isinstance(given, dict) or set(given) != set(hints):
        raise AttributeTextError(f"{kind.__name__} has the attributes {sorted(hints)}")
    return kind(**{name: _decoded(hints[name], given[name]) for name in hints})


def _hints(kind: type[Layer]) -> dict[str, Any]:
    if kind not in _HINTS:
        every = get_type_hints(kind)
        _HINTS[kind] = {field.name: every[field.name] for field in fields(kind)}
    return _HINTS[kind]


_HINTS: dict[type[Layer], dict[str, Any]] = {}


def _decoded(hint: Any, value: Any) -> Any:
    """``value`` as what ``hint`` says; of a union the first member that fits."""
    if get_origin(hint) in (Union, types.UnionType):
        for member in get_args(hint):
            try:
                return _decoded(member, value)
            except AttributeTextError:
                continue
    elif get_origin(hint) is tuple:
        member, more = get_args(hint)
        assert more is Ellipsis
        if isinstance(value, list):
            return tuple(_decoded(member, item) for item in value)
    elif isinstance(hint, type) and issubclass(hint, Enum):
        if isinstance(value, str) and value in hint.__members__:
            return hint[value]
    elif hint is float:
        if isinstance(value, dict) and set(value) == {"float"} and isinstance(value["float"], str):
            try:
                return float.fromhex(value["float"])
            except (ValueError, OverflowError) as error:
                raise AttributeTextError(f"{value['float']!r} is no number") from error
    elif type(value) is hint:
        return value
    raise AttributeTextError(f"{value!r} is no {hint}")
