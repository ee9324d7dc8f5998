"""Interval rules of elementwise arithmetic, comparison and bit operations."""

from __future__ import annotations

import math
from dataclasses import replace

from trtdiag.dtypes.call import Call, Result
from trtdiag.dtypes.interval_ops.registry import always, rule
from trtdiag.dtypes.value_span import INT64_MAX, INT64_MIN, Real, Span, is_finite

# An integer power beyond this many bits has left every dtype; it is not computed.
_MOST_BITS = 128


def times(left: Real, right: Real) -> Real:
    """Multiply ends: zero times infinity is zero, because an end stands for finite values."""
    return 0 if left == 0 or right == 0 else left * right


def _explained(call: Call, low: Real, high: Real, *inputs: Span) -> Span:
    """Return a computed span; values that are unknown keep the reason why they are.

    Not for operations whose ends are reached inside the inputs' spans.
    """
    wide = next((span for span in inputs if span.root and not span.fits_int32), None)
    if wide is not None:
        return Span(low, high, wide.why, root=wide.root)
    return Span(low, high, f"{call.op} of {' and '.join(str(span) for span in inputs)}")


def _shifted(call: Call, low: Real, high: Real, *inputs: Span) -> Span:
    """Return a computed span whose ends are reached where at most one input has more than one value."""
    varying = sum(span.low != span.high for span in inputs)
    span = _explained(call, low, high, *inputs)
    return replace(span, attained=varying <= 1 and all(part.attained for part in inputs))


@rule("add")
def add(call: Call) -> Result:
    """``self + alpha * other``."""
    left, right = call.span("self"), _scaled(call)
    return _shifted(call, left.low + right.low, left.high + right.high, left, right)


@rule("sub", "subtract")
def sub(call: Call) -> Result:
    """``self - alpha * other``."""
    left, right = call.span("self"), _scaled(call)
    return _shifted(call, left.low - right.high, left.high - right.low, left, right)


@rule("rsub")
def rsub(call: Call) -> Result:
    """``other - alpha * self``."""
    left, right = call.span("other"), call.span("self")
    alpha = call.arg("alpha")
    if alpha != 1:
        return _explained(call, -math.inf, math.inf, left, right)
    return _shifted(call, left.low - right.high, left.high - right.low, left, right)


def _scaled(call: Call) -> Span:
    other = call.span("other")
    if not call.has("alpha") or call.arg("alpha") == 1:
        return other
    alpha = call.span("alpha")
    ends = [times(other.low, alpha.low), times(other.high, alpha.low)]
    if not alpha.attained:
        ends = [-math.inf, math.inf]
    return Span(min(ends), max(ends), other.why, other.attained and alpha.attained, other.root)


@rule("mul", "multiply")
def mul(call: Call) -> Result:
    """``self * other``."""
    left, right = call.span("self"), call.span("other")
    ends = [times(a, b) for a in (left.low, left.high) for b in (right.low, right.high)]
    return _shifted(call, min(ends), max(ends), left, right)


@rule("neg", "negative")
def neg(call: Call) -> Result:
    """``-self``."""
    span = call.span("self")
    return _shifted(call, -span.high, -span.low, span)


@rule("abs")
def absolute(call: Call) -> Result:
    """``|self|``."""
    span = call.span("self")
    ends = (abs(span.low), abs(span.high))
    low = 0 if span.low <= 0 <= span.high else min(ends)
    return _explained(call, low, max(ends), span)


@rule("div", "divide", "true_divide", "floor_divide")
def divide(call: Call) -> Result:
    """``self / other`` with its rounding mode; integers in, integers out under ``floor`` and ``trunc``."""
    mode = call.arg("rounding_mode") if call.has("rounding_mode") else None
    return _quotient(call, "floor" if call.op == "floor_divide" else mode)


def _quotient(call: Call, mode: object) -> Result:
    left, right = call.span("self"), call.span("other")
    if right.low <= 0 <= right.high:
        if mode is None or not _integral(right):
            return _explained(call, -math.inf, math.inf, left, right)
        # Integers other than zero are at least one away from it; dividing by zero is an error in PyTorch.
        largest = max(abs(left.low), abs(left.high))
        return _explained(call, -largest, largest, left, right)
    ends = [_divided(a, b, mode) for a in (left.low, left.high) for b in (right.low, right.high)]
    if any(math.isnan(end) for end in ends):
        return _explained(call, -math.inf, math.inf, left, right)
    return _explained(call, min(ends), max(ends), left, right)


def _divided(left: Real, right: Real, mode: object) -> Real:
    if isinstance(left, int) and isinstance(right, int):
        if mode == "floor":
            return left // right
        if mode == "trunc":
            return abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
    quotient = left / right
    if mode is None or not is_finite(quotient):
        return quotient
    return math.floor(quotient) if mode == "floor" else math.trunc(quotient)


def _integral(span: Span) -> bool:
    return isinstance(span.low, int) and isinstance(span.high, int)


@rule("remainder")
def remainder(call: Call) -> Result:
    """``self % other`` with the sign of ``other``."""
    left, right = call.span("self"), call.span("other")
    step = 1 if _integral(right) else 0
    low, high = min(0, right.low + step), max(0, right.high - step)
    if left.low >= 0 and right.low > 0:
        high = min(high, left.high)
    return (
        Span(low, high, f"remainder of a division by {right}")
        if right.fits_int32
        else _explained(call, low, high, right)
    )


