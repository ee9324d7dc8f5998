"""Every converter says which op it writes by that op's own schema."""

from __future__ import annotations

import pytest
import torch

from tests.convert.op_samples import overload
from tests.harness.rows import each
from trtdiag.convert.registry import Converter, converters, register
from trtdiag.errors import UserError


@pytest.mark.skipif(torch.__version__ < "2.12", reason="some ops of torch 2.11 have fewer arguments")
@each("op", sorted(op for op in converters() if overload(op) is not None))
def test_the_docstring_begins_with_the_schema(op: str) -> None:
    found = overload(op)
    assert found is not None
    assert converters()[op].schema == str(found._schema)


def test_an_op_has_one_converter() -> None:
    some = next(iter(converters().values()))
    with pytest.raises(UserError, match="has two converters, one of trtdiag"):
        register(some.schema, lambda call: some.run(call))


def test_what_is_no_schema_is_refused() -> None:
    with pytest.raises(UserError, match="begins with no schema"):
        register("relu of a tensor", lambda call: call.tensor("self"))


def test_converters_are_named_by_op_and_family() -> None:
    relu = converters()["aten.relu.default"]
    assert isinstance(relu, Converter)
    assert (relu.op, relu.family) == ("aten.relu.default", "activation")
