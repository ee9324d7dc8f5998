"""Whole comparisons: a right program, wrong ones, refusals, and the op at which a difference begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import pytest
import torch
from torch.export import Dim

from trtdiag.convert.facts import ConvertedSegment
from trtdiag.dims.system import dim_system
from trtdiag.errors import ShapeOutOfRangeError, UserError
from trtdiag.frontend.capture import capture
from trtdiag.frontend.program import Program
from trtdiag.lower.metadata import check_metadata
from trtdiag.network import Network, Placed, run
from trtdiag.network.layers.activation import Activation, ActivationType
from trtdiag.options import CompileOptions
from trtdiag.partition.facts import EnginePlan
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.pipeline.plan_engines import convert_segments, plan_engines
from trtdiag.symbolic import parse_expr
from trtdiag.targets.versions import get_target
from trtdiag.verification import sides
from trtdiag.verification.bisect import first_difference
from trtdiag.verification.facts import Culprit, Point, Tolerance, Verification
from trtdiag.verification.limits import VerifyLimits
from trtdiag.verification.points import elements_of
from trtdiag.verification.run import Comparison


class Mlp(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(5, 7)
        self.second = torch.nn.Linear(7, 3)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = torch.relu(self.first(x))
        return {"hidden": y, "result": self.second(y) * 2}


@cache
def _converted() -> tuple[Program, EnginePlan, ConvertedSegment]:
    torch.manual_seed(0)
    program = capture((Mlp().eval(), (torch.randn(4, 5),), {}, {"x": {0: Dim("b", min=1, max=31)}}))
    options, target = CompileOptions(), get_target("11.4")
    plan = plan_engines(program, check_metadata(program), dim_system(program), target, options)
    plan, (converted,) = convert_segments(plan)
    return program, plan, converted


def _verify(program: Program, network: Network, names: Sequence[str], **options: object) -> Verification:
    def compiled(x: torch.Tensor) -> dict[str, torch.Tensor]:
        return dict(zip(names, run(network, [x]), strict=True))

    return Comparison(program, compiled, dim_system(program).given(), **options).run()  # type: ignore[arg-type]


def _with_tanh(network: Network) -> Network:
    """The network with another activation than the op's."""

    def changed(placed: Placed) -> Placed:
        wrong = isinstance(placed.layer, Activation)
        return replace(placed, layer=Activation(ActivationType.TANH)) if wrong else placed

    return replace(network, layers=tuple(changed(placed) for placed in network.layers))


def _names(converted: ConvertedSegment) -> list[str]:
    return ["hidden" if crossing.node == "relu" else "result" for crossing in converted.outputs]


def test_a_right_program_passes_at_every_point() -> None:
    program, _, converted = _converted()
    found = _verify(program, converted.network, _names(converted))
    assert found.passed
    (symbol,) = {name for result in found.results for name in result.point.sizes}
    assert {result.point.sizes[symbol] for result in found.results} >= {1, 4, 31}
    assert [output.output for output in found.results[0].outputs] == ["['hidden']", "['result']"]
    assert found.worst is not None
    assert found.worst.passed


def test_each_set_of_sizes_is_told_before_it_is_compared() -> None:
    program, _, converted = _converted()
    told: list[tuple[str, float]] = []

    def progress(step: str) -> None:
        told.append((step, getattr(step, "share", -1.0)))

    found = _verify(program, converted.network, _names(converted), progress=progress)
    count = len(found.results)
    assert [share for _, share in told] == [done / count for done in range(count)]
    (symbol,) = {name for result in found.results for name in result.point.sizes}
    name = program.names[symbol]
    assert told[0][0] == f"comparing at example (1 of {count}): {name}=4"
    first, *rest = (result.point.sizes[symbol] for result in found.results)
    sizes = [f"({n} of {count}): {name}={size}" for n, size in enumerate([first, *sorted(rest)], 1)]
    assert [words[words.index("(") :] for words, _ in told] == sizes


