"""Compiled programs of small models agree with the models, however they are kept, saved or traced again."""

from __future__ import annotations

import copy
import io
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.fx import Node

from tests.harness.rows import thinned
from tests.runtime import models_to_assemble as models
from tests.runtime.agreeing import assert_agrees
from tests.runtime.compiling import NARROW, compiled
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.runtime.custom_op import EXECUTE_ENGINE

BATCH = Dim("batch", min=4, max=8)


def _is_size(node: Node) -> bool:
    return isinstance(node.meta.get("val"), torch.SymInt)


def _x(batch: int = 6) -> Tensor:
    torch.manual_seed(batch)
    return torch.randn(batch, 5)


@dataclass(eq=False)
class Case:
    model: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    dynamic: Any = None
    more: tuple[tuple[Any, ...], ...] = ()
    engines: int = 1
    options: dict[str, Any] = field(default_factory=dict)


def _wide(batch: int) -> tuple[Tensor, Tensor]:
    return _x(batch), torch.randn(2, 3)


CASES = {
    "linear": Case(nn.Linear(5, 7), (_x(),), dynamic=({0: BATCH},), more=((_x(4),), (_x(7),), (_x(8),))),
    "two_segments": Case(
        models.TwoSegments(), (_x(),), dynamic=({0: BATCH},), more=((_x(4),), (_x(8),)), engines=2,
        options={"keep": ["aten.sin"]},
    ),
    "three_segments": Case(
        models.TwoSegments(), (_x(),), dynamic=({0: BATCH},), more=((_x(4),), (_x(8),)), engines=3,
        options={"keep": ["aten.relu", "aten.reshape"]},
    ),
    "nested": Case(models.Nested(), ({"x": _x(), "more": (_x(),)},), {"mask": _x(), "scale": None}),
    "changes_its_input": Case(models.ChangesItsInput(), (_x(),), dynamic=({0: BATCH},), more=((_x(4),),)),
    "passing": Case(models.Passing(), (_x(),), dynamic=({0: BATCH},), more=((_x(4),),), options={"keep": ["aten.add"]}),
    "shared": Case(
        models.Shared(), (_x(),), dynamic=({0: BATCH},), more=((_x(8),),), engines=2, options={"keep": ["aten.mul"]}
    ),
    "int32_engine": Case(
        models.Integers(), (torch.arange(7), torch.linspace(0, 1, 3).double()),
        options={"plan": NARROW, "target": "8.6"},
    ),
    "float32_engine": Case(
        models.Integers(), (torch.arange(7), torch.linspace(0, 1, 3).double()),
        options={"plan": {torch.float64: torch.float32}},
    ),
    "sizes_recomputed": Case(
        models.SizeElsewhere(), _wide(6), dynamic=({0: BATCH}, None), more=(_wide(4), _wide(8)), engines=2,
        options={"keep": ["aten.expand"]},
    ),
    "sizes_entering": Case(
        models.SizeElsewhere(), _wide(6), dynamic=({0: BATCH}, None), more=(_wide(4), _wide(8)),
        options={"limit_sizes": _is_size},
    ),
    "sizes_entering_8_6": Case(
        models.SizeElsewhere(), _wide(6), dynamic=({0: BATCH}, None), more=(_wide(4), _wide(8)),
        options={"limit_sizes": _is_size, "target": "8.6", "plan": NARROW},
    ),
    "negative_size_entering": Case(
        models.SizeAlone(), (_x(5), torch.randn(3)), dynamic=({0: BATCH}, None),
        more=((_x(4), torch.ones(3)), (_x(6), torch.ones(3)), (_x(8), torch.ones(3))),
        options={"keep": ["aten.sin", "aten.sum"], "limit_sizes": _is_size},
    ),
    "order_in_memory": Case(
        models.ReshapedInTurn(), (_x(4),), dynamic=({0: Dim("batch", min=1, max=8)},), more=((_x(1),), (_x(8),)),
        engines=2,
    ),
    "derived_dims": Case(
        models.TwoDims(), (_x(6), torch.randn(30)), dynamic=({0: BATCH}, {0: 5 * BATCH}),
        more=((_x(4), torch.randn(20)), (_x(8), torch.randn(40))),
    ),
}  # fmt: skip


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


# All agree with their model as they are; tracing and files take what one and several engines have.
SOME_CASES = thinned("case", CASES.values(), every=99, ids=CASES)


@cache
def _shared(case: Case) -> CompiledProgram:
    """For tests that leave it as it is, or alone change what it holds."""
    return _compiled(case)


def _compiled(case: Case) -> CompiledProgram:
    return compiled(copy.deepcopy(case.model), *copy.deepcopy((case.args, case.kwargs)), case.dynamic, **case.options)


def _saved_and_loaded(program: CompiledProgram) -> CompiledProgram:
    file = io.BytesIO()
    torch.export.save(program.exported_program, file)
    file.seek(0)
    return CompiledProgram(torch.export.load(file))


def test_agrees_with_the_model(case: Case) -> None:
    program = _shared(case)
    assert len(program.manifests) == case.engines
    for args in (case.args, *case.more):
        assert_agrees(program, case.model, *args, **case.kwargs)


