"""JSON of an archive to torch's schema classes, strictly typed.

torch's own ``_dict_to_dataclass`` takes a text where an int is declared and looks the type hints up again for every
object, which is 40 % of the time of ``torch.export.load``.  This reader builds the same objects, refuses values of
another type, and calls a check on every object of chosen classes, so that nothing is walked twice.
"""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from torch._export.serde import schema
from torch._export.serde.union import _Union

Reader = Callable[[Any], Any]
Check = Callable[[Any], None]
_WRITTEN_FLOATS = {"Infinity": float("inf"), "-Infinity": float("-inf"), "NaN": float("nan")}


class MismatchError(Exception):
    """A value that the schema does not allow.

    Attributes:
        unknown_tag: Whether a union has a member that this torch does not know, as a newer one would write.
    """

    def __init__(self, reason: str, *, unknown_tag: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.unknown_tag = unknown_tag
        self._steps: list[str] = []

    def inside(self, step: str) -> MismatchError:
        """Notes one more step of the way to the value, from the inside out."""
        self._steps.append(step)
        return self

    def __str__(self) -> str:
        return f"{''.join(reversed(self._steps)).lstrip('.') or 'the whole'} {self.reason}"


class SchemaReader:
    """Reads parsed JSON into one schema class.

    Args:
        checks: What to call on every object of a class, right after it was built.
    """

    def __init__(self, checks: Mapping[type, Check]) -> None:
        self._checks = checks
        self._readers: dict[type, Reader] = {}

    def read(self, kind: type, value: object) -> Any:
        """An object of ``kind``; raises ``MismatchError`` where the JSON does not fit."""
        try:
            return self._reader(kind)(value)
        except RecursionError as error:
            raise MismatchError("is nested too deeply") from error

    def _reader(self, hint: Any) -> Reader:
        if isinstance(hint, str):  # Python 3.10 leaves names inside of ``list[...]``
            hint = getattr(schema, hint)
        origin, parts = typing.get_origin(hint), typing.get_args(hint)
        if origin in (list, dict):
            return _items_reader(origin, self._reader(parts[-1]))
        if origin in (typing.Union, types.UnionType):
            (inner,) = (one for one in parts if one is not type(None))
            return _optional_reader(self._reader(inner))
        if hint in _SCALARS:
            return _SCALARS[hint]
        if issubclass(hint, enum.IntEnum):
            return _enum_reader(hint)
        if hint not in self._readers:
            # Argument holds Graph, which holds Argument: the class is known before its fields are.
            readers: dict[str, Reader] = {}
            self._readers[hint] = _object_reader(hint, readers, self._checks.get(hint))
            hints = typing.get_type_hints(hint, globalns=vars(schema))
            readers.update({field.name: self._reader(hints[field.name]) for field in dataclasses.fields(hint)})
        return self._readers[hint]


def _object_reader(kind: Any, readers: Mapping[str, Reader], check: Check | None) -> Reader:
    """Of a dataclass, or of a union, which has exactly one member."""
    union = issubclass(kind, _Union)
    form = "have exactly one member" if union else "be an object"
    make = _maker(kind) if union else kind
    required = [
        field.name
        for field in dataclasses.fields(kind)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING and not union
    ]

    def read(value: Any) -> Any:
        if type(value) is not dict or (union and len(value) != 1):
            raise MismatchError(f"is {_shown(value)} and should {form} ({kind.__name__})")
        arguments = {}
        for name, content in value.items():
            if name in readers:
                try:
                    arguments[name] = readers[name](content)
                except MismatchError as error:
                    raise error.inside(f".{name}") from error.__cause__
            elif union:
                raise MismatchError(
                    f"is of the kind {str(name)[:60]!r}, which {kind.__name__} does not have", unknown_tag=True
                )
            # Other keys that this torch does not know are left out, as torch does for files of a newer minor version.
        for name in required:
            if name not in arguments:
                raise MismatchError(f"lacks {name!r}")
        built = make(**arguments)
        if check is not None:
            check(built)
        return built

    return read


def _maker(kind: Any) -> Callable[..., Any]:
    """Makes a union of one member; torch's own way asks a dataclass for its fields twice for each object."""
    made: dict[str, dict[str, Any]] = {}

    def make(**member: Any) -> Any:
        (name,) = member
        if name not in made:
            made[name] = dict(vars(kind.create(**member)))
        built = kind.__new__(kind)
        vars(built).update(made[name] | member)
        return built

    return make


def _items_reader(kind: type, reader: Reader) -> Reader:
    pairs: Callable[[Any], Any] = dict.items if kind is dict else enumerate

    def read(value: Any) -> Any:
        if type(value) is not kind:
            raise MismatchError(f"is {_shown(value)} and should be {'a list' if kind is list else 'an object'}")
        built: dict[Any, Any] = {}
        for key, element in pairs(value):
            try:
                built[key] = reader(element)
            except MismatchError as error:
                place = key[:60] if kind is dict else key
                raise error.inside(f"[{place!r}]") from error.__cause__
        return built if kind is dict else [*built.values()]

    return read


def _optional_reader(reader: Reader) -> Reader:
    return lambda value: None if value is None else reader(value)


def _enum_reader(kind: type[enum.IntEnum]) -> Reader:
    members = {member.value: member for member in kind}

    def read(value: Any) -> Any:
        if type(value) is not int:
            raise MismatchError(f"is {_shown(value)} and should be a number ({kind.__name__})")
        if value not in members:
            raise MismatchError(f"is {value}, which {kind.__name__} does not have", unknown_tag=True)
        return members[value]

    return read


def _exactly(kind: type, name: str) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is not kind:
            raise MismatchError(f"is {_shown(value)} and should be {name}")
        return value

    return read


def _float(value: Any) -> float:
    if type(value) in (int, float):
        try:
            return float(value)
        except OverflowError as error:
            raise MismatchError("is too large for a float") from error
    if isinstance(value, str) and value in _WRITTEN_FLOATS:
        return _WRITTEN_FLOATS[value]
    raise MismatchError(f"is {_shown(value)} and should be a number")


def _shown(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    return repr(value)[:60]


_SCALARS: dict[Any, Reader] = {
    int: _exactly(int, "a whole number"),
    bool: _exactly(bool, "true or false"),
    str: _exactly(str, "a text"),
    float: _float,
}
