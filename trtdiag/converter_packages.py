"""Packages that bring converters for ops of their own: modules under the entry point group ``trtdiag.converters``.

They are imported once, when the first converter is asked for, or when a file calls an op that nobody registered.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module

GROUP = "trtdiag.converters"
OWN = "trtdiag"
"""The package of the converters that are built in."""


class ConverterWarning(UserWarning):
    """The converters of a package are not used.

    Attributes:
        package: The package, as it is installed.
        why: What its import raised, one clause.
    """

    def __init__(self, package: str, why: str) -> None:
        super().__init__(f"the converters of the package {package} are not used: {why}")
        self.package = package
        self.why = why


@dataclass(frozen=True)
class ConverterPackage:
    """An installed package with converters.

    Attributes:
        name: As it is installed.
        version: Of the package.
        module: Its module that registers them.
    """

    name: str
    version: str
    module: str


@lru_cache(maxsize=1)
def packages() -> tuple[ConverterPackage, ...]:
    """The installed packages with converters, by name; nothing of them is imported."""
    from importlib import metadata  # takes longer than all else of this file

    found = set()
    for entry in metadata.entry_points(group=GROUP):
        name, version = (entry.dist.name, entry.dist.version) if entry.dist is not None else (entry.name, "")
        found.add(ConverterPackage(name, version, entry.module))
    return tuple(sorted(found, key=lambda package: (package.name, package.module)))


class _Loading:
    """What was loaded, and what is being loaded now."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.begun = self.done = False
        self.now: str | None = None
        self.failed: dict[str, str] = {}


_loading = _Loading()


def load_packages() -> None:
    """Import the modules of all packages with converters, once; one whose import raises is told by ``failures``."""
    if _loading.done:
        return
    with _loading.lock:
        if _loading.begun:  # also where a module that is being imported asks for converters
            return
        _loading.begun = True
        for package in packages():
            if package.name in _loading.failed:
                continue
            with _named(package.name):
                try:
                    import_module(package.module)
                except (Exception, SystemExit) as error:
                    _loading.failed[package.name] = _said(error)
        _loading.done = True


def failures() -> tuple[ConverterWarning, ...]:
    """A warning for each package whose import raised, of those that were loaded."""
    return tuple(ConverterWarning(name, why) for name, why in _loading.failed.items())


def failed_packages() -> frozenset[str]:
    """The packages whose import raised: what they had registered by then is not used."""
    return frozenset(_loading.failed)


def package_of(module: str) -> str:
    """The package that a module of converters belongs to.

    The one that is being loaded, or the installed one whose converters have the same top-level module, or else that
    module: a script that registers converters has no package.
    """
    top = module.partition(".")[0]
    if top == OWN:
        return OWN
    if _loading.now is not None:
        return _loading.now
    return next((package.name for package in packages() if package.module.partition(".")[0] == top), top)


@contextmanager
def _named(package: str) -> Iterator[None]:
    _loading.now = package
    try:
        yield
    finally:
        _loading.now = None


def _said(error: BaseException) -> str:
    """The kind of an error and the first line of its text; of ours, which say why, that too."""
    text = " ".join(
        filter(None, (str(getattr(error, "message", error)).partition("\n")[0], getattr(error, "because", "")))
    )
    return f"its import raised {type(error).__name__}" + (f": {text}" if text else "")