@rule("fmod")
def fmod(call: Call) -> Result:
    """``self % other`` with the sign of ``self``."""
    left, right = call.span("self"), call.span("other")
    largest = max(abs(right.low), abs(right.high)) - (1 if _integral(right) else 0)
    low = max(-largest, left.low) if left.low < 0 else 0
    high = min(largest, left.high) if left.high > 0 else 0
    return _explained(call, low, high, right)


@rule("pow")
def power(call: Call) -> Result:
    """``self ** exponent`` for a literal exponent that is a whole number and not negative."""
    base, exponent = call.span("self"), call.span("exponent")
    whole = exponent.low == exponent.high and isinstance(exponent.low, int) and exponent.low >= 0
    if not whole or not is_finite(base.low, base.high) or not _integral(base):
        return _explained(call, -math.inf, math.inf, base, exponent)
    degree = int(exponent.low)
    if degree * int(max(abs(base.low), abs(base.high), 1)).bit_length() > _MOST_BITS:
        return _explained(call, -math.inf, math.inf, base, exponent)
    ends = [base.low**degree, base.high**degree]
    if degree % 2 == 0 and base.low <= 0 <= base.high:
        ends.append(0)
    return _explained(call, min(ends), max(ends), base)


@rule("clamp", "clip", "clamp_min", "clamp_max")
def clamp(call: Call) -> Result:
    """``self`` kept between ``min`` and ``max``, where given."""
    span = call.span("self")
    low, high = span.low, span.high
    texts = []
    if call.has("min") and call.arg("min") is not None:
        least = call.span("min")
        low, high = max(low, least.low), max(high, least.high)
        texts.append(f"at least {least}")
    if call.has("max") and call.arg("max") is not None:
        most = call.span("max")
        low, high = min(low, most.low), min(high, most.high)
        texts.append(f"at most {most}")
    clamped = Span(low, high, f"clamped to {' and '.join(texts)}")
    return clamped if clamped.fits_int32 or span.fits_int32 else Span(low, high, span.why, root=span.root)


@rule("minimum", "maximum")
def extreme_of_two(call: Call) -> Result:
    """The lesser or the greater of two, element by element."""
    left, right = call.span("self"), call.span("other")
    pick = min if call.op.startswith("min") else max
    return _explained(call, pick(left.low, right.low), pick(left.high, right.high), left, right)


@rule("bitwise_and", "__and__")
def bitwise_and(call: Call) -> Result:
    """Never above an operand that is not negative."""
    left, right = call.span("self"), call.span("other")
    highs = [span.high for span in (left, right) if span.low >= 0]
    if not highs:
        return _explained(call, INT64_MIN, INT64_MAX, left, right)
    return Span(0, min(highs), f"bits of {left} and {right}")


@rule("bitwise_or", "__or__", "bitwise_xor", "__xor__")
def bitwise_or(call: Call) -> Result:
    """``or`` and ``xor``: no more bits than the operands have."""
    left, right = call.span("self"), call.span("other")
    if left.low < 0 or right.low < 0 or not (_integral(left) and _integral(right)):
        return _explained(call, INT64_MIN, INT64_MAX, left, right)
    bits = max(int(left.high), int(right.high)).bit_length()
    return _explained(call, 0, 2**bits - 1, left, right)


@rule("bitwise_not")
def bitwise_not(call: Call) -> Result:
    """``-self - 1``; for booleans the dtype's own limits apply."""
    span = call.span("self")
    return _explained(call, -span.high - 1, -span.low - 1, span)


@rule("bitwise_right_shift", "__rshift__")
def right_shift(call: Call) -> Result:
    """``self >> other``: exact for a number, else closer to zero and never past -1."""
    span, count = call.span("self"), call.span("other")
    if _integral(span) and isinstance(count.low, int) and count.low == count.high and 0 <= count.low < 64:
        return _explained(call, int(span.low) >> count.low, int(span.high) >> count.low, span)
    return _explained(call, min(span.low, -1), max(span.high, 0), span)


@rule("cumsum")
def cumulative_sum(call: Call) -> Result:
    """Sums of one to ``n`` elements along a dim."""
    span, (_, count) = call.span("self"), call.length("self", call.arg("dim"))
    low, high = min(span.low, times(span.low, count)), max(span.high, times(span.high, count))
    return summed(call, low, high, span, count)


def summed(call: Call, low: Real, high: Real, span: Span, count: int) -> Span:
    """Return the span of a sum of up to ``count`` values, with the reason where it is not known."""
    if span.root and not span.fits_int32:
        return Span(low, high, span.why, root=span.root)
    unbounded = count >= INT64_MAX
    text = f"{call.op} of {'an unbounded number of' if unbounded else f'at most {count}'} values in {span}"
    return Span(low, high, text, root=text if unbounded else "")


@rule("diff")
def difference(call: Call) -> Result:
    """``diff`` of order one: neighbours subtracted."""
    ends = [call.span("self")]
    ends += [call.span(name) for name in ("prepend", "append") if call.arg(name) is not None]
    low, high = min(span.low for span in ends), max(span.high for span in ends)
    if call.arg("n") != 1:
        return _explained(call, -math.inf, math.inf, *ends)
    return _explained(call, low - high, high - low, *ends)


rule("sign")(always(-1, 1, "sign"))
