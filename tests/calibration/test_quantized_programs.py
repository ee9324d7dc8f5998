"""Calibrating programs: scales, the quantized program, and what it loses."""

from __future__ import annotations

import copy
import io
import math
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.export import Dim, export

from tests.calibration.programs import calls, exported_net, folded_of, images, net
from trtdiag.calibration import accuracy
from trtdiag.calibration.accuracy import Measured, Squares, Weights, _Quantized
from trtdiag.calibration.calibrate import calibrated
from trtdiag.calibration.facts import QuantizedInput, QuantizedOp, Quantizers
from trtdiag.calibration.insert import folded, quantized
from trtdiag.calibration.observe import module_of
from trtdiag.calibration.scales import held_by_half
from trtdiag.errors import UserError
from trtdiag.frontend.capture import capture
from trtdiag.frontend.program import Program


def nothing(_step: object) -> None:
    """No progress."""


def made(program: Program, batches: list[torch.Tensor], *keep: str):
    return calibrated(folded(program), calls(batches), keep, nothing)


@pytest.fixture(scope="module")
def original() -> Program:
    return capture(exported_net())


@pytest.fixture(scope="module")
def found(original: Program):
    return made(original, images())


@pytest.mark.slow  # quick: test_errors_are_measured_on_what_the_program_computes
def test_norms_are_folded_exactly() -> None:
    module = net().double()
    source = folded_of(module, torch.randn(2, 3, 17, 13, dtype=torch.float64))
    assert not source.draft.graph.find_nodes(op="call_function", target=torch.ops.aten.batch_norm.default)
    x = torch.randn(2, 3, 17, 13, dtype=torch.float64)
    torch.testing.assert_close(source.exported().module()(x), module(x), rtol=1e-12, atol=1e-12)
    # What only norms have read is gone, too.
    assert not [name for name in source.exported().state_dict if "running" in name]


class Normed(nn.Module):
    """Norms that must not be folded: behind what others read, over another dim, and in training."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)
        self.linear, self.flat = nn.Linear(5, 5), nn.BatchNorm1d(7)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = self.conv(x)
        return (self.norm(z) + z).sum() + self.flat(self.linear(y)).sum()


def test_norms_that_stay() -> None:
    source = folded_of(Normed(), torch.randn(2, 3, 4, 5), torch.randn(2, 7, 5))
    kept = source.draft.graph.find_nodes(op="call_function", target=torch.ops.aten.batch_norm.default)
    assert len(kept) == 2


@pytest.mark.slow  # quick: what is quantized and what is left, here and in test_placement.py
def test_the_quantized_program_takes_what_the_original_takes(original: Program, found) -> None:
    program, quantizers, _ = found
    before, after = original.exported, program.exported
    assert before is not None
    assert after is not None
    assert (program.ranges, program.inputs, program.guards) == (original.ranges, original.inputs, original.guards)
    assert after.range_constraints == before.range_constraints
    assert after._guards_code == before._guards_code
    assert {name: origin.module_path for name, origin in program.origins.items()}["conv2d"] == "stem"
    after.validate()
    for x in images():
        torch.testing.assert_close(after.module()(x), before.module()(x), rtol=0.05, atol=0.05)  # it is quantized
    with pytest.raises((AssertionError, RuntimeError)):
        after.module()(torch.randn(1, 3, 34, 13))
    # Its weights are numbers of 8 bits, and none of floats is left beside them.
    weights = [each.dtype for each in (*after.state_dict.values(), *after.constants.values()) if each.dim() > 1]
    assert weights == [torch.int8] * len([op for op in quantizers.ops if op.weight is not None])
    file = io.BytesIO()
    torch.export.save(after, file)
    file.seek(0)
    again = torch.export.load(file)
    assert torch.equal(again.module()(images()[1]), after.module()(images()[1]))


def test_errors_are_measured_on_what_the_program_computes(original: Program, found) -> None:
    """The run that errors are measured with rounds as the ops in the program do."""
    program, quantizers, _ = found
    module = module_of(folded(original).exported())
    run = _Quantized(module, {op.node: op for op in quantizers.ops}, Weights())
    for x in images():
        (ours,) = run.outputs([x])
        torch.testing.assert_close(ours, program.exported.module()(x), rtol=1e-5, atol=1e-6)


@pytest.mark.slow  # quick: errors are measured on what the program computes
def test_scales_are_of_the_data(original: Program) -> None:
    _, quantizers, _ = made(original, images())
    _, greater, _ = made(original, [4 * batch for batch in images()])
    stem, other = quantizers.ops[0], greater.ops[0]
    assert stem.module == "stem"
    magnitude = max(float(batch.abs().max()) for batch in images())
    # The observer's scale keeps nearly all of the tensor; greater ones would be coarser than needed.
    assert 0.6 * magnitude / 127 < stem.inputs[0].scale < 1.1 * magnitude / 127
    assert other.inputs[0].scale == pytest.approx(4 * stem.inputs[0].scale, rel=2e-3)
    scales = [each.scale for op in quantizers.ops for each in op.inputs]
    assert torch.equal(held_by_half(torch.tensor(scales)), torch.tensor(scales))


class Shared(nn.Module):
    """One tensor with two readers, and one that is written into between its readers."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c, self.d = (nn.Linear(4, 4) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        first = self.c(y)
        y.mul_(100)
        return self.a(x) + self.b(x) + first + self.d(y)


