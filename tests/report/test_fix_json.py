"""The answer of fix-dims as JSON: schema, order, hostile names."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import jsonschema
import pytest
from sample_analysis import HOSTILE_NAMES
from sample_fixes import MADE, change, fix, line, multiple

from tests.harness.rows import thinned
from trtdiag.dims.plan import DimDef, Leaf, LeafKind, Plan
from trtdiag.fixdims.fix import Change, Fix, Reason, UnreadCondition
from trtdiag.report.fix_json import FIX_SCHEMA, FIX_SCHEMA_PATH, json_fix
from trtdiag.symbolic.ranges import Range

NOT_IN_JSON = {"dynamic_shapes", "args", "kwargs", "make_program"}  # objects: the code and the plan say the same


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    schema = json.loads(FIX_SCHEMA_PATH.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("name", MADE)
def test_every_answer_fits_its_schema(name: str, validator: jsonschema.Draft202012Validator) -> None:
    validator.validate(json.loads(json_fix(MADE[name]())))


def test_schema_refuses_a_wrong_answer(validator: jsonschema.Draft202012Validator) -> None:
    good = json.loads(json_fix(multiple()))
    for wrong in (
        {**good, "outcome": "mended"},
        {**good, "more": 1},
        {key: value for key, value in good.items() if key != "changes"},
        {**good, "changes": [{**good["changes"][0], "kind": "other"}]},
        {**good, "plan": {**good["plan"], "leaves": [{"site": "x"}]}},
    ):
        with pytest.raises(jsonschema.ValidationError):
            validator.validate(wrong)


def test_everything_is_in_it() -> None:
    answer = json.loads(json_fix(multiple()))
    assert {field.name for field in fields(Fix)} - NOT_IN_JSON <= set(answer)
    (first,) = answer["changes"]
    assert {field.name for field in fields(Change)} == set(first)
    assert first["kept"] == {"kept": 254, "of": 2026}
    assert first["why"][0] == {
        "text": "(h - 1) // 4 % 2 == 1",
        "by": "aten.view.default",
        "counterexample": "h = 137",
        "source": {
            "file": "models/raft.py",
            "line": 88,
            "function": "forward",
            "code": "x = x.view(batch, rows // 2, 2, columns // 2, 2)",
        },
    }
    assert first["model_change"]["kept"] == {"kept": 2026, "of": 2026}
    assert answer["plan"]["leaves"][0]["scale"] == 8
    assert answer["plan"]["dims"] == [{"name": "_h", "range": {"min": 17, "max": 270}}]


def test_an_unread_condition_is_never_proven() -> None:
    unread = replace(fix(), unread=(UnreadCondition("a", "b"),))
    assert json.loads(json_fix(fix()))["proven"] is True
    assert json.loads(json_fix(unread))["proven"] is False


def test_keys_come_in_one_order_and_runs_agree() -> None:
    answers = [json.loads(json_fix(made())) for made in MADE.values()]
    assert len({tuple(answer) for answer in answers}) == 1
    assert next(iter(answers[0].items())) == ("schema", FIX_SCHEMA)
    assert json_fix(multiple()) == json_fix(multiple())


def test_ends_beyond_a_double_stay_exact(validator: jsonschema.Draft202012Validator) -> None:
    top = 2**63 - 2
    plan = Plan((DimDef("h", Range(2, top)),), {"x.shape[0]": Leaf(LeafKind.DYNAMIC, range=Range(2, top))})
    answer = json.loads(json_fix(fix(plan=plan)))
    validator.validate(answer)
    assert answer["plan"]["leaves"][0]["range"] == {"min": 2, "max": top}


# Quick: the ends and each third; all are quick in test_report_html.py.
@thinned("name", HOSTILE_NAMES, ids=range(len(HOSTILE_NAMES)), every=3)
def test_hostile_names_survive(name: str, validator: jsonschema.Draft202012Validator) -> None:
    made = change(name, name=name, why=(Reason(name, line(name or "f", 1, name), name),))
    text = json_fix(fix(label=name, changes=(made,), notes=(name,), code=name))
    text.encode("utf-8")
    answer = json.loads(text)
    validator.validate(answer)
    assert answer["changes"][0]["sites"] == [name.replace("\ud800", "\\ud800")]
