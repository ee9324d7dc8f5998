"""Converters that a test registers and that are gone behind it; packages that seem to be installed."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from trtdiag import converter_packages
from trtdiag.convert import registry

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "own_ops"


@contextmanager
def registered_apart() -> Iterator[None]:
    """What is registered in this block is forgotten at its end."""
    registry.converters()
    before = dict(registry._REGISTERED)
    try:
        yield
    finally:
        registry._REGISTERED.clear()
        registry._REGISTERED.update(before)
        registry._usable.cache_clear()
        converter_packages.packages.cache_clear()


def installed(site: Path, name: str, module: str, code: str | None = None) -> None:
    """Make a package with converters in a folder that stands for site-packages.

    Args:
        site: The folder.
        name: Of the package, as pip lists it.
        module: What its entry point names.
        code: Of that module; empty: it is there already; none: the package ``acme_ops`` of the examples.
    """
    about = site / f"{name.replace('-', '_')}-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[trtdiag.converters]\n{name} = {module}\n")
    if code is None:
        shutil.copytree(EXAMPLE / "acme_ops", site / "acme_ops")
    elif code:
        (site / f"{module}.py").write_text(code)


def as_installed(folder: Path) -> None:
    """Make the package of a folder on the path seem to be installed there, as its ``pyproject.toml`` says.

    Where packages have been loaded in this process its converters are imported at once.
    """
    about = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    ((name, module),) = about["entry-points"][converter_packages.GROUP].items()
    installed(folder, about["name"], module, "")
    assert name == about["name"]
    converter_packages.packages.cache_clear()
    import_module(module)
