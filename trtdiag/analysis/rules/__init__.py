"""The rules, one small file each, in a folder per family."""

from __future__ import annotations

from collections.abc import Mapping

# An id is never used twice: a rule that goes is entered here with the reason and where its subject went.
RETIRED: Mapping[str, str] = {}
