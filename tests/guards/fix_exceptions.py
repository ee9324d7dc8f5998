"""Live cases that no Dims solve, dims that can only be static, and what is accepted with its reason."""

from __future__ import annotations

# Case -> why no dynamic_shapes makes it export.  From the model and torch alone, whatever trtdiag manages.
UNSOLVABLE: dict[str, str] = {
    "nonzero_branch": "branches on the number of nonzero elements: the model needs a torch._check, no size helps",
}

# Case -> asked name -> why no declaration makes the dim dynamic.
TRULY_STATIC: dict[str, dict[str, str]] = {
    "pos_add_full_table": {"t": "added to a table of 64 positions: only 64 fits (1 would broadcast the tokens)"},
}

# Case -> asked names, joined -> what the best single Dim keeps, where measured.json cannot tell its values.
BEST: dict[str, dict[str, tuple[int, str]]] = {}
