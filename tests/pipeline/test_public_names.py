"""The public names: there whatever was imported before, seen by editors, and the same to people and type checkers."""

from __future__ import annotations

import ast
import inspect
import os
import shutil
import subprocess
import sys
import typing
import zipfile
from pathlib import Path
from typing import Any

import pytest

import trtdiag
from trtdiag import errors
from trtdiag.option_keywords import AnalyzeKeywords, CompileKeywords, option_names
from trtdiag.options import AnalyzeOptions, CompileOptions, PartitionOptions

ROOT = Path(__file__).resolve().parents[2]


def test_no_public_name_is_a_module() -> None:
    """A package or file of that name would take the name's place as soon as anything of it is imported."""
    own = {path.stem for path in Path(trtdiag.__file__).parent.iterdir()}
    assert not own & {*trtdiag.__all__} - {"__version__"}


@pytest.mark.parametrize("name", [name for name in trtdiag.__all__ if name != "__version__"])
def test_every_public_name_can_be_called(name: str) -> None:
    assert callable(getattr(trtdiag, name))


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'compiler'"):
        trtdiag.compiler  # noqa: B018  # the access is what is tested


def test_dir_has_the_public_names_before_any_is_used() -> None:
    code = (
        "import trtdiag, sys; "
        "public = {n for n in dir(trtdiag) if not n.startswith('__')} | {'__version__'}; "
        "assert set(trtdiag.__all__) == public; "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_type_checkers_and_python_find_the_same_names_in_the_same_places() -> None:
    tree = ast.parse(Path(trtdiag.__file__).read_text())
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    told = {
        alias.name: each.module
        for each in guarded.body
        if isinstance(each, ast.ImportFrom) and str(each.module).startswith("trtdiag")
        for alias in each.names
    }
    assert told == trtdiag._HOMES
    assert [*trtdiag.__all__] == sorted({*told, "__version__"})


def test_every_error_is_public() -> None:
    found = {
        name for name, value in vars(errors).items() if isinstance(value, type) and value.__module__ == errors.__name__
    }
    assert found <= set(trtdiag.__all__)


OPTIONS = ((trtdiag.analyze, AnalyzeOptions, AnalyzeKeywords), (trtdiag.compile, CompileOptions, CompileKeywords))


@pytest.mark.parametrize(("function", "kind", "keywords"), OPTIONS, ids=["analyze", "compile"])
def test_keywords_are_the_options(function: Any, kind: Any, keywords: Any) -> None:
    names = option_names(kind)
    takes = typing.get_type_hints(keywords)
    assert set(takes) == set(names)
    for each in (kind, PartitionOptions):
        holds = typing.get_type_hints(each)
        for name in holds:
            assert _members(holds[name]) <= _members(takes[name]), name


@pytest.mark.parametrize(("function", "kind", "keywords"), OPTIONS, ids=["analyze", "compile"])
def test_signatures_name_every_option(function: Any, kind: Any, keywords: Any) -> None:
    parameters = inspect.signature(function).parameters
    assert set(option_names(kind)) <= set(parameters)
    assert not any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    usual = {**vars(kind()), **vars(PartitionOptions())}
    assert all(parameters[name].default == usual[name] for name in option_names(kind))
    assert parameters["min_segment_ops"].annotation == "int"


def _members(kind: Any) -> set[str]:
    """The types of a union; of containers what they contain, of chosen texts that they are texts."""
    found: set[str] = set()
    for each in typing.get_args(kind) if _is_union(kind) else (kind,):
        origin = typing.get_origin(each)
        if origin is typing.Literal:
            found |= {type(value).__name__ for value in typing.get_args(each)}
        elif each is tuple or origin in (tuple, typing.Sequence) or getattr(origin, "__name__", "") == "Sequence":
            found.add("Sequence")
        else:
            found.add(getattr(origin or each, "__name__", str(each)))
    return found


def _is_union(kind: Any) -> bool:
    return typing.get_origin(kind) is typing.Union or type(kind).__name__ == "UnionType"


@pytest.mark.slow
def test_a_users_script_is_type_checked_against_the_installed_package(tmp_path: Path) -> None:
    """The package stands where pip puts it, where mypy reads the types of what has a ``py.typed``."""
    pytest.importorskip("mypy")
    shutil.copy(ROOT / "tests/pipeline/typed_calls.py", tmp_path / "script.py")
    site = tmp_path / "site-packages"
    shutil.copytree(ROOT / "trtdiag", site / "trtdiag", ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(ROOT / ".mypy_cache/user"), "script.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_the_wheel_says_that_it_has_types(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    for name in ("trtdiag", "reports"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--quiet", "-w", "out", "."]
    subprocess.run(command, cwd=tmp_path, check=True)
    (wheel,) = (tmp_path / "out").glob("trtdiag-*.whl")
    with zipfile.ZipFile(wheel) as found:
        names = set(found.namelist())
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "trtdiag").rglob("*.py")}
    assert modules | {"trtdiag/py.typed"} <= names


def test_the_package_says_that_it_has_types() -> None:
    assert (Path(trtdiag.__file__).parent / "py.typed").is_file()
