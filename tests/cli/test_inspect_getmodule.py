"""A frame's module is found by its globals, and is the one that ``inspect`` finds by looking through all of them."""

from __future__ import annotations

import functools
import inspect
import json
import sys
from types import FrameType, ModuleType
from typing import Any

import pytest

from tests.harness.rows import each
from trtdiag.cli.inspect_getmodule import find_by_globals

SEARCH = inspect.getmodule


def here() -> FrameType:
    return sys._getframe()


def of_a_text() -> FrameType:
    """Code without a file, with this module's globals."""
    scope: dict[str, Any] = {"__name__": __name__, "sys": sys}
    exec("def made():\n    return sys._getframe()", scope)  # a text of this test
    return scope["made"]()  # type: ignore[no-any-return]


def of_another_file() -> FrameType:
    """Code of one file with the globals of another."""
    scope = {"__name__": "json", "sys": sys}
    exec(compile("def made():\n    return sys._getframe()", functools.__file__, "exec"), scope)
    return scope["made"]()  # type: ignore[no-any-return,operator]


def called_by_another() -> FrameType:
    """A frame of the standard library, which calls a function of this module."""
    return json.loads("{}", object_hook=lambda _: sys._getframe(1))  # type: ignore[no-any-return]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What all modules were looked through for."""
    looked: list[Any] = []

    def search(*given: Any) -> ModuleType | None:
        looked.append(given[0])
        return SEARCH(*given)

    monkeypatch.setattr(inspect, "getmodule", search)
    find_by_globals()
    return looked


@each("frame", [here(), called_by_another()])
def test_the_module_of_a_frame_is_found_without_a_search(frame: FrameType, asked: list[Any]) -> None:
    assert inspect.getmodule(frame) is SEARCH(frame) is not None
    assert asked == []


@each("thing", [of_a_text(), of_another_file(), functools.partial, json, here, 3])
def test_all_else_is_searched_as_ever(thing: Any, asked: list[Any]) -> None:
    asked.clear()
    assert inspect.getmodule(thing) is SEARCH(thing)
    assert asked[0] is thing
