"""JSON from outside: what is refused says where it stands and what was expected."""

from __future__ import annotations

import json
import re
from itertools import groupby
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings, strategies as st
from report_text import json_report
from sample_analysis import analysis

from tests.random_cases import cases
from trtdiag.analysis.finding import Applicability, Severity
from trtdiag.dims.facts import Verdict
from trtdiag.dtypes.facts import Fit, Role
from trtdiag.frontend.program import SourceKind
from trtdiag.lower.facts import Defect
from trtdiag.partition.facts import Cause
from trtdiag.report.saved import report_schema
from trtdiag.report.schema_check import fitted
from trtdiag.report.strict_json import MOST_DIGITS, MOST_LEVELS, JsonFault, parse_json
from trtdiag.symbolic.proof import ProofKind


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ('{"a": [1, {"b": NaN}]}', "a[1].b", "is NaN, which JSON does not have"),
        ('{"a": -Infinity}', "a", "is -Infinity"),
        ('{"a": 1e300}', "a", "is 1e300, a number of more than 300 digits"),
        ('{"a": -1e999}', "a", "is -1e999"),
        (f'{{"a": [{"7" * 301}]}}', "a[0]", "is a number of 301 digits, at most 300"),
        (f'{{"a": -{"7" * 5000}}}', "a", "is a number of 5,000 digits"),
        ('{"a": {"b": 1, "c": 2, "b": 3}}', "a", 'has the key "b" twice'),
        ('{"a": 1, "a": 1}', "", 'has the key "a" twice'),
        ('["\\ud800"]', "[0]", "has half a character"),
        ('{"odd key": ["x", "\\udfff."]}', '["odd key"][1]', "has half a character"),
        ('{"a": {"\\ud800": 1}}', "a", "half a character"),
        ("[" * 101 + "]" * 101, "[0]" * 100, "nested deeper than 100 levels"),
        ('{"a":' * 400 + "1" + "}" * 400, "a" + ".a" * 99, "nested deeper than 100 levels"),
        ("[" * 100_000, "", "nested deeper than 100 levels"),
        ('{"a": }', "", "Expecting value: line 1 column 7"),
        ("", "", "is no JSON: Expecting value"),
        ("1 2", "", "is no JSON: Extra data"),
    ],
)
def test_what_is_no_json_says_where(text: str, place: str, said: str) -> None:
    with pytest.raises(JsonFault) as caught:
        parse_json(text.encode())
    assert caught.value.place == place
    assert said in caught.value.said


@pytest.mark.parametrize("content", [b'"\xff"', b"\xff\xfe[\x001\x00]\x00", b'["\xed\xa0\x80"]'])
def test_what_is_not_utf_8_is_told(content: bytes) -> None:
    with pytest.raises(JsonFault, match=r"byte \d is not of UTF-8"):
        parse_json(content)


def test_what_json_has_is_read_as_it_is() -> None:
    text = '{"a": [1, -0.5, 1e-400, true, null, "\\ud83d\\ude00 \\u202e"], "": {}}'
    assert parse_json(b"\xef\xbb\xbf" + text.encode()) == json.loads(text)
    assert parse_json(f"[{'9' * MOST_DIGITS}]".encode()) == [10**MOST_DIGITS - 1]
    assert parse_json(("[" * MOST_LEVELS + "]" * MOST_LEVELS).encode())


