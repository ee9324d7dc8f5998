"""Fourier transforms as products beside torch's FFT in float64, at lengths that are one product, two, or too long."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.harness.rows import each
from trtdiag.lower.complex.exponentials import (
    MOST_TERMS,
    Exponentials,
    TooLongError,
    arithmetic,
    computed_tables,
    factors,
    of_fft,
)
from trtdiag.lower.complex.pair import Call, Pair
from trtdiag.lower.complex.transforms import fourier, transform_of

# One point; the least even and odd ones; odd, even and prime ones of one product up to its end; two products with equal
# and unequal factors, odd ones among them; the longest prime factor that goes.
LENGTHS = (1, 2, 3, 4, 5, 31, 128, 400, 509, 511, 512, 513, 600, 1001, 1024, 3 * 499, 4096)


def transformed(op: torch._ops.OpOverload, x: Tensor, dtype: torch.dtype, **given: object) -> Tensor:
    """What the products give; tables and sums in ``dtype``."""
    named = {"self": Pair(x.real, x.imag) if x.is_complex() else x, **given}
    named["self"] = Pair(*(part.to(dtype) for part in (x.real, x.imag))) if x.is_complex() else x.to(dtype)
    transform = transform_of(op._schema.name, named, x)
    tables = [table.tables(dtype) for along in transform.dims for table in along.tables()]
    made = fourier(Call(op, "c2r" not in op._schema.name, dtype, x.device, tables), **named)
    return torch.complex(made.real, made.imag) if isinstance(made, Pair) else made


def close(got: Tensor, wanted: Tensor, dtype: torch.dtype) -> None:
    """Seen were 8 units of the largest one's last place (benchmarks/fourier_products.py), of torch's FFT 4.

    On a CPU with AVX-512 float64 was 120 units off at lengths with a large prime factor: of torch's own FFT, which has
    the same 53 bits and no reserve as it has beside float32.
    """
    allowed = (12 if dtype == torch.float32 else 256) * torch.finfo(dtype).eps * wanted.abs().max()
    assert got.shape == wanted.shape
    assert (got - wanted).abs().max() <= allowed


@pytest.mark.slow  # quick: tests/lower/test_complex_numbers.py has transforms
@each("points", LENGTHS)
def test_transforms_of_all_lengths_are_those_of_an_fft(points: int) -> None:
    torch.manual_seed(points)
    aten = torch.ops.aten
    x = torch.randn(3, points, dtype=torch.float64)
    z = torch.randn(3, points, dtype=torch.complex128)
    half = torch.fft.rfft(x)
    half.imag[:, 0] = 5.0  # which an inverse of half a spectrum leaves out
    for dtype in (torch.float64, torch.float32):
        for norm in (0, 1, 2) if dtype == torch.float64 else (1,):
            scale = {0: 1.0, 1: points**-0.5, 2: 1 / points}[norm]
            given = {"dim": [1], "normalization": norm}
            close(transformed(aten._fft_c2c.default, z, dtype, forward=True, **given), torch.fft.fft(z) * scale, dtype)
            back = torch.fft.ifft(z, norm="forward") * scale
            close(transformed(aten._fft_c2c.default, z, dtype, forward=False, **given), back, dtype)
            close(
                transformed(aten._fft_r2c.default, x, dtype, onesided=True, **given), torch.fft.rfft(x) * scale, dtype
            )
            close(
                transformed(aten._fft_r2c.default, x, dtype, onesided=False, **given), torch.fft.fft(x) * scale, dtype
            )
            real = torch.fft.irfft(half, n=points, norm="forward") * scale
            close(transformed(aten._fft_c2r.default, half, dtype, last_dim_size=points, **given), real, dtype)


@each("points", (1, 2, 3, 509, 511, 512))
def test_matrices_that_are_computed_are_the_constant_ones(points: int) -> None:
    half = points // 2 + 1
    for rows, columns, halved in ((points, points, False), (points, half, False), (half, points, True)):
        for norm, scale in ((0, 1.0), (1, points**-0.5), (2, 1 / points)):
            wanted = Exponentials(rows, columns, points, -1, scale, halved).tables(torch.float64)
            got = computed_tables(
                *(rows, columns, points, -1, norm), halved=halved, dtype=torch.float32, device=torch.device("cpu")
            )
            # An angle below one turn is off by 2 pi times half a unit in the last place of 1, and rounded twice more.
            for ours, theirs in ((got.real, wanted.real), (got.imag, wanted.imag)):
                assert (ours - theirs).abs().max() <= 1.5e-6 * scale


def test_any_dim_of_any_length_can_be_transformed() -> None:
    z = torch.randn(2, 600, 3, 5, dtype=torch.complex128)
    for dims in ([1], [0, 1], [3, 1, 2]):
        got = transformed(torch.ops.aten._fft_c2c.default, z, torch.float64, dim=dims, normalization=0, forward=True)
        wanted = z
        for dim in dims:  # one after the other: fftn of torch 2.15.0 over two dims has written beyond its memory
            wanted = torch.fft.fft(wanted, dim=dim)
        close(got, wanted, torch.float64)


def test_lengths_end_where_sums_are_too_long() -> None:
    assert factors(MOST_TERMS) == (MOST_TERMS,)
    assert factors(MOST_TERMS + 1) == (19, 27)
    assert factors(65536) == (256, 256)
    assert factors(3 * 509) == (3, 509)
    for points in (521, 1021, 4 * 509, 3 * 521, 131_072):
        with pytest.raises(TooLongError) as refused:
            factors(points)
        assert f" {points} points" in refused.value.told(real=True)


def test_arithmetic_is_counted_as_the_products_do_it() -> None:
    assert arithmetic(400, real=True) == 2 * 2 * 400 * 201
    assert arithmetic(400, real=False) == 4 * 2 * 400 * 400
    # Two products of 32 and a factor between them: a tenth of one of 1024.
    assert arithmetic(1024, real=False) == 1024 * (8 * 64 + 6)
    assert arithmetic(1, real=True) == 4
    assert of_fft(1024, real=False) == 51_200
