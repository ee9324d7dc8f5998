"""The public names of ``trtdiag`` from their signatures and docstrings."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import is_dataclass
from enum import Enum
from types import FunctionType, ModuleType
from typing import Any

from words import fenced, plain

import trtdiag
import trtdiag.converters
import trtdiag.testing

_SECTION = re.compile(r"^(Args|Attributes|Returns|Raises|Warns|Yields|Example):$")
_ENTRY = re.compile(r"^(?P<name>[*\w.]+)(?: \([^)]*\))?: (?P<text>.*)", re.DOTALL)
_WIDE = 96
_MODULES: dict[ModuleType, tuple[str, ...]] = {
    trtdiag.converters: tuple(trtdiag.converters.__all__),
    trtdiag.testing: ("check_converter", "CheckedConverter"),
}
"""Modules beside the front door, with the names that they offer."""


def pages() -> dict[str, str]:
    """The page by its place."""
    public = {name: _public(name) for name in sorted(trtdiag.__all__) if not name.startswith("__")}
    groups = {
        "Functions": {name: each for name, each in public.items() if not isinstance(each, type)},
        "Results": {name: each for name, each in public.items() if _is_result(each)},
        "Options": {name: each for name, each in public.items() if isinstance(each, type) and not _is_result(each)},
    }
    lines = [
        "# Python",
        "",
        "Functions, results and options are names of `trtdiag`; [errors](errors.md) have a page of their own. What",
        "converters of ops of one's own are written with, and checked, are names of `trtdiag.converters` and",
        "`trtdiag.testing`.",
        "",
    ]
    for title, entries in groups.items():
        lines += [f"## {title}", ""]
        for name, entry in entries.items():
            if not (isinstance(entry, type) and issubclass(entry, trtdiag.TrtdiagError)):
                lines += _entry(name, entry)
    for module, names in _MODULES.items():
        lines += [
            f"## {module.__name__} {{ #{module.__name__.replace('.', '-')} }}",
            "",
            *_text(inspect.getdoc(module)),
        ]
        for name in names:
            lines += _entry(name, getattr(module, name), module.__name__)
    return {"reference/python.md": "\n".join(lines) + "\n"}


def _public(name: str) -> Any:
    """What a name is; where a package has the name of a function, the function."""
    found = getattr(trtdiag, name)
    return trtdiag.__getattr__(name) if isinstance(found, ModuleType) else found


def _is_result(entry: Any) -> bool:
    is_option = getattr(entry, "__module__", "").endswith("options") or getattr(entry, "__name__", "").endswith(
        "Limits"
    )
    return isinstance(entry, type) and not is_option and not issubclass(entry, Warning)


def _entry(name: str, entry: Any, module: str = "trtdiag") -> Iterator[str]:
    yield f"### {name} {{ #{name} }}"
    yield ""
    if isinstance(entry, type):
        yield from _text(inspect.getdoc(entry))
        yield from _members(entry)
    else:
        yield fenced(_signature(f"{module}.{name}", entry), "python")
        yield ""
        yield from _text(inspect.getdoc(entry))


def _members(kind: type) -> Iterator[str]:
    """The public methods and properties that a class defines; of what converters write with, inherited ones too."""
    if issubclass(kind, Enum):
        of_network = kind.__module__.startswith("trtdiag.network")  # values there are formulas
        yield ", ".join(f"`{each.name if of_network else each.value}`" for each in kind)
        yield ""
    bases = [vars(base) for base in kind.__mro__ if base.__module__.startswith("trtdiag.convert")] or [vars(kind)]
    for name, member in (item for base in bases for item in base.items()):
        function = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
        if name.startswith("_") or not isinstance(function, (FunctionType, property)):
            continue
        doc = inspect.getdoc(function)
        if isinstance(function, property):
            yield f"#### {kind.__name__}.{name} {{ #{kind.__name__}.{name} }}"
            yield ""
        else:
            yield f"#### {kind.__name__}.{name}() {{ #{kind.__name__}.{name} }}"
            yield ""
            yield fenced(_signature(name, function), "python")
            yield ""
        yield from _text(doc)


def _signature(name: str, function: Any) -> str:
    """The signature, one parameter a line where it is long."""
    signature = inspect.signature(function)
    parts = []
    starred = False
    for parameter in signature.parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        parts.append(_unquoted(str(_with_short_default(parameter))))
    gives = (
        "" if signature.return_annotation is signature.empty else f" -> {_unquoted(str(signature.return_annotation))}"
    )
    line = f"{name}({', '.join(parts)}){gives}"
    return line if len(line) <= _WIDE else f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){gives}"


class _Shown:
    """A default value as a reader writes it."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _with_short_default(parameter: inspect.Parameter) -> inspect.Parameter:
    """Members of enums by their names, and options that are all at their defaults without them."""
    value = parameter.default
    if isinstance(value, Enum):
        return parameter.replace(default=_Shown(str(value)))
    if is_dataclass(value) and not isinstance(value, type) and value == type(value)():
        return parameter.replace(default=_Shown(f"{type(value).__name__}()"))
    return parameter


def _unquoted(text: str) -> str:
    """Annotations are kept as text: ``x: 'int' = 3`` is ``x: int = 3``."""
    return re.sub(r"(: |^)(['\"])(.*?)\2(?= = |$)", r"\1\3", text)


def _text(doc: str | None) -> Iterator[str]:
    """A docstring in Google's style as Markdown: its sections as lists."""
    heading: str | None = None
    part: list[str] = []
    for line in [*(doc or "").splitlines(), "Args:"]:
        match = _SECTION.match(line)
        if match is None:
            part.append(line)
            continue
        yield from _section(heading, textwrap.dedent("\n".join(part)).strip("\n"))
        heading, part = match[1], []


def _section(heading: str | None, text: str) -> Iterator[str]:
    if not text:
        return
    if heading is not None:
        yield f"**{heading}**"
        yield ""
    if heading in (None, "Returns", "Yields"):
        yield plain(text)
    elif heading == "Example":
        yield fenced(text, "python")
    else:
        for entry in re.split(r"\n(?=\S)", text):
            match = _ENTRY.match(" ".join(entry.split()))
            yield f"- `{match['name']}`: {plain(match['text'])}" if match else f"- {plain(entry)}"
    yield ""