@pytest.mark.slow  # quick: kept ops are left as they are
def test_readers_of_one_tensor_share_a_quantizer() -> None:
    source = folded_of(Shared(), torch.randn(3, 4))
    x = torch.randn(5, 4)
    program, quantizers, _ = calibrated(source, [((x,), {})], (), nothing)
    by_module = {op.module: op.inputs[0].scale for op in quantizers.ops}
    assert by_module["a"] == by_module["b"] == by_module["c"]
    assert by_module["d"] == pytest.approx(100 * by_module["c"], rel=2e-3)
    graph = program.exported.graph
    ops = torch.ops.quantized_decomposed
    assert len(graph.find_nodes(op="call_function", target=ops.quantize_per_tensor.default)) == 3
    assert len(graph.find_nodes(op="call_function", target=ops.dequantize_per_channel.default)) == 4


class Uneven(nn.Module):
    """Two layers, the second of which takes an element that is a thousand times the others, and does not use it."""

    def __init__(self) -> None:
        super().__init__()
        self.even, self.uneven = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.even(x)
        spike = torch.zeros(16)
        spike[3] = 1000.0
        return self.uneven(y + spike)


def test_the_op_that_loses_most_is_named_with_what_it_wins_back() -> None:
    torch.manual_seed(0)
    module = Uneven()
    with torch.no_grad():
        module.uneven.weight[:, 3] = 0
    source = folded_of(module, torch.randn(9, 16), dynamic_shapes=({0: Dim("n", max=20)},))
    batches = [((torch.randn(n, 16),), {}) for n in (1, 13, 20)]
    _, _, facts = calibrated(source, batches, (), nothing)
    first, second = facts.ops
    assert (first.module, second.module) == ("uneven", "even")
    assert first.error_without is not None
    assert second.error_without is not None
    assert first.error_without < 0.05 * facts.error
    assert second.error_without == pytest.approx(facts.error, rel=0.2)
    assert second.snr_db is not None
    assert second.snr_db == pytest.approx(-20 * math.log10(second.error))
    assert 30 < second.snr_db < 60
    assert (facts.batches, facts.measured) == (3, 3)


def test_errors_are_measured_on_batches_from_all_of_the_data() -> None:
    torch.manual_seed(0)
    source = folded_of(nn.Linear(2, 2), torch.randn(1, 2))
    op = QuantizedOp("linear", "aten.linear.default", "", (QuantizedInput(0, 1.0),), 1)
    # Only the last one is off: 0.5 is rounded, 1 and 0 are not.
    batches = [((torch.ones(1, 2),), {}) for _ in range(15)] + [((torch.full((1, 2), 0.4),), {})]
    measured = Measured(source.exported(), Quantizers((op,)), batches, nothing)
    assert measured.batches == 8
    assert measured.losses()[1][0].error < 0.02  # it takes the first batch of each pair
    several = Quantizers(tuple(replace(op, node=f"linear_{at}") for at in range(100)))
    assert Measured(source.exported(), several, batches, nothing).batches == 2
    assert Measured(source.exported(), several, batches[:1], nothing).batches == 1


