"""How far one output is off."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch.fx import Graph

from trtdiag.graph.quantizers import rounds_tensors
from trtdiag.grouping import grouped
from trtdiag.options import Precision
from trtdiag.verification.columns import Largest, columns_of, parts
from trtdiag.verification.facts import OutputError, PointResult, Tolerance
from trtdiag.wording import dtype_text, listed, told_name

_MOST_NAMED = 4
FLOAT32 = Tolerance(
    1e-4,
    1e-5,
    "float32 keeps 2**-24; sums of thousands of terms in another order, through tens of layers, lose three digits more",
)
HALF = Tolerance(4e-2, 1e-3, "float16 keeps 2**-11; some tens of layers round at every step")
BFLOAT = Tolerance(1e-1, 1e-2, "bfloat16 keeps 2**-8; some tens of layers round at every step")


QUANTIZED = Tolerance(
    4e-2,
    1e-3,
    "a quantizer rounds to about 1/127 of its range: what lies next to the middle between two steps may fall to either "
    "side, by a whole step, and later quantizers pass that on",
)


def tolerance_for(precision: Precision, graph: Graph) -> Tolerance:
    """The tolerance for what a program computes in: the precision asked for, else its own lowest one."""
    if precision is Precision.INT8:
        return QUANTIZED
    values = (node.meta.get("val") for node in graph.nodes)
    dtypes = {value.dtype for value in values if isinstance(value, torch.Tensor)}
    if precision is Precision.BF16 or torch.bfloat16 in dtypes:
        return BFLOAT
    if precision is Precision.FP16 or torch.float16 in dtypes:
        return HALF
    return QUANTIZED if any(map(rounds_tensors, graph.nodes)) else FLOAT32


def compare(name: str, expected: Any, actual: Any, tolerance: Tolerance, fixed: Collection[int] = ()) -> OutputError:
    """The difference of one output; values that are no tensors must be equal.

    Args:
        name: Of the output.
        expected: What the original gives.
        actual: What the compiled program gives.
        tolerance: What floats may be off by, of the magnitude of the output, or of each of its columns.
        fixed: The dims along which it may have columns (``columns_of``).
    """
    if not isinstance(expected, torch.Tensor) or not isinstance(actual, torch.Tensor):
        same = type(expected) is type(actual) and expected == actual
        why = "" if same else f"expected {expected!r}, got {actual!r}"
        return OutputError(name, type(expected).__name__, (), 0.0, 0.0, 0.0, same, why)
    dtype, shape = dtype_text(expected.dtype), tuple(expected.shape)
    if actual.dtype != expected.dtype:
        return OutputError(name, dtype, shape, 0.0, 0.0, 0.0, False, f"it is {actual.dtype}, not {expected.dtype}")
    if tuple(actual.shape) != shape:
        return OutputError(name, dtype, shape, 0.0, 0.0, 0.0, False, f"its shape is {tuple(actual.shape)}, not {shape}")
    if actual.layout is not expected.layout:
        return OutputError(name, dtype, shape, 0.0, 0.0, 0.0, False, f"it is {actual.layout}, not {expected.layout}")
    if not expected.numel():
        return OutputError(name, dtype, shape, 0.0, 0.0, 0.0, True)
    expected, actual = (one if one.layout is torch.strided else one.to_dense() for one in (expected, actual))
    return _numbers(name, dtype, expected.detach().cpu(), actual.detach().cpu(), tolerance, fixed)


def _numbers(
    name: str,
    dtype: str,
    expected: torch.Tensor,
    actual: torch.Tensor,
    tolerance: Tolerance,
    fixed: Collection[int],
) -> OutputError:
    shape = tuple(expected.shape)
    wrong, strange, sizes, off = 0, 0, Largest(shape, fixed), Largest(shape, fixed)
    for at in parts(shape):
        alone, not_finite, magnitudes, difference = _part(expected[at], actual[at])
        wrong += alone
        strange += not_finite
        sizes.add(magnitudes, at)
        off.add(difference, at)
    size, largest = float(sizes.along(None)), float(off.along(None))
    exact = not (expected.dtype.is_floating_point or expected.is_complex())
    allowed, column = 0.0 if exact else tolerance.absolute + tolerance.relative * size, ""
    if not exact:
        columns = columns_of(sizes)
        far, most = off.along(columns.dim), columns.allowed(tolerance)
        if columns.dim is not None and bool((far > most).any()):
            worst = int((far / most).argmax())
            largest, allowed, size = float(far[worst]), float(most[worst]), float(columns.sizes[worst])
            column = columns.name(worst, expected.dim())
    why = f"{wrong} elements are not finite on one side only" if wrong else ""
    relative = largest / size if size else float(largest > 0)
    passed = largest <= allowed and not wrong
    finite = strange < expected.numel()
    return OutputError(name, dtype, shape, largest, relative, allowed, passed, why, column=column, finite=finite)


def not_finite_notes(results: Sequence[PointResult]) -> list[str]:
    """A sentence where all that was compared of an output was NaN or infinite on both sides."""
    ran = [result for result in results if not result.skipped and not result.failed]
    outputs = grouped((output.output, output.finite) for result in ran for output in result.outputs if output.passed)
    named = [told_name(name) for name, finite in outputs.items() if not any(finite)]
    if not named:
        return []
    have = "has" if len(named) == 1 else "have"
    return [
        f"{listed(named, _MOST_NAMED)} {have} no finite number at any set of sizes that was compared: NaNs and "
        "infinities in the same places say nothing of what is computed"
    ]


def _part(expected: torch.Tensor, actual: torch.Tensor) -> tuple[int, int, torch.Tensor, torch.Tensor]:
    """Of a part, how many elements are not finite on one side only and on any, the magnitudes, and how far it is off.

    Both are 0 where an element is not finite on some side.
    """
    wide = torch.complex128 if expected.is_complex() else torch.float64
    left, right = expected.to(wide), actual.to(wide)
    magnitudes, difference = left.abs(), (left - right).abs()
    if bool(torch.isfinite(difference.amax())):  # it is not where any element is not: most parts end here
        return 0, 0, magnitudes, difference
    strange = ~torch.isfinite(left) | ~torch.isfinite(right)
    # Infinities of one sign and NaNs in one place agree.
    agree = (left == right) | (torch.isnan(left) & torch.isnan(right))
    magnitudes, difference = (each.masked_fill(strange, 0.0) for each in (magnitudes, difference))
    return int((strange & ~agree).sum()), int(strange.sum()), magnitudes, difference


def near(one: torch.Tensor, other: torch.Tensor, all_of: torch.Tensor, tolerance: Tolerance) -> torch.Tensor:
    """Where two tensors of one shape agree: within the tolerance of the magnitude of ``all_of``, integers exactly."""
    wide = torch.complex128 if one.is_complex() else torch.float64
    left, right, every = (each.detach().cpu().to(wide) for each in (one, other, all_of))
    same = (left == right) | (torch.isnan(left) & torch.isnan(right))
    if not (one.dtype.is_floating_point or one.is_complex()):
        return same
    size = torch.where(torch.isfinite(every), every, torch.zeros_like(every)).abs()
    allowed = tolerance.absolute + tolerance.relative * (float(size.max()) if size.numel() else 0.0)
    return same | ((left - right).abs() <= allowed)
