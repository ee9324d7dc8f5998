"""Texts that cannot be read or compared in full, each with the reason."""

from __future__ import annotations

_QUOTED_SHORT = "a document quotes the message without the condition itself"

# Text -> (what is named but not parsed, why).
UNPARSED: dict[str, tuple[list[str], str]] = {
    "a045": (["10 <= ..."], _QUOTED_SHORT),
    "a080": (["batch was inferred to be a constant"], _QUOTED_SHORT),
    "a081": (
        ["Not all values of K satisfy the generated guard", "Not all values of batch satisfy the generated guard"],
        _QUOTED_SHORT,
    ),
    "a083": (["The values of dimy must always be related to the values of dimx by"], _QUOTED_SHORT),
    "a084": (
        ["Expected input.size to be equal to 2*dimx, where dimx = 5, but got 6"],
        "the message of a runtime check names the input and not its dim",
    ),
}

_NOT_ONE = "the text also states t // 8 != 1, torch's assumption that no size is 1, which the program does not need"

# Text -> (values at which the stated conditions and what the program needs differ, why).
OTHER_THAN_TRUTH: dict[str, tuple[list[int], str]] = {"g052": ([8], _NOT_ONE), "g098": ([8], _NOT_ONE)}