@SOME_CASES
def test_a_file_of_torch_agrees_twice(case: Case) -> None:
    program = _saved_and_loaded(_saved_and_loaded(_compiled(case)))
    assert len(program.manifests) == case.engines
    for args in (case.args, *case.more):
        assert_agrees(program, case.model, *args, **case.kwargs)


def test_every_node_has_a_value_and_a_source_line(case: Case) -> None:
    exported = _shared(case).exported_program
    for node in exported.graph.nodes:
        if node.op == "call_function":
            assert "val" in node.meta
            if node.name.endswith("_returned"):
                continue  # lowering's copy of an input that is an output: no line of the model made it
            assert node.meta.get("stack_trace"), node
            assert node.meta.get("nn_module_stack"), node


@pytest.mark.slow  # quick: test_a_file_of_torch_agrees_twice
@SOME_CASES
def test_exports_again_under_other_names(case: Case) -> None:
    module = _compiled(case).module()

    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = module

        def forward(self, *other: Any, **named: Any) -> Any:
            return self.inner(*other, **named)

    dynamic = case.dynamic
    if dynamic is not None:
        (batch, *_) = dynamic[0].values()
        again = Dim("another", min=batch.min, max=batch.max)
        swapped = tuple(
            None if dims is None else {index: again if dim is batch else 5 * again for index, dim in dims.items()}
            for dims in dynamic
        )
        dynamic = {"other": swapped}
    args, kwargs = copy.deepcopy((case.args, case.kwargs))
    program = CompiledProgram(torch.export.export(Wrapped(), args, kwargs, dynamic_shapes=dynamic))
    assert len(program.manifests) == case.engines
    for args in (case.args, *case.more):
        assert_agrees(program, case.model, *args, **case.kwargs)


@SOME_CASES
@pytest.mark.parametrize("dynamic", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.slow  # quick: a trace gets new sizes, test_engine_counts.py
def test_torch_compile_agrees(case: Case, *, dynamic: bool) -> None:
    torch._dynamo.reset()
    fast = torch.compile(_compiled(case).module(), backend="aot_eager", dynamic=dynamic, fullgraph=True)
    for args in (case.args, *case.more):
        assert_agrees(fast, case.model, *args, **case.kwargs)


def test_buffers_change_as_in_the_model() -> None:
    model = models.Counts()
    program = compiled(copy.deepcopy(model), (_x(),), None, ({0: BATCH},))
    other = CompiledProgram(copy.deepcopy(program.exported_program))
    for batch in (6, 4, 8):
        assert_agrees(program, model, _x(batch))
    fresh = models.Counts()
    fresh.linear = model.linear
    assert_agrees(other, fresh, _x(4))


def test_the_source_program_stays_as_it_is() -> None:
    model = models.Counts()
    exported = torch.export.export(model, (_x(),), dynamic_shapes=({0: BATCH},))
    text, state = str(exported), {name: value.clone() for name, value in exported.state_dict.items()}
    from tests.runtime.compiling import compiled_program
    from trtdiag.frontend.capture import capture

    program = compiled_program(capture(exported))
    program(_x(5))
    assert str(exported) == text
    for name, value in exported.state_dict.items():
        assert torch.equal(value, state[name])


@pytest.mark.slow  # quick: test_the_source_program_stays_as_it_is
def test_weights_that_only_engines_hold_are_dropped() -> None:
    exported = compiled(nn.Linear(5, 7), (_x(),), None, ({0: BATCH},)).exported_program
    assert set(exported.state_dict) == {"trtdiag_engine_0"}
    shared = compiled(models.Shared(), (_x(),), None, keep=["aten.mul"]).exported_program
    assert {name for name in shared.state_dict if not name.startswith("trtdiag")} == {"second.weight"}


def test_casts_stand_at_the_edge_alone() -> None:
    case = CASES["int32_engine"]
    graph = _compiled(case).exported_program.graph
    casts = graph.find_nodes(op="call_function", target=torch.ops.aten._to_copy.default)
    (call,) = graph.find_nodes(op="call_function", target=EXECUTE_ENGINE)
    assert len(casts) == 4  # an input, three outputs: the input of int64 is read where it is
    assert [item.meta["val"].dtype for item in call.args[0]] == [torch.int32, torch.float32]
    pairs = call.args[0][0]
    assert (pairs.target, pairs.meta["val"].shape[-1]) == (torch.ops.aten.view.dtype, 2)


def test_ranges_guards_and_examples_are_the_original_s() -> None:
    exported = torch.export.export(models.TwoSegments(), (_x(),), dynamic_shapes=({0: BATCH},))
    from tests.runtime.compiling import compiled_program
    from trtdiag.frontend.capture import capture

    made = compiled_program(capture(exported)).exported_program
    assert made.range_constraints == exported.range_constraints
    assert made.call_spec == exported.call_spec
    assert torch.equal(made.example_inputs[0][0], exported.example_inputs[0][0])
    assert getattr(made, "_guards_code", None) == getattr(exported, "_guards_code", None)