def test_kept_ops_are_left_as_they_are(original: Program) -> None:
    program, quantizers, facts = made(original, images(), "head", "second", "nosuch")
    assert {op.module for op in quantizers.ops} == {"stem", "first.c1", "first.c2", "first"}
    assert (facts.kept, facts.unused) == (4, ("nosuch",))
    assert "head.weight" in program.exported.state_dict


class Counting(nn.Module):
    """Changes a buffer and its input in each call."""

    calls: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("calls", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        x.mul_(2)
        return self.linear(x + self.calls)


@pytest.mark.slow  # quick: the quantized program takes what the original takes
def test_buffers_are_as_they_were_before() -> None:
    exported = export(Counting().eval(), (torch.randn(2, 3),))
    before = copy.deepcopy(exported.state_dict)
    x = torch.ones(2, 3)
    program, _, _ = calibrated(folded(capture(exported)), [((x,), {})] * 3, (), nothing)
    assert bool((x == 1).all())
    assert program.exported is not None
    assert torch.equal(exported.state_dict["calls"], before["calls"])
    assert torch.equal(program.exported.state_dict["calls"], before["calls"])


def test_the_same_scales_make_the_same_program(original: Program, found) -> None:
    program, quantizers, _ = found
    again = quantized(folded(original), quantizers)
    x = images()[0]
    assert torch.equal(again.exported.module()(x), program.exported.module()(x))
    with pytest.raises(UserError, match="those of another program") as caught:
        quantized(folded_of(nn.Linear(3, 3), torch.randn(2, 3)), quantizers)
    assert "conv2d" in caught.value.because


def test_data_that_gives_no_scale() -> None:
    source = folded_of(nn.Linear(3, 3), torch.randn(2, 3), dynamic_shapes=({0: Dim("n", max=5)},))
    with pytest.raises(UserError, match="linear has no scale of") as caught:
        calibrated(source, calls([torch.randn(0, 3)] * 2), (), nothing)
    assert caught.value.reference == "calibration-failed"
    words = nn.Sequential(nn.Embedding(7, 3), nn.Linear(3, 3))
    batches = [torch.tensor([0, 6]), torch.tensor([3, 7])]
    with pytest.raises(UserError, match="does not run on batch 1 of") as caught:
        calibrated(folded_of(words, batches[0]), calls(batches), (), nothing)
    assert "index out of range" in caught.value.because


def test_nothing_to_quantize(original: Program) -> None:
    with pytest.raises(UserError, match="nothing to quantize"):
        calibrated(folded_of(nn.ReLU(), torch.randn(2, 3)), [((torch.randn(2, 3),), {})], (), nothing)
    with pytest.raises(UserError, match="nothing to quantize") as caught:
        made(original, images(1), "aten")
    assert "7 that have one are kept" in caught.value.because


def test_errors_in_root_mean_squares() -> None:
    sums = Squares()
    sums.add(torch.tensor([3.0, 4.0]), torch.tensor([3.0, 4.5]))
    assert sums.error == pytest.approx(0.1)
    sums.add(torch.tensor([torch.inf, 12.0, -torch.inf, torch.nan]), torch.tensor([torch.inf, 12.0, 0.0, 1.0]))
    assert sums.error == pytest.approx(0.5 / 13)
    assert Squares().error == 0
    none = Squares()
    none.add(torch.zeros(2), torch.ones(2))
    assert none.error == math.inf


def test_weights_are_rounded_once_as_far_as_they_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    weights, weight = Weights(), torch.randn(4, 4)
    first, second = (QuantizedOp(name, "aten.linear.default", "", (), 1) for name in "ab")
    monkeypatch.setattr(accuracy, "_KEPT_BYTES", weight.nbytes)
    assert weights.rounded(first, weight) is weights.rounded(first, weight)
    assert weights.rounded(second, weight) is not weights.rounded(second, weight)
    assert torch.equal(weights.rounded(second, weight), weights.rounded(first, weight))
