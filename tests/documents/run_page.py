"""Running a page: its files are written, its Python and its commands run, in a temporary folder and in order."""

from __future__ import annotations

import contextlib
import doctest
import io
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.documents.pages import ROOT, Block, Command, blocks, commands
from tests.documents.shown import missing
from tests.harness.own_converters import as_installed, registered_apart
from trtdiag.cli.main import main

RUN_ELSEWHERE = {
    "pip install .": "tests/documents/test_install.py",
    "make demo": "tests/documents/test_install.py",
    "make test": "what CI runs",
}
"""Commands that no temporary folder can run, and what runs them."""
OF_OTHERS = frozenset({"torch-tensorrt.md"})
"""Pages that show Python of other libraries beside ours, as ``py``: it is read, and not run."""
COLUMNS = 100
_OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Page:
    """The state that the blocks of one page share: a folder, names in Python.

    Args:
        path: The page.
        folder: An empty folder; the examples are copied into it.
    """

    def __init__(self, path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path, self.folder = path, folder
        self.names: dict[str, Any] = {"__name__": "__page__"}
        target = folder / "examples"
        target.mkdir()
        for example in (ROOT / "examples").glob("*.py"):
            (target / example.name).write_text(example.read_text(encoding="utf-8"), encoding="utf-8")
        monkeypatch.chdir(folder)
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.setenv("PYTHONPATH", f"{folder}:{ROOT}")
        monkeypatch.setenv("COLUMNS", str(COLUMNS))
        torch.manual_seed(0)

    def run(self) -> int:
        """Run every block and give their number.

        Raises:
            AssertionError: What a block shows is not what it gave; names page and line.
        """
        found = blocks(self.path)
        with own_modules(self.folder), registered_apart():
            for block in found:
                self._run(block)
        return len(found)

    def _run(self, block: Block) -> None:
        where = f"{self.path.name}:{block.line}"
        if block.title is not None:
            target = self.folder / block.title
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text, encoding="utf-8")
        elif block.language == "console":
            for command in commands(block):
                self._command(command)
        elif block.language == "pycon":
            test = doctest.DocTestParser().get_doctest(block.text, self.names, where, str(self.path), block.line)
            told = io.StringIO()
            result = doctest.DocTestRunner(optionflags=_OPTIONS).run(test, out=told.write, clear_globs=False)
            self.names.update(test.globs)
            assert result.attempted, f"{where}: nothing to run"
            assert not result.failed, f"{where}:\n{told.getvalue()}"
        elif block.language == "py" and self.path.name in OF_OTHERS:
            compile(block.text, where, "exec")
        elif block.language == "python":
            exec(compile("\n" * (block.line - 1) + block.text, str(self.path), "exec"), self.names)
        else:
            raise AssertionError(f"{where}: a block of {block.language or 'no language'} cannot be run")

    def _command(self, command: Command) -> None:
        if command.words in RUN_ELSEWHERE:
            assert not command.shown
            if (self.folder / "pyproject.toml").exists():
                as_installed(self.folder)
            return
        printed = printed_by(command.words, self.folder)
        wrong = missing(command.shown, printed)
        assert wrong is None, f"{self.path.name}:{command.line}: shown is {wrong!r}, printed was\n{printed}"


def printed_by(words: str, folder: Path) -> str:
    """The standard output of a command; commands of trtdiag run in this process, as each new one imports torch."""
    program, *arguments = shlex.split(words)
    if program == "cat":
        return "".join((folder / name).read_text(encoding="utf-8") for name in arguments)
    assert program == "trtdiag", f"no test runs {program}"
    out = io.StringIO()
    with contextlib.redirect_stdout(out), pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code in (0, 1, None), f"{words}: exit code {ended.value.code}\n{out.getvalue()}"
    return out.getvalue()


@contextlib.contextmanager
def own_modules(folder: Path) -> Iterator[None]:
    """Modules of the folder are imported from there, and forgotten afterwards."""
    before = dict(sys.modules)
    for name in [each for each in sys.modules if each.partition(".")[0] == "examples"]:
        del sys.modules[name]
    try:
        yield
    finally:
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None) or "").startswith(str(folder)):
                del sys.modules[name]
        sys.modules.update({name: each for name, each in before.items() if name.partition(".")[0] == "examples"})
