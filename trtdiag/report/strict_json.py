"""JSON as text; from outside it is read strictly: what Python's parser lets through is refused with its place."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias, Union

from trtdiag.wording import one_line

Json: TypeAlias = Union[bool, int, float, str, list["Json"], dict[str, "Json"], None]

MOST_LEVELS = 100
"""Lists and objects inside each other; the deepest of a report are findings that cause findings."""
MOST_DIGITS = 300
"""Of a number before its point: a float has no room for more."""
_TOO_DEEP = f"is no JSON that is read here: it is nested deeper than {MOST_LEVELS} levels"
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SHOWN_CHARS = 60


def json_text(body: Json, *, compact: bool = False) -> str:
    """The value as JSON that is valid UTF-8: a lone surrogate is spelled out inside its string."""
    text = json.dumps(
        body, ensure_ascii=False, indent=None if compact else 1, separators=(",", ":") if compact else None
    )
    return _SURROGATE.sub(lambda found: f"\\\\u{ord(found[0]):04x}", text)


class JsonFault(Exception):  # noqa: N818 -- what is wrong with a text, not an error of the program
    """Something in a text that is no JSON, or not what was expected.

    Attributes:
        place: Where, ``findings[0].severity``; empty for the whole.
        said: What is there and what was expected, as a clause.
    """

    def __init__(self, place: str, said: str) -> None:
        super().__init__(f"{place or 'it'} {said}")
        self.place = place
        self.said = said


@dataclass(frozen=True)
class _Odd:
    """Stands where the text has something that Python reads and JSON does not have."""

    said: str


def parse_json(content: bytes) -> Json:
    """The value of a JSON text in UTF-8.

    Raises:
        JsonFault: It is no JSON; a key stands twice, a number is not finite or has more than ``MOST_DIGITS`` digits, a
            string has half a character, or something is nested deeper than ``MOST_LEVELS``.
    """
    try:
        text = content.decode("utf-8-sig")
        value = json.loads(
            text, object_pairs_hook=_object, parse_int=_integer, parse_float=_real, parse_constant=_constant
        )
    except UnicodeDecodeError as error:
        raise JsonFault("", f"is no JSON: byte {error.start:,} is not of UTF-8") from error
    except RecursionError as error:
        raise JsonFault("", _TOO_DEEP) from error
    except ValueError as error:
        raise JsonFault("", f"is no JSON: {error}") from error
    for place, said in _faults(value, 0):
        raise JsonFault(place.removeprefix("."), said)
    return value  # type: ignore[no-any-return]


def shown(value: Any) -> str:
    """A value for an error: itself where it is short, else what it is."""
    if isinstance(value, (list, dict)):
        return f"a list of {len(value):,}" if isinstance(value, list) else f"an object of {len(value):,} keys"
    return one_line(json.dumps(value), _SHOWN_CHARS)


def step(key: str) -> str:
    """A key as a step of a place: ``.name``, ``["odd name"]``."""
    return f".{key}" if _PLAIN_KEY.fullmatch(key) else f"[{shown(key)}]"


def _object(pairs: list[tuple[str, Any]]) -> Any:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    twice = next(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
    return _Odd(f"has the key {shown(twice)} twice")


def _integer(text: str) -> int | _Odd:
    digits = len(text.lstrip("-"))
    return int(text) if digits <= MOST_DIGITS else _Odd(f"is a number of {digits:,} digits, at most {MOST_DIGITS}")


def _real(text: str) -> float | _Odd:
    number = float(text)
    if abs(number) < float(f"1e{MOST_DIGITS}"):
        return number
    return _Odd(f"is {one_line(text, _SHOWN_CHARS)}, a number of more than {MOST_DIGITS} digits")


def _constant(text: str) -> _Odd:
    return _Odd(f"is {text}, which JSON does not have")


def _faults(value: Any, level: int) -> Iterator[tuple[str, str]]:
    """What is wrong below a value, with its place; the place is put together on the way back, from what is wrong."""
    kind = type(value)
    if kind is str:
        if _SURROGATE.search(value):
            yield "", "has half a character, a lone surrogate"
    elif kind is list or kind is dict:
        if level == MOST_LEVELS:
            yield "", _TOO_DEEP
            return
        for key, item in enumerate(value) if kind is list else value.items():
            if type(key) is str and not key.isascii() and _SURROGATE.search(key):
                yield "", f"has the key {shown(key)}: half a character, a lone surrogate"
            if type(item) in _FAULTY and not (type(item) is str and item.isascii()):
                for place, said in _faults(item, level + 1):
                    yield (step(key) if type(key) is str else f"[{key}]") + place, said
    elif kind is _Odd:
        yield "", value.said


_FAULTY = frozenset({str, list, dict, _Odd})
