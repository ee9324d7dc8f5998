"""The converters by op.  A converter's docstring begins with the schema of its op, which is what it is found by."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias, TypeVar, Union

from trtdiag.convert import ops as _ops
from trtdiag.graph.operators import OpOverload, target_name
from trtdiag.network.value import Value

if TYPE_CHECKING:
    from trtdiag.convert.call import Call

Result: TypeAlias = Union[Value, Sequence[Union[Value, None]]]
Convert = Callable[["Call"], Result]
_F = TypeVar("_F", bound=Convert)

_PARAGRAPHS = re.compile(r"\n\s*\n")
_NEXT_SCHEMA = re.compile(r"\n\s*(?=\w+::)")
_SCHEMA = re.compile(r"(?P<namespace>\w+)::(?P<name>\w+)(?:\.(?P<overload>\w+))?\(")


@dataclass(frozen=True)
class Converter:
    """Writes one op as layers.

    Attributes:
        op: The op as one writes it: ``aten.softmax.int``.
        schema: Its schema, as torch prints it.
        family: The module that holds the converter.
        run: Writes the layers and returns the outputs; raises ``Refused`` where it cannot.
        notes: The paragraph below the schemas of its docstring: what differs, what is refused.
    """

    op: str
    schema: str
    family: str
    run: Convert
    notes: str = ""


_REGISTERED: dict[str, Converter] = {}


def converter(function: _F) -> _F:
    """Register a function by the schemas in its docstring; a paragraph behind some of them is what is said of these."""
    waiting: list[str] = []
    for paragraph in [*_PARAGRAPHS.split((function.__doc__ or "").strip()), ""]:
        words = " ".join(paragraph.split())
        if _SCHEMA.match(words):
            waiting += [" ".join(schema.split()) for schema in _NEXT_SCHEMA.split(paragraph)]
            continue
        for schema in waiting:
            register(schema, function, words)
        waiting = []
    return function


def register(schema: str, run: Convert, notes: str = "") -> None:
    """Register ``run`` for the op of a schema.

    Raises:
        ValueError: The text is no schema, or the op has a converter.
    """
    match = _SCHEMA.match(schema)
    if match is None:
        raise ValueError(f"no schema: {schema!r}")
    op = f"{match['namespace']}.{match['name']}.{match['overload'] or 'default'}"
    if op in _REGISTERED:
        raise ValueError(f"{op} has a converter already, in {_REGISTERED[op].family}")
    family = run.__module__.rpartition(".")[2] if hasattr(run, "__module__") else ""
    _REGISTERED[op] = Converter(op, schema, family, run, notes)


@lru_cache(maxsize=1)
def converters() -> Mapping[str, Converter]:
    """Every converter by op, sorted; the files of ``convert/ops`` are read on the first call."""
    for found in sorted(module.name for module in pkgutil.iter_modules(_ops.__path__)):
        importlib.import_module(f"{_ops.__name__}.{found}")
    return dict(sorted(_REGISTERED.items()))


def converter_of(op: object) -> Converter | None:
    """The converter of an op, ``None`` where there is none."""
    return converters().get(target_name(op))


def has_converter(op: OpOverload) -> bool:
    """Whether lowering keeps the op whole."""
    return target_name(op) in converters()
