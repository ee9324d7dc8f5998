"""Live cases with guards that are named but not read, or with other sizes than measured; each with the reason."""

from __future__ import annotations

# Case -> (guards that are named but not read, why).
UNREAD: dict[str, tuple[list[str], str]] = {}

# Case -> (dims -> what was found for what was measured, why).
OTHER_THAN_MEASURED: dict[str, tuple[dict[str, str], str]] = {
    "hf_bert_sep_mask": (
        {"b": "2 for 64", "b2": "63 for 64"},
        "measured on shapes; on data the mask's rows are looked up by sequence: with fewer, IndexError, so b <= b2",
    ),
}
