"""Damage to real files: bytes as disks and editors damage them, and values as attackers would write them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

ODD: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, 2**63, 10**299, -(10**299), 1e299, "", "error", "x" * 5000, "</script><script>x</script>",
    "\x1b[31m\x00\u202e", "javascript:alert(1)", "\U0001f600", [], {}, [None], [[]], {"": {}}, {"min": 1, "max": {}},
)  # fmt: skip
# Put in as text, for Python cannot write them: what is read by Python's parser and is no JSON, and what none reads.
RAW = (
    "NaN",
    "-Infinity",
    "1e999",
    "9" * 5000,
    '"\\ud800"',
    '{"a":1,"a":2}',
    "[" * 400 + "]" * 400,
    "[" * 5000,
    "\\",
    "01",
    "",
)
_MARK = '"a place for a text that json does not write"'
_BITS = (
    b"\0",
    b"\xff",
    b'"',
    b"{",
    b"]",
    b",",
    b"\n",
    b"\xef\xbb\xbf",
    b"\xed\xa0\x80",
    b"%s",
    b"=",
    b"'",
    b"#",
    b"[[",
)


def damaged(content: bytes, luck: random.Random) -> bytes:
    """The content with up to three damages: a byte flipped, a piece cut, doubled, moved or put in, the end cut off."""
    whole = bytearray(content)
    for _ in range(luck.choice((1, 1, 2, 3))):
        at = luck.randrange(len(whole) + 1)
        end = min(len(whole), at + luck.choice((1, 2, 7, 60, 1000)))
        piece = whole[at:end]
        kind = luck.randrange(6)
        if kind == 0 and at < len(whole):
            whole[at] ^= 1 << luck.randrange(8)
        elif kind == 1:
            del whole[at:end]
        elif kind == 2:
            whole[at:at] = piece * luck.choice((1, 3, 50))
        elif kind == 3:
            other = luck.randrange(len(whole) + 1)
            whole[other:other] = piece
        elif kind == 4:
            whole[at:at] = luck.choice(_BITS) * luck.choice((1, 1, 300))
        elif kind == 5 and luck.random() < 0.3:
            del whole[at:]
    return bytes(whole)


def changed(body: Any, luck: random.Random) -> bytes:
    """The JSON with up to three values changed: to another kind, away, twice, to one from elsewhere in it."""
    whole = json.loads(json.dumps(body))
    raw = None
    for _ in range(luck.choice((1, 1, 2, 3))):
        places = list(_places(whole))
        holder, key = luck.choice(places)
        kind = luck.randrange(5)
        if kind == 0 and isinstance(holder, dict):
            del holder[key]
        elif kind == 1 and isinstance(holder, list):
            holder.insert(luck.randrange(len(holder) + 1), holder[key])
        elif kind == 2:
            other, name = luck.choice(places)
            if name in other if isinstance(other, dict) else name < len(other):
                holder[key] = json.loads(json.dumps(other[name]))
        elif kind == 3:
            holder[key], raw = json.loads(_MARK), luck.choice(RAW)
        else:
            holder[key] = luck.choice(ODD)
    text = json.dumps(whole)
    return (text if raw is None else text.replace(_MARK, raw, 1)).encode("utf-8", "surrogatepass")


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    for key, item in list(value.items() if isinstance(value, dict) else enumerate(value)):
        yield value, key
        if isinstance(item, (dict, list)):
            yield from _places(item)
