"""Whose line a frame is: the user's, a model library's, or that of torch, Python, a launcher or this package."""

from __future__ import annotations

from pathlib import Path

import pytest

import trtdiag
from trtdiag.graph.source import Frame, Stack, parse_stack

OWN = Path(trtdiag.__file__).parent
USER = Frame("/home/a/model.py", 12, "forward", "return self.net(x)")
LIBRARY = Frame("/env/lib/python3.11/site-packages/timm/layers/pos.py", 7, "forward", "if n > 30:")
HEAD = Frame("/env/lib/python3.11/site-packages/timm/models/vit.py", 99, "forward", "x = self.pos(x)")
TORCH = Frame("/env/lib/python3.11/site-packages/torch/nn/modules/module.py", 1, "_call_impl")


@pytest.mark.parametrize(
    ("frame", "package"),
    [
        (Frame(str(OWN / "frontend" / "archive" / "read.py"), 224, "_build"), "trtdiag"),
        (Frame("/env/lib/python3.11/site-packages/trtdiag/frontend/archive/read.py", 224, "_build"), "trtdiag"),
        (Frame("/home/a/src/trtdiag/trtdiag/frontend/archive/read.py", 224, "_build"), "trtdiag"),
        (Frame("C:\\src\\trtdiag\\trtdiag\\frontend\\archive\\read.py", 224, "_build"), "trtdiag"),
        (Frame("/env/bin/trtdiag", 8, "<module>", "sys.exit(main())"), "python"),
        (Frame("C:\\env\\Scripts\\trtdiag.exe\\__main__.py", 7, "<module>", "sys.exit(main())"), "python"),
        (Frame("C:\\env\\Scripts\\trtdiag-script.py", 7, "<module>", "sys.exit(main())"), "python"),
        (Frame("/home/a/trtdiag/model.py", 3, "forward"), None),
        (Frame("/home/a/src/trtdiag/tests/test_model.py", 3, "forward"), None),
        (Frame("/home/a/bin/export.py", 3, "<module>"), None),
        (Frame("/home/a/bin/export", 3, "forward"), None),
        (LIBRARY, "timm"),
        (TORCH, "torch"),
    ],
    ids=lambda value: str(value)[-40:],
)
def test_whose_line_it_is(frame: Frame, package: str | None) -> None:
    assert frame.package == package


def test_best_is_the_users_line_with_the_librarys_inside() -> None:
    best = Stack((USER, TORCH, HEAD, TORCH, LIBRARY, TORCH)).best
    assert best == USER
    assert best is not None
    assert best.inside == LIBRARY
    assert LIBRARY.short == "timm/layers/pos.py:7"


def test_a_library_that_calls_the_user_is_not_inside_the_users_line() -> None:
    best = Stack((HEAD, TORCH, USER)).best
    assert best == USER
    assert best is not None
    assert best.inside is None


@pytest.mark.parametrize(
    "stack",
    [
        Stack((Frame(str(OWN / "cli" / "main.py"), 3, "main"), TORCH)),
        Stack((Frame("/env/bin/trtdiag", 8, "<module>", "sys.exit(main())"), TORCH)),
        parse_stack(
            f'File "{OWN / "frontend" / "archive" / "read.py"}", line 224, in _build\n    return deserialize(program)'
        ),
    ],
    ids=["command", "launcher", "archive"],
)
def test_nothing_of_this_package_is_anybodys_best_line(stack: Stack) -> None:
    assert stack.best is None


def test_a_librarys_line_is_best_where_no_user_is() -> None:
    assert Stack((HEAD, TORCH, LIBRARY, TORCH)).best == LIBRARY


def test_sympy_is_no_library_that_a_model_is_written_in() -> None:
    sympy = Frame("/env/lib/python3.11/site-packages/sympy/logic/boolalg.py", 249, "__lt__", "raise TypeError")
    best = Stack((USER, TORCH, sympy)).best
    assert best == USER
    assert best is not None
    assert best.inside is None


def test_a_folder_that_packages_were_installed_into_by_name_is_no_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by ``pip install --target``; a folder of the user's own says nothing of what was installed."""
    for name in ("target", "own"):
        (tmp_path / name / "models").mkdir(parents=True)
        monkeypatch.syspath_prepend(tmp_path / name)
    monkeypatch.syspath_prepend(tmp_path)  # the script's own folder comes first
    (tmp_path / "target" / "models-1.0.dist-info").mkdir()
    (tmp_path / "models-1.0.dist-info").mkdir()
    there, own = (Frame(str(tmp_path / name / "models" / "net.py"), 3, "forward") for name in ("target", "own"))
    assert (there.package, there.short) == ("models", "models/net.py:3")
    assert (own.package, own.short) == (None, str(own))
