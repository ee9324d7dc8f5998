"""Notes where a model asks of a size, while it is exported, what torch answers without a guard, or with another one.

The text of a size is that of a symbol then, a size is no ``int``, and what a model does where it is not exported is in
no program: what the model makes of such an answer shows in no condition, at no size.  Floats that are made of sizes are
expressions of sympy, which joins factors and sums that Python rounds one after the other: ``n * 0.1 + n * 0.2 == n *
0.3`` is no guard at all.
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from functools import lru_cache
from math import frexp, isfinite
from pathlib import Path
from types import FrameType, FunctionType, ModuleType
from typing import Any, NamedTuple

import torch

from trtdiag.frontend.guard_stacks import python_stack
from trtdiag.frontend.logging_statements import only_tells
from trtdiag.frontend.program import SizeEscape
from trtdiag.graph.source import Frame, source_text, syntax_nodes
from trtdiag.symbolic.float_factors import inexact

TEXT = "makes text of a size"
KIND = "asks whether a size is an int"
LOOKUP = "looks a size up, and goes on where torch has none"
SIGN = "raises a negative number to a size"
EXPORT = "asks whether it is exported"
TENS = "rounds a size to tens"
FLOAT = "decides by floats of sizes that Python rounds more than once"
_NUMBERS: dict[type, Any] = {torch.SymInt: 2, torch.SymFloat: 0.5, torch.SymBool: True}
"""What stands in the place of each while nothing is exported."""
_ASKS_EXPORT = {name: getattr(torch.compiler, name) for name in ("is_exporting", "is_compiling")}
_MADE = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "sym_max", "sym_min", "neg", "abs")
_ROUNDED = ("floor", "ceil", "trunc", "round", "int")
_COMPARED = ("eq", "ne", "lt", "le", "gt", "ge")
_THROUGH = re.compile(r"/torch/(__init__|overrides|fx/experimental/\w+|_export/non_strict_utils)\.py$")
"""Where torch's own functions of sizes stand, as ``torch.sym_int``, and what an export has between them."""
_TYPE_CALL = re.compile(r"(?<![\w.])type\(")
_INSTALLED = (str(Path(torch.__file__).parents[1]), str(Path(ast.__file__).parent))


class _Floats(NamedTuple):
    """What is known of how a float was made of sizes.

    Attributes:
        rounded: It was, once at least.
        factor: A number that is no small fraction has a part in it, as 0.1 has.
        joined: sympy may have made one step of several that round.
    """

    rounded: bool = False
    factor: bool = False
    joined: bool = False


