"""The phrases of torch's messages that are searched for, and what each says of the line that it stands in."""

from __future__ import annotations

BEGINS = ("Not all values of ", "You marked ", "The values of ")
"""What the sentences of ``Constraints violated`` begin with."""

# b: it begins a line of torch's, of a traceback or of a report, so that this line continues nothing;
# w: it is mended where a width broke the line inside it; t: its line tells something;
# m: it stands in the middle of a sentence, and may be all that is left of it.
_ROLES = {
    **dict.fromkeys(BEGINS, "bwt"),
    "Guard failed: ": "bwt",
    "Runtime assertion failed for expression ": "bwt",
    "set_replacement ": "bwt",
    "create_symbol ": "bwt",
    "Expected input": "bwt",
    "Constraints violated (": "bwt",
    "Suggested fixes:": "bw",
    "data-dependent expression": "wt",
    "[guard added]": "wt",
    "this guard was added: ": "wt",
    "evaluate_expr(": "wt",
    "EXTENDED_DEBUG_GUARD_ADDED=": "wt",
    "inferred a static shape of ": "wt",
    "not in range [": "wt",
    "0/1 specialized": "t",
    "specified min/max range of [": "t",
    "Expected shape[": "t",
    "inferred to be a constant": "m",
    "specialized it to be a constant": "m",
    "a specialized value of ": "wm",
    "satisfy the generated guard ": "w",
    "in the specified range ": "w",
    "are valid because ": "w",
    "must always be ": "w",
    "solving the guards generated for ": "bw",
    "specialized due to hint of ": "w",
    "Specializations unexpectedly req": "b",
    "Could not guard on data-dependent ": "b",
    "Could not extract specialized ": "b",
    "Received user-specified dim hint": "b",
    "Traceback (most recent ": "b",
    'File "': "b",
    "For more information, ": "b",
    "For more debugging ": "b",
    "For extended logs ": "b",
    "For C++ stack trace": "b",
    "If you suspect the guard ": "b",
    "Caused by: ": "b",
    "User Stack": "b",
    "User stack": "b",
    "The above exception ": "b",
    "The error above ": "b",
    "The following call ": "b",
    "The following dimensions ": "b",
    "To fix the error, ": "b",
    "During handling of ": "b",
    "from user code": "b",
    "Set TORCH": "b",
    "create_env": "b",
    "create_unbacked_symint ": "b",
    "produce_guards": "b",
    "runtime_assert ": "b",
    "consider using ": "b",
    "def specializations(": "b",
    "def specify_constraints(": "b",
    "1. torch._check(": "b",
    "2. torch._check(": "b",
    "```": "b",
}


def _phrases(role: str) -> tuple[str, ...]:
    return tuple(phrase for phrase, roles in _ROLES.items() if role in roles)


STARTS, MENDED, TELLING, MIDDLE = map(_phrases, "bwtm")
