"""What tracing takes away under Dim.AUTO and Dim.DYNAMIC, each end and each condition."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, export

from tests.harness.rows import thinned
from trtdiag.analysis.finding import Severity
from trtdiag.dims.declare import sizes_refused_by_rounding
from trtdiag.dims.system import dim_system
from trtdiag.frontend.capture import capture
from trtdiag.frontend.program import InputDim, InputTensor
from trtdiag.pipeline.analyze import analyze
from trtdiag.symbolic.build import mul
from trtdiag.symbolic.expr import Sym
from trtdiag.symbolic.ranges import Range


class Branches(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.shape[0] > 1024:
            x = x * 2
        y = x * 3 if x.shape[0] < 512 else x
        return y if x.shape[0] >= 5 else y + 1


def _found(module: nn.Module, dims: Any, *, size: int = 37) -> list[tuple[str, int, bool]]:
    system = dim_system(capture((module, (torch.randn(size, 3),), {}, {"x": dims})))
    return [(found.end, found.bound, found.binding) for found in system.narrowed]


@pytest.mark.parametrize(
    ("dims", "size", "expected"),
    [
        ({0: Dim.AUTO}, 37, [("max", 1024, False), ("max", 511, True), ("min", 5, True)]),
        ({0: Dim.DYNAMIC}, 5, [("max", 1024, False), ("max", 511, True), ("min", 5, True)]),
        ({0: Dim.AUTO}, 511, [("max", 1024, False), ("max", 511, True), ("min", 5, True)]),
        ({0: Dim.AUTO}, 512, [("max", 1024, True), ("min", 512, True)]),
        ({0: Dim.AUTO}, 1025, [("min", 1025, True)]),
        ({0: Dim.AUTO(min=5, max=511)}, 37, []),
        ({0: Dim("a", min=5, max=511)}, 37, []),
        ({0: Dim.STATIC}, 37, []),
        (None, 37, []),
    ],
    ids=["auto", "dynamic at 5", "at its end", "middle", "beyond", "hint that fits", "named", "static", "nothing"],
)
def test_each_end_with_the_conditions_that_bring_it_nearer(
    dims: Any, size: int, expected: list[tuple[str, int, bool]]
) -> None:
    assert sorted(_found(Branches(), dims, size=size)) == sorted(expected)


def test_each_branch_is_a_finding_with_its_line() -> None:
    report = analyze((Branches(), (torch.randn(37, 3),), {}, {"x": {0: Dim.AUTO}}))
    found = [finding for finding in report.findings if finding.rule == "GRD309"]
    lines = [place.frame.code for finding in found for place in finding.places if place.frame is not None]
    assert sorted(line.split(" else ")[0] for line in lines) == [
        "if x.shape[0] > 1024:",
        "return y if x.shape[0] >= 5",
        "y = x * 3 if x.shape[0] < 512",
    ]


@pytest.mark.parametrize("dims", [{0: Dim.AUTO}, {0: Dim("a", min=5, max=511)}], ids=["auto", "named"])
def test_a_live_program_tells_left_to_torch_from_declared(dims: Any) -> None:
    system = dim_system(capture(export(Branches(), (torch.randn(37, 3),), dynamic_shapes={"x": dims})))
    narrowed = {(found.end, found.now) for found in system.narrowed if found.binding}
    auto = {("max", Range(5, 511)), ("min", Range(5, 511))}
    assert narrowed == (auto if dims[0] is Dim.AUTO else set())


class Halves(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x.relu().sum() + y.view(2, -1).amax()


class Table(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.randn(200, 3))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.rows[: x.shape[0]]


class Groups(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.unflatten(0, (-1, 4)).sum(1) * torch.ones(1, 3)


class Relu(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.relu()


# Quick: the ends and each other.
@thinned(
    ("module", "severity", "said", "left"),
    [
        (Table(), Severity.WARNING, "x.shape[0] (4*_rows) takes at most 200", "min=1, max=50)"),
        (Branches(), Severity.WARNING, "x.shape[0] (4*_rows) takes at most 508", "min=2, max=127)"),
        (Groups(), Severity.INFO, "x.shape[0] (4*_rows) takes at least 8", "min=2, max=300)"),
        (Relu(), None, "", ""),  # torch's range of _rows begins at 2 there, and the program takes 4
    ],
    ids=["table", "branch", "smallest", "all"],
    every=2,
)
def test_the_range_of_a_derived_dim_is_cut_without_a_word(
    module: nn.Module, severity: Severity | None, said: str, left: str
) -> None:
    shapes = {"x": {0: 4 * Dim("_rows", min=1, max=300)}}
    export(module, (torch.randn(36, 3),), dynamic_shapes=shapes)  # no error, whatever it leaves out
    findings = analyze((module, (torch.randn(36, 3),), {}, shapes)).findings
    found = [each for each in findings if each.rule == "GRD309" and each.message.startswith(said)]
    assert {each.severity for each in found} == ({severity} if severity else set())
    for each in found:
        assert each.fix is not None
        assert each.fix.code.startswith(f'_rows = Dim("_rows", {left}')


@pytest.mark.skipif(torch.__version__ < "2.14", reason="torch.export takes a ShapesSpec from 2.14 on")
def test_sizes_that_a_shapes_spec_declares_are_sizes_of_inputs_and_not_of_data() -> None:
    """torch names them u0 and so on, and states range and assumptions as assertions in the program."""
    spec = importlib.import_module("torch.fx.experimental.dynamic_spec")
    batch = spec.ShapeVar("batch", min=2, max=128)
    sizes = spec.ParamsSpec({"x": spec.TensorSpec([batch, 3]), "y": spec.TensorSpec([2 * batch, 3])})
    shapes = spec.ShapesSpec(sizes, assumptions=[batch % 4 == 0])
    exported = export(Halves(), (torch.randn(8, 3), torch.randn(16, 3)), dynamic_shapes=shapes)
    (finding,) = analyze(exported).findings
    assert (finding.rule, finding.severity) == ("GRD301", Severity.ERROR)
    assert finding.message.startswith("guard x.shape[0] % 4 == 0 breaks the declared range of x.shape[0]: ")
    assert finding.fix is not None
    assert "\nx_dim0 = 4 * _x_dim0\ny_dim0 = 8 * _x_dim0\n" in finding.fix.code


class Squeezes(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.amax(1, keepdim=True).squeeze() * 2


@pytest.mark.parametrize(("least", "rules"), [(1, ["GRD301"]), (2, [])])
def test_a_squeeze_of_a_dim_that_may_be_1_is_a_condition_that_torch_does_not_write(
    least: int, rules: list[str]
) -> None:
    shapes = {"x": {0: Dim("rows", min=least, max=300)}}
    findings = analyze((Squeezes(), (torch.randn(36, 3),), {}, shapes)).findings
    assert [each.rule for each in findings if each.rule.startswith("GRD")] == rules
    for each in findings[: len(rules)]:
        assert each.message == "guard rows != 1 breaks the declared range of rows: rows = 2 works, rows = 1 fails"
        assert each.fix is not None
        assert 'Dim("rows", min=2, max=300)' in each.fix.code


@pytest.mark.parametrize(
    ("scales", "refused"),
    [
        ((5, 7), {"x.shape[0]": 45, "y.shape[0]": 63}),
        ((5, 10), None),  # a whole number of times
        ((1, 7), None),  # the Dim itself is an input
        ((5, 5), None),
    ],
)
def test_sizes_that_torch_refuses_for_rounding_its_fractions(
    scales: tuple[int, int], refused: dict[str, int] | None
) -> None:
    dims = [InputDim(name, 0, mul(scale, Sym("n"))) for name, scale in zip("xy", scales, strict=True)]
    inputs = [InputTensor(dim.input, dim.input, torch.float32, (dim,)) for dim in dims]
    assert list(sizes_refused_by_rounding(inputs, {"n": Range(1, 64)})) == ([] if refused is None else [refused])
    assert list(sizes_refused_by_rounding(inputs, {"n": Range(1, 8)})) == []
