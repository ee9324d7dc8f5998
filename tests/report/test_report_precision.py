"""Half precision in the report: what stays in float32 and why, and names that match nothing."""

from __future__ import annotations

import json
import re
from html import unescape

import jsonschema
import pytest
from torch.export import export

import trtdiag
from tests.lower.test_precision_models import conv_net
from trtdiag.errors import UserError
from trtdiag.report.json_report import SCHEMA_PATH
from trtdiag.report.report import Report


def analyzed(**options: object) -> Report:
    module, args, kwargs, dims = conv_net()
    return trtdiag.analyze(export(module, args, kwargs, dynamic_shapes=dims), target="11.4", **options)


def types_part(report: Report) -> str:
    found = re.search(r'<section id="types".*?</section>', report.to_html(), re.DOTALL)
    assert found is not None
    return " ".join(re.sub(r"<[^>]*>", " ", unescape(found[0])).split())


def test_what_stays_is_told_with_the_reason() -> None:
    report = analyzed(precision="fp16", keep_fp32=["head", "no.such"])
    facts = report.analysis.partition.plan.lowered.precision
    assert facts is not None
    text = types_part(report)
    assert f"Computed in fp16 {facts.lowered_ops} ops compute in fp16, {len(facts.stays)} stay in float32" in text
    assert "aten.linear.default 1 keep_fp32 names head head" in text
    assert "test_precision_models.py:" in text
    assert "names nothing in this program with: no.such" in text
    assert "keep_fp32 no.such: it names no op and no module of this program" in report.analysis.not_checked

    body = json.loads(report.to_json())
    jsonschema.Draft202012Validator(json.loads(SCHEMA_PATH.read_text())).validate(body)
    told = body["partition"]["precision"]
    assert (told["asked"], told["unmatched"]) == ("fp16", ["no.such"])
    assert {each["reason"] for each in told["stays_float32"]} == {each.why for each in facts.stays}


@pytest.mark.slow  # quick: test_what_stays_is_told_with_the_reason
def test_a_program_that_keeps_its_types_says_nothing_of_it() -> None:
    report = analyzed(keep_fp32="no.such")
    assert "Computed in" not in types_part(report)
    assert json.loads(report.to_json())["partition"]["precision"] is None


def test_a_precision_that_there_is_not_is_refused() -> None:
    with pytest.raises(UserError, match="there is no precision 'fp8'"):
        analyzed(precision="fp8")
