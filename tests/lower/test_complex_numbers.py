"""Complex numbers become pairs of real tensors: every op, at both ends of its sizes, and what stays complex."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export

from tests.frontend.archive_samples import saved, with_program
from tests.harness.rows import thinned
from tests.lower.agreement import assert_lowered_agrees, assert_same, lowered_of, targets, user_outputs
from tests.lower.complex_rows import ARITHMETIC, DYNAMIC, FUNCTIONS, MOVES, PRODUCTS, TRANSFORMS, Row, written
from tests.random_cases import some
from trtdiag.convert.registry import has_converter
from trtdiag.frontend.capture import capture
from trtdiag.lower.lowered import lower
from trtdiag.lower.lowered_facts import Lowered
from trtdiag.lower.metadata import check_metadata

N = Dim("n", min=1, max=13)


class Rows(nn.Module):
    def __init__(self, rows: Sequence[Row]) -> None:
        super().__init__()
        self.rows = rows

    def forward(self, a: Tensor, b: Tensor, c: Tensor, d: Tensor, x: Tensor) -> tuple[Tensor, ...]:
        z, w = torch.complex(a, b), torch.complex(c, d)
        return tuple(row(z, w, x) for row in self.rows)


def complex_ops(lowered: Lowered) -> list[str]:
    """The ops that take or give complex tensors, but for the views that outputs are returned through."""
    found = []
    for node in lowered.graph_module.graph.nodes:
        vals = [each.meta.get("val") for each in (node, *node.all_input_nodes)]
        if node.op == "call_function" and any(isinstance(val, Tensor) and val.is_complex() for val in vals):
            found.append(str(node.target))
    return [each for each in found if each != "aten.view_as_complex.default"]


def check(rows: Mapping[str, Row], shape: tuple[int, ...] = (4, 6, 5)) -> None:
    torch.manual_seed(5)
    example = tuple(torch.randn(shape) for _ in range(5))
    exported = export(Rows(list(rows.values())), example, dynamic_shapes=[{0: N}] * 5)
    # Parts are products and sums of float32 where torch's own kernels round once more or less: the usual tolerance.
    _, lowered = assert_lowered_agrees(exported, example, keep=has_converter, beside_torch=False)
    assert not complex_ops(lowered)
    assert not lowered.limits
    ops = [node.target for node in lowered.graph_module.graph.nodes if node.op == "call_function"]
    without = {str(op) for op in ops if isinstance(op, torch._ops.OpOverload) and not has_converter(op)}
    assert without <= {"aten.view_as_complex.default", "aten.sym_size.int"}


FAMILIES = {
    "arithmetic": ARITHMETIC,
    "functions": FUNCTIONS,
    "products": PRODUCTS,
    "moves": {**MOVES, "written": written},
    "transforms": TRANSFORMS,
}


# One program a family, of which the quick run has every twelfth row; transforms alone are in test_fourier_products.py.
@pytest.mark.parametrize("family", FAMILIES)
def test_ops_become_real_ones(family: str) -> None:
    rows = {name: FAMILIES[family][name] for name in some(list(FAMILIES[family]), 12)}
    try:
        check(rows)
    except Exception:
        for name, row in rows.items():  # which of them it is
            try:
                check({name: row})
            except Exception as error:
                raise AssertionError(f"{name}: {error}") from error
        raise


@pytest.mark.slow  # quick: the log-mel front end of tests/compiling/test_complex_programs.py has any length
def test_transforms_of_a_length_that_the_input_decides() -> None:
    check(DYNAMIC, (4, 15, 17))


class Spectral(nn.Module):
    """A parameter, a buffer that is saved, one that is not, and a constant, all complex."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(5, 3, dtype=torch.complex64))
        self.register_buffer("turn", torch.randn(5, dtype=torch.complex64))
        self.register_buffer("shift", torch.randn(3, dtype=torch.complex64), persistent=False)
        self.scale = torch.tensor(2 - 1j)

    def forward(self, x: Tensor) -> Tensor:
        return torch.view_as_real((x * self.turn) @ self.weight.conj() * self.scale + self.shift)


def test_complex_weights_are_constants_of_their_parts() -> None:
    example = (torch.randn(4, 5),)
    exported = export(Spectral(), example, dynamic_shapes=({0: N},))
    _, lowered = assert_lowered_agrees(exported, example, keep=has_converter)
    assert not complex_ops(lowered)
    read = [node for node in lowered.graph_module.graph.nodes if node.op == "placeholder" and node.users]
    assert not any(node.meta["val"].is_complex() for node in read)
    assert "aten.view_as_real.default" not in targets(lowered)


