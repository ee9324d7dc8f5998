"""Texts that cannot be read or compared in full, each with the reason."""

from __future__ import annotations

# Text -> (conditions that are named but not parsed, why).
UNPARSED: dict[str, tuple[list[str], str]] = {}

# Texts whose stated conditions are not all that the program needs -> why.
OTHER_THAN_TRUTH: dict[str, str] = {}
