"""Lets torch's reader of graphs parse each text of a size once.

It parses one wherever it stands, about a millisecond each, half of the time that a transformer takes to read: sympy
looks up all its names for every text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from torch._export.serde import serialize

from trtdiag.frontend.archive.parse_srepr import parse_srepr

_PARSE = "_parse_sym_expr"


@contextmanager
def equal_sizes_parsed_once() -> Iterator[None]:
    """Within it, a text of a size with the same example gives the same expression of one reader again.

    What torch notes of a symbol while it parses (its range, its example) it notes the first time.  Whoever calls has
    torch's turn.  A torch whose reader is made otherwise is let alone.
    """
    kind: Any = serialize.GraphModuleDeserializer
    parse: Callable[..., Any] | None = vars(kind).get(_PARSE)
    if parse is None:
        yield
        return
    known: WeakKeyDictionary[Any, dict[tuple[object, ...], Any]] = WeakKeyDictionary()

    def parsed(reader: Any, text: Any, hint: Any = None) -> Any:
        if type(text) is not str:  # a part of an expression that is parsed
            return parse(reader, text, hint)
        expressions = known.setdefault(reader, {})
        key = (text, type(hint), hint)
        if key not in expressions:
            expressions[key] = parse(reader, parse_srepr(text, reader.sympy_functions), hint)
        return expressions[key]

    setattr(kind, _PARSE, parsed)
    try:
        yield
    finally:
        setattr(kind, _PARSE, parse)
