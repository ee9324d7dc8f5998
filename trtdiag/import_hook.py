"""Does something once a module has been imported, without importing it."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # typing takes longer than all else that `import trtdiag` does
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    Action = Callable[[], None]


def after_import(name: str, action: Action) -> None:
    """Call ``action`` now if the module ``name`` was imported, else at the end of its import."""
    if name in sys.modules:
        action()
    else:
        sys.meta_path.insert(0, _Watch(name, action))


class ModuleFinder:
    """Finds one module, by the other finders, and has a say in how it is run.

    Args:
        name: Of the module.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._searching = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find the module as the others do; ``None`` for every other module."""
        del path, target
        if fullname != self.name or self._searching:
            return None
        from importlib.util import find_spec

        self._searching = True
        try:
            spec = find_spec(fullname)
        finally:
            self._searching = False
        if spec is not None and spec.loader is not None:
            self.found(spec.loader)
        return spec

    def found(self, loader: Loader) -> None:
        """Change how the module is run: its ``exec_module``."""
        raise NotImplementedError


class FindersByName:
    """Asks the finders of a module and of its packages, where each would be asked for every module.

    Args:
        finders: By the module that each finds.
    """

    def __init__(self, finders: Mapping[str, ModuleFinder]) -> None:
        self._finders = finders

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """What the first of them finds."""
        name = fullname
        while name:
            finder = self._finders.get(name)
            spec = None if finder is None else finder.find_spec(fullname, path, target)
            if spec is not None:
                return spec
            name = name.rpartition(".")[0]
        return None


def loaded_spec(name: str) -> ModuleSpec | None:
    """What a finder gives for a module that was imported while it was looked for: it is not to be run again.

    ``None`` where it was not, so that it is found as usual.
    """
    module = sys.modules.get(name)
    if module is None:
        return None
    from importlib.machinery import ModuleSpec

    spec = ModuleSpec(name, _Loaded(module))  # type: ignore[arg-type]  # a loader by what it does
    module.__spec__ = spec  # the importer asks the module itself for it, and would run it again by its own
    return spec


class _Loaded:
    """Gives a module that was imported already."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._spec = module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        del spec
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec
        package, _, name = module.__name__.rpartition(".")
        parent = sys.modules.get(package)
        # Of its package it becomes an attribute next, in the place of a function of its name (sympy.simplify).
        if parent is not None and type(parent) is type(sys) and vars(parent).get(name, module) is not module:
            parent.__class__ = _kept(name)


def _kept(name: str) -> type[ModuleType]:
    """A package whose attribute of that name stays as it is, once."""

    class Kept(type(sys)):  # type: ignore[misc]  # a module's, without the import of types
        def __setattr__(self, changed: str, value: object) -> None:
            object.__setattr__(self, "__class__", type(sys))
            if changed != name:
                setattr(self, changed, value)

    return Kept


class _Watch(ModuleFinder):
    """Lets the loader act after it has run the module."""

    def __init__(self, name: str, action: Action) -> None:
        super().__init__(name)
        self._action = action

    def found(self, loader: Loader) -> None:
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            # The module and its sources are read through its own loader, as if nobody had watched.
            loader.exec_module = execute  # type: ignore[method-assign]
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                self._action()

        loader.exec_module = exec_module  # type: ignore[method-assign]
