"""The rules about files and imports that hold over the whole tree, and that each check can fail."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

import networkx as nx
import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "trtdiag"

# Data moves down this list in a run, imports point up it: a package may import what stands above it, and itself.
ORDER = (
    "errors",
    "grouping",
    "wording",
    "timed_steps",
    "import_hook",
    "arguments",
    "asked_bounds",
    "asked_profiles",
    "options",
    "option_keywords",
    "option_warnings",
    "converter_packages",
    "files",
    "symbolic",
    "graph",
    "targets",
    "frontend",
    "lower",
    "calibration",
    "shapes",
    "dims",
    "fixdims",
    "dtypes",
    "network",
    "convert",
    "converters",
    "partition",
    "engine",
    "runtime",
    "artifact",
    "verification",
    "analysis",
    "report",
    "benchmark",
    "deployment",
    "pipeline",
    "testing",
    "fleet",
    "torch_backend",
    "pytest_plugin",
    PACKAGE,  # the front door, trtdiag/__init__.py
    "cli",
    "__main__",
)
APART = frozenset({("convert", "lower")})
"""What converts calls does not know who took the program apart before."""
NEEDS_NOTHING = f"{PACKAGE}.__version__"  # the front door imports the rest only when it is asked for
CHECKED_FOLDERS = (PACKAGE, "tests", "benchmarks", "examples")
MOST_LINES = 300
MOST_LINES_OF_TESTS = 400
"""Of benchmarks and examples, too: most of their lines are cases."""
BANNED_NAMES = frozenset({"utils", "helpers", "misc", "common", "manager", "handler", "process", "data", "info", "tmp"})
BANNED_WORDS_IN_FILE_NAMES = frozenset({"util", "utils", "helper", "helpers", "misc", "common"})
RELATIVE = re.compile(r"\bfrom[\s\\]*\.")
PLANTED = "tests/test_planted_faults.py"
"""It has such imports as text."""
FROM_PACKAGE = re.compile(r"\bfrom (trtdiag[\w.]*) import (?:\(([^)]*)\)|([\w ,]+))", re.ASCII)
MAY_USE_PRIVATE_TORCH = frozenset({"graph", "frontend", "lower", "shapes", "dims"})
MAY_USE_PRIVATE_CUDA = "trtdiag/engine/tensorrt/gpu.py"
MAY_USE_INDUCTOR = "trtdiag/engine/inductor/"
"""Its documented functions are in ``torch._inductor``."""
MAY_IMPORT_TENSORRT = "trtdiag/engine/tensorrt/"


def _files(root: Path, *folders: str) -> Iterator[tuple[str, Path]]:
    """Python files below the folders with their path from ``root``."""
    for folder in folders:
        for path in sorted((root / folder).rglob("*.py")):
            yield path.relative_to(root).as_posix(), path


def _trees(root: Path, *folders: str) -> Iterator[tuple[str, ast.Module]]:
    for name, path in _files(root, *folders):
        yield name, _parsed(path, path.stat().st_mtime_ns, name)


_LOOKED_AT = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.arg, ast.Name, ast.Attribute)


@lru_cache(maxsize=4096)
def _nodes(tree: ast.Module) -> tuple[ast.AST, ...]:
    """The nodes of a tree that checks look at, half of all."""
    return tuple(node for node in ast.walk(tree) if isinstance(node, _LOOKED_AT))


@lru_cache(maxsize=4096)
def _imports(tree: ast.Module) -> tuple[ast.AST, ...]:
    return tuple(node for node in _nodes(tree) if isinstance(node, (ast.Import, ast.ImportFrom)))


@pytest.fixture(scope="module", autouse=True)
def _trees_go() -> Iterator[None]:
    """A million objects that would be looked through for garbage as long as other tests run."""
    yield
    for kept in (_nodes, _imports, _parsed, _words):
        kept.cache_clear()


@lru_cache(maxsize=4096)
def _parsed(path: Path, _changed_ns: int, name: str) -> ast.Module:
    """A file's tree, which most checks read; of one that changed another."""
    return ast.parse(path.read_text(encoding="utf-8"), name)


