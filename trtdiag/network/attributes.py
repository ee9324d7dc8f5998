"""Attributes of layers as JSON, by the types of their fields, and what else networks in files are made of."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from trtdiag.files.typed_json import JsonTypeError, TypedJson, required
from trtdiag.graph.source import Frame
from trtdiag.network.layer import Layer
from trtdiag.network.network import Origin
from trtdiag.symbolic import Range


def _hexadecimal(number: float) -> dict[str, str]:
    """So that each keeps all its bits; an integer in the place of a real number is one: 1 and 1.0 are the same."""
    return {"float": float(number).hex()}


def _number(value: Any) -> float:
    if not isinstance(value, dict) or set(value) != {"float"}:
        raise JsonTypeError(f"{value!r} is no number")
    text = required(str, value["float"])
    try:
        return float.fromhex(text)
    except (ValueError, OverflowError) as error:
        raise JsonTypeError(f"{text!r} is no number") from error


FORMS = TypedJson(
    {float: (_hexadecimal, _number)},
    rows={
        Range: ("min", "max"),
        Origin: ("op", "node", "frame"),
        Frame: ("file", "line", "function", "code"),
    },
)


def attributes_to_json(layer: Layer) -> dict[str, Any]:
    """Field name to JSON value."""
    found: dict[str, Any] = FORMS.written(type(layer), layer)
    return found


def attributes_from_json(kind: type[Layer], given: object) -> Layer:
    """The layer of these attributes.

    Raises:
        JsonTypeError: A field is missing, unknown, or has a value of another type.
        LayerError: The attributes are impossible.
    """
    names = {each.name for each in fields(kind)}
    if not isinstance(given, dict) or given.keys() != names:
        raise JsonTypeError(f"{kind.__name__} has the attributes {sorted(names)}")
    layer: Layer = FORMS.read(kind, given)
    return layer
