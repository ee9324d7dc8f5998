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

_NOT_ONE = (
    "the text also states t // 8 != 1 (h // 2 != 1): torch assumes that no size is 1, the program does not need it"
)

# Text -> (values at which the stated conditions and what the program needs differ, why).
OTHER_THAN_TRUTH: dict[str, tuple[list[int], str]] = {"g052": ([8], _NOT_ONE), "g098": ([8], _NOT_ONE)}

# Texts that state no condition at all.
NO_CONDITION = frozenset({"Node arity mismatch; expected 1, but got 2."})  # torch 2.4.1 failed on its own error

# Text -> variable of the truth -> what the text calls it.
CALLED: dict[str, dict[str, str]] = {
    "a013": {"s95": "I.shape[2]"},
    "a014": {"s28": "I.shape[3]"},
    **{name: {"n": "input_ids.shape[0]"} for name in ("a021", "a023")},
    "a024": {"n": "new_hidden_states_j.shape[1]"},
    "a030": {"n": "a[0].shape[2]"},
    "a031": {"n": "x.shape[0]"},
    "a035": {"n": "images.shape[0]"},
    "a078": {f"d{dim}": f"x.shape[{dim}]" for dim in range(4)},
    **{name: {"t": "x.shape[2]"} for name in ("g087", "g145", "g146")},
    "g088": {"t": "args[0].shape[2]"},
}

# Text -> (how many values fewer than the program allows the suggestion keeps, why).
FEWER: dict[str, tuple[int, str]] = dict.fromkeys(("g052", "g098", "g059", "g060", "g105", "g106"), (1, _NOT_ONE))

_CONSTANT = "torch traced a constant, and the text says nothing else; that a multiple of 2 would do needs the model"

# Text -> (the size that is declared static though the program takes others, why).
STATIC_BY_TORCH: dict[str, tuple[int, str]] = dict.fromkeys(
    ("g085", "g086", "g087", "g088", "g143", "g144", "g145", "g146"), (16, _CONSTANT)
)