@lru_cache(maxsize=4096)
def _words(path: Path, _changed_ns: int) -> frozenset[str]:
    """The words of a file, which many others import from."""
    return frozenset(re.findall(r"\w+", path.read_text(encoding="utf-8")))


def _unit(name: str) -> str:
    """The entry of ORDER that a file belongs to: ``trtdiag/dims/facts.py`` is of ``dims``."""
    first = name.split("/")[1].removesuffix(".py")
    return PACKAGE if first == "__init__" else first


def _imported(node: ast.AST) -> Iterator[str]:
    """Dotted names that an import statement may load; ``from a import b`` counts as ``a.b``."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imports_against_the_order(root: Path) -> list[str]:
    """Imports of a package that stands below the importing one, or apart from it, inside functions too."""
    faults = []
    for name, tree in _trees(root, PACKAGE):
        unit = _unit(name)
        if unit not in ORDER:
            faults.append(f"{name}: {unit} has no place in ORDER")
            continue
        for node in _imports(tree):
            for dotted in _imported(node):
                parts = dotted.split(".")
                if parts[0] != PACKAGE or dotted == NEEDS_NOTHING:
                    continue
                target = parts[1] if len(parts) > 1 and parts[1] in ORDER else PACKAGE
                if ORDER.index(target) > ORDER.index(unit) or (unit, target) in APART:
                    faults.append(f"{name}:{node.lineno}: {unit} imports {dotted}")  # type: ignore[attr-defined]
    return faults


def relative_imports(root: Path) -> list[str]:
    """Imports that begin with a dot."""
    return [
        f"{name}:{node.lineno}: relative import"
        for name, path in _files(root, *CHECKED_FOLDERS)
        if RELATIVE.search(path.read_text(encoding="utf-8"))  # few files have such words, and none has the import
        for node in ast.walk(_parsed(path, path.stat().st_mtime_ns, name))
        if isinstance(node, ast.ImportFrom) and node.level
    ]


def imports_of_nothing(root: Path) -> list[str]:
    """Imports of modules or names that the package has not, those in code that is a text included."""
    modules = {
        name.removesuffix(".py").removesuffix("/__init__").replace("/", "."): path
        for name, path in _files(root, PACKAGE)
    }
    faults = []
    for name, path in _files(root, *CHECKED_FOLDERS):
        if name == PLANTED:
            continue
        for found in FROM_PACKAGE.finditer(path.read_text(encoding="utf-8")):
            source = modules.get(found[1])
            words = frozenset() if source is None else _words(source, source.stat().st_mtime_ns)
            told = re.sub(r"#.*", "", found[2] or found[3])
            for alias in re.findall(r"(\w+)(?: as \w+)?", told):
                if alias not in words and f"{found[1]}.{alias}" not in modules:
                    faults.append(f"{name}: imports {found[1]}.{alias}")
    return faults


def long_files(root: Path) -> list[str]:
    """Files of more lines than MOST_LINES and MOST_LINES_OF_TESTS: they have two subjects."""
    faults = []
    for name, path in _files(root, *CHECKED_FOLDERS):
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines > (MOST_LINES if name.startswith(f"{PACKAGE}/") else MOST_LINES_OF_TESTS):
            faults.append(f"{name}: {lines} lines")
    return faults


def twice_named_files(root: Path) -> list[str]:
    """Files of tests that are called alike: pytest imports one, and takes it for the other."""
    first: dict[str, str] = {}
    faults = []
    for name, path in _files(root, "tests"):
        if path.name.startswith("test_") and first.setdefault(path.name, name) != name:
            faults.append(f"{name}: {first[path.name]} has the same name")
    return faults


def banned_file_names(root: Path) -> list[str]:
    """Files and folders whose name says nothing about their subject."""
    faults = []
    for name, _ in _files(root, *CHECKED_FOLDERS):
        for part in name.removesuffix(".py").split("/"):
            if part in BANNED_NAMES or BANNED_WORDS_IN_FILE_NAMES & set(part.split("_")):
                faults.append(f"{name}: {part} is no name")
    return faults


def banned_identifiers(root: Path) -> list[str]:
    """Functions, classes, arguments and variables with a banned name."""
    faults = []
    for name, tree in _trees(root, PACKAGE):
        for node in _nodes(tree):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                given, line = node.name, node.lineno
            elif isinstance(node, ast.arg):
                given, line = node.arg, node.lineno
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                given, line = node.id, node.lineno
            else:
                continue
            # A constant such as Severity.INFO is a word of its own subject.
            if not given.isupper() and given.lower() in BANNED_NAMES:
                faults.append(f"{name}:{line}: {given} is no name")
    return faults


def _at_import(tree: ast.Module) -> Iterator[ast.AST]:
    """Statements that run when the module is imported: everything outside function bodies."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for part in ("body", "orelse", "finalbody", "handlers", "cases"):
                waiting.extend(getattr(node, part, ()))


