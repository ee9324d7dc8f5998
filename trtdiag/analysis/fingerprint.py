"""Digests that name a finding across exports of the same model."""

from __future__ import annotations

import hashlib
import re
from pathlib import PurePath

from trtdiag.analysis.finding import Place

# ``add_12`` and ``add`` are one op under two numberings; ``s77`` and ``s12`` one symbol.
_NODE_NUMBER = re.compile(r"(?<=[A-Za-z])(_[0-9]+)+\b")
_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?")


def fingerprint(rule_id: str, place: Place, told: str, repeat: int) -> str:
    """The digest of a finding, 32 hex digits, without line numbers, node numbers and folders.

    Args:
        rule_id: Of the rule.
        place: The finding's first place.
        told: Its message, or what the rule tells it by.
        repeat: How many findings before this one have all else equal.
    """
    frame = place.frame
    parts = (
        rule_id,
        "" if place.module_path is None else _NUMBER.sub("*", place.module_path),
        place.op or "",
        "" if frame is None else PurePath(frame.file.replace("\\", "/")).name,
        "" if frame is None else frame.function,
        _NUMBER.sub("#", _NODE_NUMBER.sub("", told)),
        str(repeat),
    )
    return hashlib.sha256("\0".join(parts).encode(errors="backslashreplace")).hexdigest()[:32]
