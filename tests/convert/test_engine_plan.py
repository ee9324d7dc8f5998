"""Planning and converting whole programs."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from tests.harness.rows import thinned
from trtdiag.convert import registry
from trtdiag.convert.call import Call
from trtdiag.convert.refusal import refuse
from trtdiag.dims.system import dim_system
from trtdiag.errors import UnsupportedOpError
from trtdiag.frontend.capture import capture
from trtdiag.frontend.program import Program
from trtdiag.lower.metadata import check_metadata
from trtdiag.network import run
from trtdiag.network.value import Value
from trtdiag.options import CompileOptions, PartitionOptions
from trtdiag.partition.facts import EnginePlan
from trtdiag.pipeline.plan_engines import convert_segments, plan_engines
from trtdiag.targets.versions import get_target


class Mlp(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(5, 7)
        self.second = torch.nn.Linear(7, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.first(x))
        return self.second(y.view(x.shape[0], -1, 7)) * 2 + 1


def _planned(target: str = "11.4", **partition: object) -> tuple[Program, EnginePlan]:
    torch.manual_seed(0)
    dims = {"x": {0: Dim("b", min=1, max=9), 1: Dim("t", min=2, max=33)}}
    program = capture((Mlp().eval(), (torch.randn(4, 6, 5),), {}, dims))
    options = CompileOptions(partition=PartitionOptions(**partition))  # type: ignore[arg-type]
    checked = check_metadata(program)
    return program, plan_engines(program, checked, dim_system(program), get_target(target), options)


# What lies between is as these.
# Quick: the largest.
@thinned("target", ["8.6", "10.16", "11.4"], every=2)
@pytest.mark.parametrize(
    "sizes", [pytest.param((1, 2), marks=pytest.mark.slow), (9, 33), pytest.param((7, 31), marks=pytest.mark.slow)]
)
def test_one_network_for_all_sizes(target: str, sizes: tuple[int, int]) -> None:
    program, plan = _planned(target)
    assert not plan.support.limits
    plan, (converted,) = convert_segments(plan)
    x = torch.randn(*sizes, 5)
    assert program.exported is not None
    (y,) = run(converted.network, [x])
    # Two products of at most 7 terms in another order.
    torch.testing.assert_close(y, program.exported.module()(x), rtol=1e-6, atol=1e-6)


def test_layers_name_their_op_and_line() -> None:
    _, plan = _planned()
    _, (converted,) = convert_segments(plan)
    lines = {
        placed.origin.frame.code
        for placed in converted.network.layers
        if placed.origin.frame is not None and placed.origin.op == "aten.relu.default"
    }
    assert lines == {"y = torch.relu(self.first(x))"}


@pytest.mark.slow  # quick: test_an_op_refused_at_its_place_goes_back_to_pytorch
def test_an_op_kept_in_torch_makes_two_segments_of_one() -> None:
    _, plan = _planned(keep_in_torch=("aten.relu",), min_segment_ops=1)
    _, converted = convert_segments(plan)
    assert len(converted) == 2
    assert [c.node for c in converted[1].inputs] == ["relu"]


@pytest.mark.slow  # quick: test_an_op_refused_at_its_place_goes_back_to_pytorch
def test_full_names_what_is_in_the_way() -> None:
    with pytest.raises(UnsupportedOpError, match=r"keep_in_torch names aten\.relu"):
        _planned(keep_in_torch=("aten.relu",), require_full=True)


def test_an_op_refused_at_its_place_goes_back_to_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    _, plan = _planned(min_segment_ops=1)
    found = dict(registry.converters())
    relu = found["aten.relu.default"]

    def only_alone(call: Call) -> Value:
        if not any(port.name.endswith(" 0") for port in call.write.builder.inputs):
            raise refuse("not-here", "a size is not at hand")
        made = relu.run(call)
        assert isinstance(made, Value)
        return made

    found["aten.relu.default"] = type(relu)(relu.op, relu.schema, relu.family, only_alone)
    monkeypatch.setattr(registry, "converters", lambda: found)
    after, converted = convert_segments(plan)
    assert len(plan.partitioned.segments) == 1
    assert len(converted) == 2
    assert [limit.code for limit in after.support.limits.values()] == ["not-here"]
