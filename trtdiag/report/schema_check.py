"""Whether a JSON value fits a JSON Schema, with the place and what was expected where it does not.

Source: JSON Schema 2020-12, of which this reads the words that the schemas here use; a schema with another word is an
error of ours.  Two things are those of a reader rather than of a validator: keys that a schema does not have are let
through, for a later version may add keys, and a missing key whose schema has a ``default`` gets that, for an earlier
version did not write it.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache, reduce
from pathlib import Path
from typing import Any

from trtdiag.report.strict_json import JsonFault, shown, step

Schema = Mapping[str, Any]

_KINDS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "object": ("an object", lambda value: isinstance(value, dict)),
    "array": ("a list", lambda value: isinstance(value, list)),
    "string": ("a string", lambda value: isinstance(value, str)),
    "integer": ("an integer", lambda value: type(value) is int),
    "number": ("a number", lambda value: type(value) in (int, float)),
    "boolean": ("true or false", lambda value: isinstance(value, bool)),
    "null": ("null", lambda value: value is None),
}
_REMARKS = frozenset({"$schema", "$id", "$defs", "title", "description", "default"})
_KNOWN = _REMARKS | {"$ref", "const", "enum", "anyOf", "type", "properties", "required", "additionalProperties"}
_WORDS = _KNOWN | {"items", "minItems", "minLength", "minimum"}


@lru_cache(maxsize=4)
def read_schema(path: Path) -> Schema:
    """The schema in a file."""
    return json.loads(path.read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def fitted(value: Any, schema: Schema, root: Schema | None = None) -> Any:
    """The value with what an earlier version did not write; the value itself is left as it is.

    Args:
        value: As ``parse_json`` gives it.
        schema: Of the value.
        root: Of the whole document, for ``$ref``; the same where not given.

    Raises:
        JsonFault: It does not fit.
    """
    return _fitted(value, schema, schema if root is None else root, "")


def _fitted(value: Any, schema: Schema, root: Schema, place: str) -> Any:
    if not schema.keys() <= _WORDS:
        raise ValueError(f"a schema here has the words {sorted(schema.keys() - _WORDS)}, which nothing reads")
    if "$ref" in schema:
        value = _fitted(value, named(schema["$ref"], root), root, place)
    if "anyOf" in schema:
        value = _one_of(value, schema["anyOf"], root, place)
    if "const" in schema and not _same(value, schema["const"]):
        raise _misfit(value, shown(schema["const"]), place)
    if "enum" in schema and not any(_same(value, word) for word in schema["enum"]):
        raise _misfit(value, f"one of {', '.join(map(shown, schema['enum']))}", place)
    if "type" in schema:
        names = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
        if not any(_KINDS[name][1](value) for name in names):
            raise _misfit(value, " or ".join(_KINDS[name][0] for name in names), place)
    if "minimum" in schema and value < schema["minimum"]:
        raise _misfit(value, f"at least {schema['minimum']}", place)
    if isinstance(value, (str, list)) and len(value) < max(schema.get("minItems", 0), schema.get("minLength", 0)):
        raise _misfit(value, "something in it", place)
    if isinstance(value, list) and "items" in schema:
        return [_fitted(item, schema["items"], root, f"{place}[{at}]") for at, item in enumerate(value)]
    return _fitted_object(value, schema, root, place) if isinstance(value, dict) else value


def _fitted_object(value: dict[str, Any], schema: Schema, root: Schema, place: str) -> dict[str, Any]:
    known = schema.get("properties", {})
    missing = {name: known[name]["default"] for name in known if name not in value and "default" in known[name]}
    for name in schema.get("required", ()):
        if name not in value and name not in missing:
            raise JsonFault(place, f"has no key {shown(name)}")
    others = schema.get("additionalProperties")
    whole = {}
    for name, item in (value | missing).items():
        kind = known.get(name, others if isinstance(others, Mapping) else None)
        whole[name] = item if kind is None else _fitted(item, kind, root, (place + step(name)).removeprefix("."))
    return whole


def _one_of(value: Any, kinds: list[Schema], root: Schema, place: str) -> Any:
    faults = []
    for kind in kinds:
        try:
            return _fitted(value, kind, root, place)
        except JsonFault as fault:
            faults.append(fault)
    # Of the kind that it was meant to be, the fault lies deeper than that it is not of that kind.
    deepest = max(faults, key=lambda fault: (len(fault.place), "expected" not in fault.said))
    if deepest.place != place or "expected" not in deepest.said:
        raise deepest
    raise _misfit(value, " or ".join(dict.fromkeys(each.said.partition("expected ")[2] for each in faults)), place)


def _same(value: Any, word: Any) -> bool:
    return type(value) is type(word) and bool(value == word)


def _misfit(value: Any, expected: str, place: str) -> JsonFault:
    return JsonFault(place, f"is {shown(value)}, expected {expected}")


def named(reference: str, root: Schema) -> Schema:
    """What a ``$ref`` stands for: ``#/$defs/frame``, or ``#``, the whole."""
    return reduce(operator.getitem, reference.removeprefix("#").split("/")[1:], root)
