"""Imported first: torch's samples are in modules that import expecttest, and they use none of it."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from types import ModuleType
from unittest import TestCase

if find_spec("expecttest") is None:
    empty = ModuleType("expecttest")
    empty.TestCase = TestCase  # type: ignore[attr-defined]
    sys.modules["expecttest"] = empty