def _under_type_checking(tree: ast.Module) -> set[ast.AST]:
    """Nodes that only type checkers read."""
    guards = (node for node in _at_import(tree) if isinstance(node, ast.If))
    guarded = (node for node in guards if _dotted(node.test).split(".")[-1] == "TYPE_CHECKING")
    return {inner for node in guarded for statement in node.body for inner in ast.walk(statement)}


def import_circles(root: Path) -> list[str]:
    """Modules whose imports, as they are loaded, lead back to them."""
    paths = {
        name.removesuffix(".py").removesuffix("/__init__").replace("/", "."): name for name, _ in _files(root, PACKAGE)
    }
    imports = nx.DiGraph()
    for name, tree in _trees(root, PACKAGE):
        module = name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        typed = _under_type_checking(tree)
        for dotted in (dotted for node in _at_import(tree) if node not in typed for dotted in _imported(node)):
            target = dotted if dotted in paths else dotted.rpartition(".")[0]
            if target in paths and target != module:
                imports.add_edge(module, target)
    circles = (sorted(circle) for circle in nx.strongly_connected_components(imports) if len(circle) > 1)
    return [f"{paths[circle[0]]}: imports itself through {', '.join(circle[1:])}" for circle in sorted(circles)]


def eager_tensorrt_imports(root: Path) -> list[str]:
    """Imports of tensorrt that run at import time outside the one package that needs it."""
    return [
        f"{name}:{node.lineno}: imports tensorrt"  # type: ignore[attr-defined]
        for name, tree in _trees(root, PACKAGE)
        if not name.startswith(MAY_IMPORT_TENSORRT)
        for node in _at_import(tree)
        if any(dotted.split(".")[0] == "tensorrt" for dotted in _imported(node))
    ]


def _dotted(node: ast.AST) -> str:
    """``torch._C.foo`` of an attribute chain, empty for anything else."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join(reversed([*parts, node.id])) if isinstance(node, ast.Name) else ""


def private_torch(root: Path) -> list[str]:
    """Private names of torch outside the packages that may touch them."""
    faults = []
    for name, tree in _trees(root, PACKAGE):
        if _unit(name) in MAY_USE_PRIVATE_TORCH or name == MAY_USE_PRIVATE_CUDA or name.startswith(MAY_USE_INDUCTOR):
            continue
        for node in _nodes(tree):
            for dotted in (*_imported(node), _dotted(node)):
                parts = dotted.split(".")
                if parts[0] == "torch" and any(p.startswith("_") and not p.endswith("__") for p in parts[1:]):
                    faults.append(f"{name}:{node.lineno}: uses {dotted}")  # type: ignore[attr-defined]
    return sorted(set(faults))


Check = Callable[[Path], list[str]]
CHECKS: tuple[Check, ...] = (
    imports_against_the_order,
    relative_imports,
    imports_of_nothing,
    long_files,
    twice_named_files,
    banned_file_names,
    banned_identifiers,
    import_circles,
    eager_tensorrt_imports,
    private_torch,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_tree_holds(check: Check) -> None:
    assert check(ROOT) == []


def test_order_names_what_exists() -> None:
    units = {_unit(name) for name, _ in _files(ROOT, PACKAGE)}
    assert units <= set(ORDER)