class _Watch:
    """Takes the place of methods of sizes, and notes who calls them."""

    def __init__(self) -> None:
        self.noted: dict[tuple[str, int, str], SizeEscape] = {}

    def note(self, how: str, frame: FrameType) -> None:
        asking = _asking(frame, through=how == FLOAT)
        if asking is not None and not (how in (TEXT, EXPORT) and only_tells(asking)):
            key = (asking.f_code.co_filename, asking.f_lineno, how)
            if key not in self.noted:
                self.noted[key] = SizeEscape(how, python_stack(asking))

    def text(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        def text(value: Any, **options: Any) -> Any:
            self.note(TEXT, sys._getframe(1))
            return plain(value, **options)

        return text

    def kind(self, value: Any, kinds: Any) -> bool:
        answer = builtins.isinstance(value, kinds)
        if type(value) in _NUMBERS and builtins.isinstance(_NUMBERS[type(value)], kinds) is not answer:
            self.note(KIND, sys._getframe(1))
        return answer

    def type_of(self, *given: Any, **named: Any) -> Any:
        if len(given) == 1 and type(given[0]) in _NUMBERS:
            self.note(KIND, sys._getframe(1))
        return type(*given, **named)

    def export(self, plain: Callable[[], bool]) -> Callable[[], bool]:
        def asked() -> bool:
            frame = sys._getframe(1)
            if (answer := plain()) and Frame(frame.f_code.co_filename, 0).package is None:
                self.note(EXPORT, frame)
            return answer

        return asked

    def looked_up(self, plain: Callable[..., int]) -> Callable[..., int]:
        def looked_up(value: Any) -> int:
            try:
                return plain(value)
            except TypeError:
                self.note(LOOKUP, sys._getframe(1))
                raise

        return looked_up

    def made(self, name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
        def made(*values: Any) -> Any:
            if name == "rpow" and values[1] < 0:
                self.note(SIGN, sys._getframe(1))
            result = plain(*values)
            if type(result) is torch.SymFloat:
                result.trtdiag_floats = _joined(name, values)  # type: ignore[attr-defined]  # ours alone
            return result

        return made

    def rounded(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        def rounded(value: Any, *digits: Any) -> Any:
            if _floats(value).joined:
                self.note(FLOAT, sys._getframe(1))
            return plain(value, *digits)

        return rounded

    def to_tens(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        def rounded(value: Any, digits: Any = None) -> Any:
            if isinstance(digits, int) and digits < 0:
                self.note(TENS, sys._getframe(1))
            return plain(value, digits)

        return rounded

    def compared(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        def compared(left: Any, right: Any) -> Any:
            one, other = _floats(left), _floats(right)
            two = type(right) is torch.SymFloat and one.rounded and other.rounded and (one.factor or other.factor)
            if one.joined or other.joined or two:
                self.note(FLOAT, sys._getframe(1))
            return plain(left, right)

        return compared

    def methods(self) -> Iterator[tuple[Any, str, Any]]:
        """Each class and name with what takes the place of its method."""
        for name, plain in _ASKS_EXPORT.items():
            yield torch.compiler, name, self.export(plain)
        for kind in (*_NUMBERS, torch.Tensor):
            yield kind, "__repr__", self.text(kind.__repr__)
        for kind in (torch.SymInt, torch.SymFloat):
            for name in (*_MADE, *(f"r{name}" for name in _MADE)):
                if hasattr(kind, f"__{name}__"):
                    yield kind, f"__{name}__", self.made(name, getattr(kind, f"__{name}__"))
        yield torch.SymInt, "__hash__", self.looked_up(torch.SymInt.__hash__)
        yield torch.SymInt, "__round__", self.to_tens(torch.SymInt.__round__)
        for names, watched in ((_COMPARED, self.compared), (_ROUNDED, self.rounded)):
            for name in [each for each in names if hasattr(torch.SymFloat, f"__{each}__")]:
                yield torch.SymFloat, f"__{name}__", watched(getattr(torch.SymFloat, f"__{name}__"))

    def globals(self, names: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        """What takes the place of which global of a module, or of which builtin there."""
        if "isinstance" not in names:
            yield "isinstance", self.kind
        if "type" not in names and _calls_type_alone(names["__file__"]):
            yield "type", self.type_of
        for name, value in list(names.items()):
            if isinstance(value, FunctionType) and value in _ASKS_EXPORT.values():
                yield name, self.export(value)


@contextmanager
def noting_escapes() -> Iterator[list[SizeEscape]]:
    """Note each line outside torch that makes text of a size, asks what kind it is of, or decides by such floats.

    Text in a statement that only tells people of it, and in one that raises, does not count.  Kinds are noted of lines
    in files that belong to no installed package.
    """
    watch, escapes = _Watch(), list[SizeEscape]()
    methods = list(watch.methods())
    globals_ = [(names, *each) for names in _own_modules() for each in watch.globals(names)]
    plain = [(kind, name, getattr(kind, name)) for kind, name, _method in methods]
    before = [(names, name, names.get(name)) for names, name, _value in globals_]
    try:
        for kind, name, method in methods:
            setattr(kind, name, method)
        for names, name, value in globals_:
            names[name] = value
        yield escapes
    finally:
        for kind, name, method in plain:
            setattr(kind, name, method)
        for names, name, value in before:
            if value is None:
                names.pop(name, None)
            else:
                names[name] = value
        escapes.extend(watch.noted.values())


def _floats(value: Any) -> _Floats:
    if type(value) is float:
        return _Floats(factor=isfinite(value) and inexact(Fraction(value)))
    return getattr(value, "trtdiag_floats", _Floats()) if type(value) is torch.SymFloat else _Floats()


def _scales(value: Any) -> bool:
    return type(value) in (int, float) and frexp(value)[0] not in (0.5, -0.5)


def _joined(name: str, values: Sequence[Any]) -> _Floats:
    """How the result of one step was made."""
    parts = list(map(_floats, values))
    rounded, factor, joined = (any(part) for part in zip(*parts, strict=True))
    # Numbers beside a factor: sympy makes one of 0.1 and 3, and floats times a power of 2 are exact.
    scaled = factor and all(part.factor or _scales(value) for part, value in zip(parts, values, strict=True))
    match name.removeprefix("r"):
        case "add" | "sub":
            return _Floats(rounded or factor, factor, joined or rounded)
        case "mul":
            return _Floats(rounded or factor, factor, joined or scaled)
        case "truediv":
            below = values[0] if name == "rtruediv" else values[1]
            exact = type(below) in (int, float) and not _scales(below)
            return _Floats(rounded or factor or not exact, factor, joined or scaled)
        case "pow":
            return _Floats(True, False, joined or factor)
        case "floordiv" | "mod":  # torch's are not Python's: 11.0 // 1.1 is 9.0, and (n / 2) % 1 is 0 to sympy
            return _Floats(True, factor, True)
        case _:
            return _Floats(rounded, factor, joined)


def _own_modules() -> list[dict[str, Any]]:
    """The globals of modules that belong to no installed package."""
    own = [module.__dict__ for module in list(sys.modules.values()) if isinstance(module, ModuleType)]
    return [
        names
        for names in own
        if isinstance(file := names.get("__file__"), str)  # asked of a module it may import another
        and not file.startswith(_INSTALLED)
        and Frame(file, 0).package is None
    ]


def _asking(frame: FrameType | None, *, through: bool) -> FrameType | None:
    """The frame that asks, outside Python's own modules and NumPy; ``None`` where it is one of torch's.

    ``through`` goes on behind torch's functions of sizes.
    """
    while frame is not None:
        if through and _THROUGH.search(frame.f_code.co_filename):
            frame = frame.f_back
            continue
        here = Frame(frame.f_code.co_filename, 0)
        if here.package not in ("python", "numpy"):
            return None if here.is_plumbing else frame
        frame = frame.f_back
    return None


@lru_cache(maxsize=1024)
def _calls_type_alone(file: str) -> bool:
    """Whether a file names ``type`` to call it, and nowhere as the class that it is."""
    if not _TYPE_CALL.search(source_text(file)):
        return False
    nodes = syntax_nodes(file)
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    return all(id(node) in called for node in nodes if isinstance(node, ast.Name) and node.id == "type")
