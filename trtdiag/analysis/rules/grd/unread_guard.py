"""GRD305."""

from __future__ import annotations

from collections.abc import Iterator

from trtdiag.analysis.finding import Place
from trtdiag.analysis.rules import Evidence, Fix, Hit, Severity, line_evidence, rule
from trtdiag.dims.facts import DimSystem
from trtdiag.wording import amount, shortened


@rule("GRD305", "unread-guard", Severity.WARNING)
def unread_guard(dims: DimSystem) -> Iterator[Hit]:
    """A guard could not be read, so nothing is known about it.

    Why:
        Guards are read into one form before they are checked against the declared ranges.  A guard that
        uses a function or a source that is not known here is named instead of dropped: the ranges may be
        narrower than the other findings say, and a suggested Dim is proved for the other guards only.
        torch keeps a guard in more than one notation, so one condition may be listed more than once.

    Example:
        torch.sym_float(h) ** 0.75 < 120.5      # a power of a size that is no root: not an integer expression

    Fix safety:
        Manual: check by hand that the condition holds for every declared size, or write the line of the
        model with integer arithmetic (//, %, *, +, min, max).

    Source:
        The text of the guard as torch recorded it.
    """
    # torch keeps a guard in several notations; its text over the inputs reads best.
    texts = sorted(dims.unparsed, key=lambda guard: guard.found_in != "_guards_code")
    if not texts:
        return
    more = f" (and {amount(len(texts) - 1, 'more text')})" if len(texts) > 1 else ""
    facts = [Evidence(guard.text, f"{guard.found_in}: {guard.why}") for guard in texts]
    first = texts[0]
    frame = next((guard.stack.best for guard in texts if guard.stack.best is not None), None)
    yield Hit(
        f"guard could not be read: {shortened(first.text)}{more}",
        (*facts, *line_evidence(frame)),
        Place(frame=frame),
        fix=Fix(
            f"nothing is known of it ({first.why.removeprefix(f'cannot read {first.text!r}: ')}): check by hand that it"
            " holds for every declared size, or write the line in other words"
        ),
        cause="unread",
    )
