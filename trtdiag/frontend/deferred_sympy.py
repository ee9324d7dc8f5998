"""Lets torch compute with sizes by the core of sympy; the rest is imported when something of it is asked for.

Torch imports all of sympy, a tenth of what a small file takes from command to page.  Sizes are symbols, sums, products
and comparisons, which are sympy's core; but that looks for some classes of the rest among its arguments, and finds
none before the rest is there.  So a few names stand for these until then; any other brings all of sympy, in the order
in which it imports itself.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from trtdiag.frontend.sympy_stand_ins import NAMES, ask_for_sets, know_numbers, stand_in
from trtdiag.import_hook import ModuleFinder, after_import, loaded_spec

_KNOWN = "1.14."
"""The release whose imports were looked at; another is imported as it is."""
_REST = "sympy.polys"
"""The first package of the rest that sympy imports."""
_PRINTING = "sympy.printing"
_PLAIN = {f"{_PRINTING}.{name}" for name in ("precedence", "printer", "str")}
_APART = {_PRINTING, *_PLAIN, "sympy.assumptions.wrapper"}
"""What the core or torch imports late, and what imports nothing of the rest."""
_ALONE = ("sympy.ntheory.multinomial", "sympy.polys.orderings", "sympy.polys.polyerrors")
"""The same, in a package that is of the rest."""
_LOADING = threading.RLock()


class _EnoughError(Exception):
    """The core was imported."""


class _Module(ModuleType):
    """A module of sympy of which little is there until somebody asks for more."""

    def __getattr__(self, name: str) -> Any:
        # Submodules become attributes when they are imported, and dunders are asked of modules that nobody uses.
        asked = not name.startswith("__") or name == "__all__"
        if _CORE.beginning or not asked or f"{self.__name__}.{name}" in _APART:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        _CORE.complete()
        if self.__name__ == _PRINTING:
            _PRINTERS.complete()
        return getattr(import_module(self.__name__), name)


class _Begun(ModuleFinder):
    """Runs a part of a module, and the whole when it is asked for."""

    _execute: Callable[[ModuleType], None] | None = None

    @property
    def begun(self) -> bool:
        """Whether the rest is still to come."""
        return self._execute is not None

    def complete(self) -> None:
        """Run the whole module, if a part of it was run."""
        with _LOADING:
            if self._execute is None:
                return
            execute, self._execute = self._execute, None
            module = sys.modules[self.name]
            module.__class__ = ModuleType
            self._run(lambda: execute(module))

    def _run(self, execute: Callable[[], None]) -> None:
        execute()


class _Core(_Begun):
    """Runs sympy up to its core."""

    beginning = False

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._undo: list[Callable[[], None]] = []
        self.then: list[Callable[[], None]] = []
        """What to do once the rest was run."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find sympy by the other finders; before a module of the rest, run that."""
        if self.beginning and fullname == _REST:
            raise _EnoughError
        if self.begun and fullname.startswith("sympy."):
            if fullname in _APART or fullname.startswith("sympy.core."):
                return None
            self.complete()
            return loaded_spec(fullname)
        return super().find_spec(fullname, path, target)

    def found(self, loader: Loader) -> None:
        """Run no more than the core."""
        execute = loader.exec_module

        def begin(module: ModuleType) -> None:
            module.__class__ = _Module
            self.beginning = True
            try:
                execute(module)
            except _EnoughError:
                self._execute = execute
            finally:
                self.beginning = False
            if not self.begun:
                module.__class__ = ModuleType
            elif str(vars(module).get("__version__")).startswith(_KNOWN):
                self._stand_in(Path(str(module.__file__)).parent)
            else:
                self.complete()

        loader.exec_module = begin  # type: ignore[method-assign]

    def _stand_in(self, root: Path) -> None:
        """Let the core do without the rest, as long as that is to come."""
        for name, names in NAMES.items():
            module = sys.modules[name] = _Module(name)
            for each in names:
                setattr(module, each, stand_in(name, each, self.complete))
        for name in _ALONE:
            spec = spec_from_file_location(name, root.joinpath(*name.split(".")[1:]).with_suffix(".py"))
            assert spec is not None
            assert spec.loader is not None
            sys.modules[name] = module_from_spec(spec)
            spec.loader.exec_module(sys.modules[name])
        import_module(_PRINTING)
        self._undo = [know_numbers(), ask_for_sets(self.complete)]

    def _run(self, execute: Callable[[], None]) -> None:
        if self._undo:
            for name in NAMES:
                sys.modules.pop(name)
            while self._undo:
                self._undo.pop()()
        execute()
        for name in _ALONE:
            package, _, last = name.rpartition(".")
            setattr(sys.modules[package], last, sys.modules[name])
        while self.then:
            self.then.pop(0)()


class _Printers(_Begun):
    """Brings the printer of plain text alone."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find the package by the other finders; before another printer, run it."""
        if self.begun and fullname.startswith(f"{_PRINTING}.") and fullname not in _PLAIN:
            self.complete()
            return loaded_spec(fullname)
        return super().find_spec(fullname, path, target) if _CORE.begun else None

    def found(self, loader: Loader) -> None:
        """Put off to run it."""
        execute = loader.exec_module

        def begin(module: ModuleType) -> None:
            module.__class__ = _Module
            self._execute = execute
            plain = import_module(f"{_PRINTING}.str")
            for name in ("StrPrinter", "sstr", "sstrrepr"):
                setattr(module, name, getattr(plain, name))

        loader.exec_module = begin  # type: ignore[method-assign]


class _Absent(type):
    """Of a class in the place of one that is not there yet, or of a module of such."""

    def __getattr__(cls, name: str) -> Any:
        return _Absent(name, (), {})


class _Names:
    """The names that sympy has already; of each other one, as long as the rest is to come, a class of nothing."""

    def __getattr__(self, name: str) -> Any:
        module = import_module("sympy")
        return _Absent(name, (), {}) if _CORE.begun and name not in vars(module) else getattr(module, name)


_CORE, _PRINTERS = _Core("sympy"), _Printers(_PRINTING)


def defer_sympy() -> None:
    """Let the rest of sympy be imported when something of it is used."""
    if "sympy" not in sys.modules:
        sys.meta_path[:0] = [_CORE, _PRINTERS]
        after_import("torch.utils._sympy.interp", _name_handlers)


def when_sympy_comes(action: Callable[[], None]) -> bool:
    """Do something once all of sympy was imported, if no more than its core was; else say ``False``."""
    if _CORE.begun:
        _CORE.then.append(action)
    return _CORE.begun


def _name_handlers() -> None:
    """Let torch find what computes the bounds of an expression by its class, among the classes that are there."""
    from torch.utils._sympy import interp

    if not _CORE.begun:
        return
    every: Any = interp.handlers
    interp.sympy = _Names()  # type: ignore[attr-defined]
    known = every.__wrapped__()
    interp.handlers = lambda: known if _CORE.begun else every()  # type: ignore[assignment]
