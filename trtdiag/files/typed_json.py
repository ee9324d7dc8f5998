"""Dataclasses as JSON values and back, by the types of their fields: a text can say only what a field may hold."""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from typing import Any, Union, get_args, get_origin, get_type_hints

Form = tuple[Callable[[Any], Any], Callable[[Any], Any]]
"""How a value of one type is written, and how one is read; reading raises ValueError for what is none."""


class JsonTypeError(ValueError):
    """A JSON value is none that the type can hold."""


class TypedJson:
    """Forms of types: each is put together once.

    Args:
        forms: Types that are written in a way of their own.
        rows: Dataclasses that are lists of some of their fields, in this order; others are objects.
        keys: What objects call fields that have another name there.
        added: Fields that texts of before do not have.
    """

    def __init__(
        self,
        forms: Mapping[Any, Form] | None = None,
        *,
        rows: Mapping[type, tuple[str, ...]] | None = None,
        keys: Mapping[type, Mapping[str, str]] | None = None,
        added: Mapping[type, Collection[str]] | None = None,
    ) -> None:
        self._forms: dict[Any, Form] = {**_PLAIN, **(forms or {})}
        self._rows, self._keys, self._added = rows or {}, keys or {}, added or {}

    def written(self, kind: Any, value: Any) -> Any:
        """A value of this type as JSON says it."""
        return self._form(kind)[0](value)

    def read(self, kind: Any, value: Any) -> Any:
        """The value of this type.

        Raises:
            JsonTypeError: There is another JSON value in its place, or in that of a part of it.
            KeyError: An object lacks a key.
        """
        return self._form(kind)[1](value)

    def _form(self, kind: Any) -> Form:
        if kind not in self._forms:
            self._forms[kind] = self._made(kind)
        return self._forms[kind]

    def _made(self, kind: Any) -> Form:
        origin, parts = get_origin(kind), get_args(kind)
        if origin in (Union, types.UnionType):
            return self._union(kind, parts)
        if origin is tuple:
            write, read = self._form(parts[0])
            return (
                lambda value: [write(item) for item in value],
                lambda value: tuple(read(item) for item in required(list, value)),
            )
        if origin is Mapping:
            write, read = self._form(parts[1])
            return (
                lambda value: {key: write(item) for key, item in value.items()},
                lambda value: {key: read(item) for key, item in required(dict, value).items()},
            )
        if is_dataclass(kind):
            return self._row(kind) if kind in self._rows else self._object(kind)
        assert issubclass(kind, Enum), f"{kind} has no form"
        return lambda value: value.name, lambda value: _member(kind, value)

    def _union(self, kind: Any, parts: tuple[Any, ...]) -> Form:
        """Written as the first member that it is one of, read as the first member that takes it."""
        plain = tuple(part for part in parts if part is not types.NoneType)
        if len(plain) < len(parts):
            write, read = self._form(Union[plain])
            return (
                lambda value: None if value is None else write(value),
                lambda value: None if value is None else read(value),
            )
        classes = [_NUMBERS if part is float else get_origin(part) or part for part in parts]
        members = [self._form(part) for part in parts]

        def written(value: Any) -> Any:
            return next(form[0](value) for form, own in zip(members, classes, strict=True) if isinstance(value, own))

        def found(value: Any) -> Any:
            for _, read in members:
                try:
                    return read(value)
                except JsonTypeError:
                    continue
            raise JsonTypeError(f"{value!r} is no {kind}")

        return written, found

    def _row(self, kind: Any) -> Form:
        names, hints = self._rows[kind], get_type_hints(kind)
        forms = [self._form(hints[name]) for name in names]
        fewest = sum(name not in self._added.get(kind, ()) for name in names)

        def found(value: Any) -> Any:
            if not fewest <= len(required(list, value)) <= len(names):
                raise JsonTypeError(f"{value!r} has {len(value)} entries, not {len(names)}")
            return kind(**{name: form[1](item) for name, form, item in zip(names, forms, value, strict=False)})

        return lambda value: [form[0](getattr(value, name)) for name, form in zip(names, forms, strict=True)], found

    def _object(self, kind: Any) -> Form:
        hints, keys, added = get_type_hints(kind), self._keys.get(kind, {}), self._added.get(kind, ())
        parts = [(each.name, keys.get(each.name, each.name), self._form(hints[each.name])) for each in fields(kind)]

        def found(value: Any) -> Any:
            there = required(dict, value)
            wanted = [part for part in parts if part[1] in there or part[0] not in added]
            return kind(**{name: form[1](there[key]) for name, key, form in wanted})

        return lambda value: {key: form[0](getattr(value, name)) for name, key, form in parts}, found


def required(kind: type, value: Any) -> Any:
    """The value, where it is of just this type."""
    if type(value) is not kind:
        raise JsonTypeError(f"{value!r} is {_WORDS[kind]}")
    return value


def _member(kind: type[Enum], value: Any) -> Enum:
    if value not in kind.__members__:
        raise JsonTypeError(f"{value!r} is no {kind.__name__}")
    return kind[value]


def _real(value: Any) -> float:
    return float(value if type(value) is int else required(float, value))


def _same(value: Any) -> Any:
    return value


_NUMBERS = (int, float)
_WORDS = {
    str: "no text",
    int: "no integer",
    float: "no number",
    bool: "neither true nor false",
    list: "no list",
    dict: "no object",
}
_PLAIN: Mapping[Any, Form] = {
    Any: (_same, _same),
    float: (_same, _real),
    **{kind: (_same, partial(required, kind)) for kind in (str, int, bool)},
}
