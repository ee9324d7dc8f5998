"""Facts written in the form of a schema."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum

import pytest
import torch

from trtdiag.report.schema_writer import written
from trtdiag.symbolic import Sym, add


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Fact:
    name: str
    colour: Colour
    size: object = None
    ends: tuple[int, ...] | None = None
    inner: tuple[Fact, ...] = ()
    hidden: str = "is in no schema"


SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "size": {"type": ["string", "number", "null"]},
        "ends": {"anyOf": [{"$ref": "#/$defs/ends"}, {"type": "null"}]},
        "inner": {"type": "array", "items": {"$ref": "#"}},
        "colour": {"enum": ["red"]},
    },
    "required": ["name"],
    "$defs": {"ends": {"type": "object", "properties": {"min": {"type": "integer"}, "max": {"type": "integer"}}}},
}


def test_keys_are_attributes_in_the_order_of_the_schema() -> None:
    fact = Fact("a", Colour.RED, 1.5, (2, 7), (Fact("b", Colour.RED),))
    inner: dict[str, object] = {"name": "b", "size": None, "ends": None, "inner": [], "colour": "red"}
    assert json.dumps(written(fact, SCHEMA, {})) == json.dumps(
        {"name": "a", "size": 1.5, "ends": {"min": 2, "max": 7}, "inner": [inner], "colour": "red"}
    )


def test_a_form_says_what_is_called_otherwise() -> None:
    found = written(Fact("a", Colour.RED), SCHEMA, {Fact: lambda fact: {"name": fact.hidden}})
    assert (found["name"], found["colour"]) == ("is in no schema", "red")


@pytest.mark.parametrize(
    ("size", "told"),
    [
        (float("inf"), None),
        (float("nan"), None),
        (torch.float16, "float16"),
        (add(Sym("h"), 1), "h + 1"),
        (True, True),
    ],
)
def test_values_become_what_json_has(size: object, told: object) -> None:
    assert written(Fact("a", Colour.RED, size), SCHEMA, {})["size"] == told


def test_what_a_fact_lacks_is_an_error_of_ours() -> None:
    with pytest.raises(AttributeError):
        written(object(), SCHEMA, {})
    with pytest.raises(KeyError):
        written({"size": 1}, SCHEMA, {})
    with pytest.raises(ValueError, match="shorter"):
        written(Fact("a", Colour.RED, ends=(1,)), SCHEMA, {})
    assert written({"name": "a"}, SCHEMA, {}) == {"name": "a"}  # a key that is not required may be left out
