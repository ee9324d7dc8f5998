"""GRD305."""

from __future__ import annotations

from collections.abc import Iterator

from trtdiag.analysis.finding import Applicability, Evidence, Fix, Hit, Severity
from trtdiag.analysis.rule import rule
from trtdiag.dims.facts import DimSystem


@rule("GRD305", "unread-guard", Severity.WARNING)
def unread_guard(dims: DimSystem) -> Iterator[Hit]:
    """A guard could not be read, so nothing is known about it.

    Why:
        Guards are read into one form before they are checked against the declared ranges.  A guard that
        uses a function or a source that is not known here is named instead of dropped: the ranges may be
        narrower than the other findings say, and a suggested Dim is proved for the other guards only.

    Example:
        torch.sym_float(h) ** 0.5 == 8          # a root of a size: not an integer expression

    Fix safety:
        Manual: check by hand that the condition holds for every declared size, or write the line of the
        model with integer arithmetic (//, %, *, +, min, max).

    Source:
        The text of the guard as torch recorded it.
    """
    for guard in dims.unparsed:
        yield Hit(
            f"guard could not be read: {guard.text}",
            (Evidence(guard.text, guard.found_in), Evidence(guard.why, "the reader of guards")),
            fix=Fix("check by hand that it holds for every declared size", Applicability.MANUAL),
            cause=guard.text,
        )
