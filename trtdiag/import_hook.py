"""Does something once a module has been imported, without importing it."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # typing takes longer than all else that `import trtdiag` does
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
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