class Edges(nn.Module):
    def forward(self, z: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = z * x
        return y, z, y.abs()


@pytest.mark.slow  # quick: test_ops_become_real_ones
def test_complex_inputs_and_outputs_cross_as_views() -> None:
    example = (torch.randn(4, 5, dtype=torch.complex64), torch.randn(4, 5))
    exported = export(Edges(), example, dynamic_shapes=[{0: N}] * 2)
    _, lowered = assert_lowered_agrees(exported, example, keep=has_converter)
    assert sorted(complex_ops(lowered)) == [
        "aten.clone.default",
        "aten.resolve_conj.default",
        "aten.view_as_real.default",
    ]
    turned = example[0].conj()  # which is no view of reals
    assert_same(user_outputs(lowered, [turned, example[1]]), list(exported.module()(turned, example[1])))


class Island(nn.Module):
    def __init__(self, op: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.op = op

    def forward(self, x: Tensor) -> Tensor:
        z = torch.complex(x.relu(), x.sigmoid())
        return (self.op(z * 2) * 3).abs()


STAYS: Mapping[str, tuple[Callable[[Tensor], Tensor], str, str]] = {
    "of a long dynamic length": (
        lambda z: torch.fft.fft(z, dim=0),
        "aten._fft_c2c.default",
        "it transforms dim 0, whose length depends on the input and may be 513: products are written for such a length"
        " up to 512",
    ),
    "long and prime": (
        lambda z: torch.fft.fft(z, n=1021),
        "aten._fft_c2c.default",
        "its transform has 1021 points, which is prime: products with constant matrices would take 160 times the"
        " arithmetic of an FFT",
    ),
    "of one large factor": (
        lambda z: torch.fft.irfft(z, n=2038),
        "aten._fft_c2r.default",
        "its transform has 2038 points, which is 2 times 1019 at best: products with constant matrices would take 74"
        " times the arithmetic of an FFT",
    ),
    "no rule": (
        lambda z: torch.cumprod(z, 1),
        "aten.cumprod.default",
        "it takes or gives complex numbers, and is not among the ops written with real ones",
    ),
    "doubles": (
        lambda z: (z.to(torch.complex128) * 2j).to(torch.complex64),
        "aten.mul.Tensor",
        "it computes in complex128, and truncate_double is off",
    ),
}


# Quick: the ends; the others stay for the same reason at other lengths.
@thinned("name", STAYS, every=9)
def test_what_is_not_written_stays_alone_with_its_reason(name: str) -> None:
    op, target, why = STAYS[name]
    longest = 513 if "long dynamic" in name else 13
    example = (torch.randn(4, 1009 if longest == 513 else 101),)  # no size that the dynamic one has: torch adds a guard
    exported = export(Island(op), example, dynamic_shapes=({0: Dim("n", min=1, max=longest)},))
    _, lowered = assert_lowered_agrees(exported, example, keep=has_converter, beside_torch=False)
    assert [(limit.target, limit.why) for limit in lowered.limits] == [(target, why)]
    assert complex_ops(lowered).count(target) == 1
    assert set(complex_ops(lowered)) <= {target, "aten._to_copy.default", "aten.view_as_real.default"}
    assert {"aten.hypot.default", "aten.abs.default"} & targets(lowered)  # of what follows, which is real


def lowered_with(exported: ExportedProgram, **options: object) -> Lowered:
    program = capture(exported)
    return lower(program, check_metadata(program), has_converter, **options)  # type: ignore[arg-type]  # as lower's


@pytest.mark.slow  # quick: what is not written stays alone with its reason
def test_doubles_and_kept_ops_follow_the_options() -> None:
    example = (torch.randn(4, 5),)
    double = export(Island(STAYS["doubles"][0]), example, dynamic_shapes=({0: N},))
    assert not lowered_with(double, truncate_double=True).limits
    transform = export(Island(torch.fft.fft), example, dynamic_shapes=({0: N},))
    assert not lowered_with(transform).limits
    (kept,) = lowered_with(transform, in_torch=("aten._fft_c2c",)).limits
    assert kept.why == "keep_in_torch names aten._fft_c2c"


class Written(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        z = torch.complex(x, x + 1)
        z.real.mul_(2)  # a view that has no inverse here
        return z.abs()


def test_memory_that_stays_changed_in_place_stays_complex() -> None:
    example = (torch.randn(4, 5),)
    exported = export(Written(), example, dynamic_shapes=({0: N},))
    _, lowered = assert_lowered_agrees(exported, example, keep=has_converter, beside_torch=False)
    assert "aten.mul_.Tensor" in targets(lowered)


class Spectrum(nn.Module):
    def forward(self, x: Tensor, z: Tensor) -> Tensor:
        return torch.fft.fft(x).abs() + z.abs()


def test_a_size_whose_range_was_lost_leaves_its_ops_complex(tmp_path: Path) -> None:
    example = (torch.randn(4, 5), torch.randn(4, 5, dtype=torch.complex64))
    exported = export(Spectrum(), example, dynamic_shapes=({0: N}, {0: N}))
    path = with_program(
        saved(exported, tmp_path / "whole.pt2"),
        tmp_path / "lost.pt2",
        lambda program: program["range_constraints"].clear(),
    )
    _, lowered = lowered_of(path, has_converter)
    assert lowered.limits
    assert all("vr must not be None" in each.why for each in lowered.limits)


def test_real_programs_are_left_alone() -> None:
    exported = export(nn.Linear(5, 3), (torch.randn(4, 5),), dynamic_shapes=({0: N},))
    _, lowered = lowered_of(exported, has_converter)
    (count,) = (each.changed for each in lowered.passes if each.name == "complex numbers")
    assert count == 0