SCHEMA = {
    "type": "object",
    "properties": {
        "word": {"enum": ["a", "b"]},
        "list": {"type": "array", "items": {"anyOf": [{"$ref": "#/$defs/range"}, {"type": "null"}]}, "minItems": 1},
        "late": {"type": "array", "default": [], "items": {"type": "integer"}},
    },
    "required": ["word", "list", "late"],
    "additionalProperties": False,
    "$defs": {
        "range": {
            "type": "object",
            "properties": {"min": {"type": "integer", "minimum": 0}, "max": {"type": ["integer", "null"]}},
            "required": ["min", "max"],
        }
    },
}


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"word": "c", "list": [None]}, 'word is "c", expected one of "a", "b"'),
        ({"word": None, "list": [None]}, 'word is null, expected one of "a", "b"'),
        ({"word": "a", "list": {}}, "list is an object of 0 keys, expected a list"),
        ({"word": "a", "list": []}, "list is a list of 0, expected something in it"),
        ({"word": "a", "list": [None, 3]}, "list[1] is 3, expected an object or null"),
        ({"word": "a", "list": [{"min": 1}]}, 'list[0] has no key "max"'),
        ({"word": "a", "list": [{"min": True, "max": 1}]}, "list[0].min is true, expected an integer"),
        ({"word": "a", "list": [{"min": -1, "max": 1}]}, "list[0].min is -1, expected at least 0"),
        ({"word": "a", "list": [{"min": 1, "max": {}}]}, "list[0].max is an object of 0 keys, expected an integer or"),
        ({"word": "a"}, 'it has no key "list"'),
        ([], "it is a list of 0, expected an object"),
        ({"word": "a", "list": [None], "late": [1.0]}, "late[0] is 1.0, expected an integer"),
    ],
)
def test_a_misfit_says_where_and_what_was_expected(value: Any, told: str) -> None:
    with pytest.raises(JsonFault) as caught:
        fitted(value, SCHEMA)
    assert str(caught.value).startswith(told)


def test_keys_of_later_and_earlier_versions() -> None:
    given_value = {"word": "a", "list": [None], "newer": {"x": [1]}}
    assert fitted(given_value, SCHEMA) == {**given_value, "late": []}
    assert "late" not in given_value


def test_a_word_that_nothing_reads_is_an_error_of_ours() -> None:
    with pytest.raises(ValueError, match="maxLength"):
        fitted("a", {"type": "string", "maxLength": 3})


REPORT = json.loads(json_report(analysis()))
PLACES: list[tuple[Any, ...]] = []


def _walk(value: Any, place: tuple[Any, ...]) -> None:
    PLACES.append(place)
    if isinstance(value, (dict, list)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            _walk(item, (*place, key))


_walk(REPORT, ())
ODD = st.sampled_from([None, True, 0, -1, 1.5, "", "error", "x", [], {}, [None], {"min": 1, "max": None}])


def changed(place: tuple[Any, ...], value: Any) -> Any:
    """The report with another value at one place."""
    whole = json.loads(json.dumps(REPORT))
    if not place:
        return value
    at = whole
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = value
    return whole


def let_through(fault: jsonschema.ValidationError) -> bool:
    """Whether a reader takes what a validator refuses: a key of a later version, or none of a later version's."""
    if fault.validator == "required":
        missing = re.match(r"'(\w+)' is a required property", fault.message)
        return missing is not None and "default" in fault.schema["properties"][missing[1]]
    if fault.validator == "anyOf":
        kinds = groupby(fault.context, lambda each: each.schema_path[0])
        return any(all(map(let_through, faults)) for _, faults in kinds)
    return fault.validator == "additionalProperties"


@settings(max_examples=cases(60), deadline=None)
@given(st.sampled_from(PLACES), ODD)
@pytest.mark.slow  # quick: a misfit says where
def test_it_agrees_with_a_validator_of_json_schema(place: tuple[Any, ...], value: Any) -> None:
    body, schema = changed(place, value), report_schema()
    faults = [each for each in jsonschema.Draft202012Validator(schema).iter_errors(body) if not let_through(each)]
    try:
        fitted(body, schema)
    except JsonFault:
        assert faults
    else:
        assert not faults


PARTITION = ("properties", "partition", "anyOf", 0, "properties")


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        (Severity, ("$defs", "finding", "properties", "severity")),
        (Applicability, ("$defs", "finding", "properties", "fix", "anyOf", 0, "properties", "applicability")),
        (ProofKind, ("$defs", "proof", "properties", "kind")),
        (Verdict, ("$defs", "guard", "properties", "verdict")),
        (Role, ("$defs", "role")),
        (SourceKind, ("properties", "program", "properties", "kind")),
        (Fit, ("properties", "dtypes", "anyOf", 0, "properties", "int64", "items", "properties", "fit")),
        (Defect, ("properties", "metadata", "anyOf", 0, "properties", "defects", "items", "properties", "defect")),
        (Cause, (*PARTITION, "left_to_pytorch", "items", "properties", "cause")),
    ],
)
def test_the_schema_has_every_word_that_is_written(kind: Any, place: Any) -> None:
    at: Any = report_schema()
    for key in place:
        at = at[key]
    assert set(at["enum"]) == {each.value for each in kind}