def test_a_wrong_layer_is_found_by_its_op_and_line() -> None:
    program, plan, converted = _converted()
    wrong = replace(converted, network=_with_tanh(converted.network))

    def locate(point: Point, flat: Sequence[object], tolerance: Tolerance) -> Culprit | None:
        def engine(_index: int, inputs: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
            return run(wrong.network, inputs)

        return first_difference(plan.lowered, [wrong], engine, point, flat, tolerance)

    found = _verify(program, wrong.network, _names(converted), locate=locate)
    assert not found.passed
    assert found.culprit is not None
    assert found.culprit.origin is not None
    assert found.culprit.origin.op == "aten.relu.default"
    assert found.culprit.origin.frame is not None
    assert "torch.relu" in found.culprit.origin.frame.code
    assert found.culprit.layer == "Activation"
    assert found.culprit.max_abs > 0.1
    # The op before it is right, and of what was compared nothing is off by more than what is wrong.
    measured = found.culprit.measured
    assert measured["relu"] == found.culprit.max_abs
    assert measured["linear"] < 1e-5  # float32 sums of a few terms
    assert measured["mul"] > 0.1  # an output of the engine


def test_a_difference_is_looked_into_only_where_every_tensor_can_be_held() -> None:
    program, _, converted = _converted()
    wrong = _with_tanh(converted.network)
    (symbol,) = program.ranges
    asked: list[int] = []

    def locate(point: Point, flat: Sequence[object], tolerance: Tolerance) -> Culprit:
        asked.append(point.sizes[symbol])
        return Culprit(0, None, "Activation", 1.0, point)

    def found(held: int) -> Verification:
        elements = elements_of([parse_expr(f"100*{symbol}")])
        return _verify(
            program, wrong, _names(converted), locate=locate, elements=elements, limits=VerifyLimits(held=held)
        )

    # The example has 4 rows, the points after it 1 and others.
    assert found(400).culprit is not None
    assert asked == [4]
    assert found(399).notes == ()
    assert asked == [4, 1]
    none = found(99)
    assert none.culprit is None
    assert asked == [4, 1]
    assert "the difference at example begins was not looked for" in none.notes[0]
    assert "more than 99 elements" in none.notes[0]
    assert not none.passed


def test_small_points_run_after_the_example_and_stand_in_their_order() -> None:
    """What a point takes is told by those before it: by small ones alone, a large one would seem to take too long."""
    program, _, converted = _converted()
    (symbol,) = program.ranges
    ran: list[int] = []

    def seen(x: torch.Tensor) -> object:
        ran.append(x.shape[0])
        return dict(zip(_names(converted), run(converted.network, [x]), strict=True))

    elements = elements_of([parse_expr(f"100*{symbol}")])
    ordered = Comparison(program, seen, (), elements=elements).run().results
    assert ran[0] == 4
    assert ran[1:] == sorted(ran[1:])
    assert len(set(ran)) > 3
    assert [result.point for result in Comparison(program, seen, ()).run().results] == [
        result.point for result in ordered
    ]
    assert ran[len(ordered) :] == ran[: len(ordered)]  # without elements the sizes themselves say which are small
    assert [result.point.label for result in ordered][:3] == ["example", "min", "max"]
    assert all(result.passed for result in ordered)


def test_an_engine_that_differs_from_its_own_network_is_said() -> None:
    _, plan, converted = _converted()
    x = torch.randn(4, 5)

    def engine(_index: int, inputs: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        return [output + 1 for output in run(converted.network, inputs)]

    culprit = first_difference(
        plan.lowered, [converted], engine, Point("example", {}), [x], Tolerance(1e-4, 1e-5, "test")
    )
    assert culprit is not None
    assert culprit.origin is None
    assert "the engine is not" in culprit.layer


def test_nothing_is_found_where_nothing_differs() -> None:
    _, plan, converted = _converted()

    def engine(_index: int, inputs: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        return run(converted.network, inputs)

    point, tolerance = Point("example", {}), Tolerance(1e-4, 1e-5, "test")
    assert first_difference(plan.lowered, [converted], engine, point, [torch.randn(1, 5)], tolerance) is None


def test_a_failure_of_the_compiled_program_is_a_result() -> None:
    program, _, _ = _converted()

    def refuses(_x: torch.Tensor) -> object:
        raise ShapeOutOfRangeError("too many rows", because="there are 31", fix="fewer", reference="rows")

    found = Comparison(program, refuses, []).run()
    assert not found.passed
    assert {result.failed for result in found.results} == {"too many rows: there are 31"}


def test_a_missing_output_is_a_difference() -> None:
    program, _, converted = _converted()

    def compiled(x: torch.Tensor) -> torch.Tensor:
        return run(converted.network, [x])[0]

    found = Comparison(program, compiled, []).run()
    assert not found.passed
    assert found.results[0].outputs[0].why == "it returns 1 values, not 2"


def test_points_beyond_the_limits_are_skipped_with_the_reason() -> None:
    program, _, converted = _converted()
    (symbol,) = program.ranges
    found = _verify(
        program,
        converted.network,
        _names(converted),
        limits=VerifyLimits(elements=100),
        elements=elements_of([parse_expr(f"10*{symbol}")]),
    )
    skipped = {result.point.sizes[symbol]: result.skipped for result in found.results if result.skipped}
    assert set(skipped) == {size for size in _sizes(found, symbol) if 10 * size > 100}
    assert "310" in skipped[31]
    assert found.passed  # what ran agrees; what did not is told


def test_where_few_points_are_within_the_limits_nearer_ones_are_compared() -> None:
    """One large range, as the batch of a large model: only the example and the point beside it could run."""
    program, _, converted = _converted()
    (symbol,) = program.ranges
    elements = elements_of([parse_expr(f"10*{symbol}")])

    def compared(most: int) -> dict[str, int]:
        limits = VerifyLimits(elements=most)
        found = _verify(program, converted.network, _names(converted), limits=limits, elements=elements)
        assert found.passed
        return {result.point.label: result.point.sizes[symbol] for result in found.results if not result.skipped}

    assert compared(100) == {"example": 4, "min": 1, "in between": 7}
    # The way from 31 to the example is halved until it fits: 17, 10, 7, 5.
    assert compared(69) == {"example": 4, "min": 1, "towards max": 5}
    # The example itself is too large: then the way back leads to the least.
    assert compared(30) == {"min": 1, "towards example": 2, "towards in between": 3}
    assert compared(40) == {"example": 4, "min": 1}  # nothing lies between
    everything = compared(310)
    assert len(everything) > 3
    assert not any(label.startswith("towards") for label in everything)


@pytest.mark.parametrize(("each", "first"), [("1000000000", "example"), ("6000000000", "min")])
def test_a_deep_program_of_small_tensors_is_compared_wherever_its_time_allows(each: str, first: str) -> None:
    """More elements than usual in all, of which few are there at once: the cheapest point tells how long they take."""
    program, _, converted = _converted()
    (symbol,) = program.ranges
    deep = elements_of([parse_expr(f"{each}*{symbol}")])

    def compared(live: int) -> Verification:
        told.clear()
        return _verify(
            *(program, converted.network, _names(converted)), elements=deep, live=lambda _: live, progress=told.append
        )

    told: list[str] = []
    found = compared(7)
    assert found.passed
    assert not any(result.skipped for result in found.results)
    assert told[0].startswith(f"comparing at {first} ")
    found = compared(2**32 + 1)  # bytes: more than ``held`` has
    assert {result.point.label: not result.skipped for result in found.results}["max"] is False
    found = compared(2**32)
    assert not any(result.skipped for result in found.results)


def test_weights_are_no_cost_of_a_set_of_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model of more parameters than the limit has elements was never compared, and so not saved."""
    monkeypatch.setattr("trtdiag.verification.limits.USUAL_ELEMENTS", 160)  # 31 samples have 155
    model = torch.nn.Linear(1000, 5).eval()
    dims = ({0: Dim("b", min=1, max=31)},)
    made = compile_in_stages((model, (torch.randn(4, 1000),), {}, dims), CompileOptions(backend="reference"))
    assert made.verified.passed
    assert not any(result.skipped for result in made.verified.results)


def _sizes(found: Verification, symbol: str) -> set[int]:
    return {result.point.sizes[symbol] for result in found.results}


def test_all_skipped_is_no_pass() -> None:
    program, _, converted = _converted()
    (symbol,) = program.ranges
    found = _verify(
        program,
        converted.network,
        _names(converted),
        limits=VerifyLimits(elements=0),
        elements=elements_of([parse_expr(symbol)]),
    )
    assert not found.passed


def test_a_program_that_did_not_export_cannot_be_compared() -> None:
    program, _, _ = _converted()
    with pytest.raises(UserError, match="nothing to compare with"):
        Comparison(replace(program, exported=None), lambda x: x, []).run()


def test_inputs_that_the_program_changes_are_its_own() -> None:
    class Adds(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x.add_(1)
            return x * 2

    program = capture((Adds(), (torch.randn(3),), {}, None))

    def compiled(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * 2

    assert Comparison(program, compiled, []).run().passed


def test_every_point_begins_with_the_same_state() -> None:
    class Counts(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen.add_(x.shape[0])  # type: ignore[operator]
            return x * self.seen

    program = capture((Counts(), (torch.randn(3),), {}, {"x": {0: Dim("n", min=1, max=9)}}))
    # As after the first call, at every point: what the original counted at one does not reach the next.
    found = Comparison(program, lambda x: x * float(x.shape[0]), []).run()
    assert found.passed
    assert len(found.results) > 3
    assert program.exported is not None
    assert float(program.exported.state_dict["seen"]) == 0  # the caller's program is as it was


def test_a_lost_gpu_ends_the_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where an index is outside on a GPU: nothing runs there any more, and that is no fault of later points."""
    program, _, converted = _converted()
    monkeypatch.setattr(sides, "finished", lambda result: result)
    monkeypatch.setattr(sides, "gpu_lost", lambda: "CUDA error: device-side assert triggered")
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    calls = []

    def fails(x: torch.Tensor) -> dict[str, torch.Tensor]:
        calls.append(x.shape)
        if len(calls) == 2:
            raise RuntimeError("CUDA error")
        return dict(zip(("hidden", "result"), run(converted.network, [x]), strict=True))

    found = Comparison(program, fails, dim_system(program).given()).run()
    first, second, *others = found.results
    assert first.passed
    assert second.failed == "RuntimeError: CUDA error"
    assert len(others) >= 2
    assert all("ended all work of this process on the GPU: CUDA error: device-side" in r.skipped for r in others)
    assert len(calls) == 2
