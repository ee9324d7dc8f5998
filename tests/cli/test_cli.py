"""The command line as a user meets it: by exit code and text."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, export, save

from trtdiag.cli.main import main
from trtdiag.pipeline import analyze


class Doubles(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Done]


@pytest.fixture
def trtdiag(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command line in this process: importing torch anew for every case would take minutes."""

    def run(*arguments: str, cwd: Path) -> Done:
        monkeypatch.chdir(cwd)
        monkeypatch.setenv("COLUMNS", "120")
        monkeypatch.delitem(sys.modules, "factory", raising=False)
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        out = capsys.readouterr()
        return Done(int(ended.value.code or 0), out.out, out.err)

    return run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a clean program, one with an unbounded dim, and a factory."""
    path = tmp_path_factory.mktemp("cli")
    example = (torch.randn(3, 5),)
    save(export(Doubles(), example, dynamic_shapes={"x": {0: Dim("n", min=1, max=13)}}), path / "clean.pt2")
    save(export(Doubles(), example, dynamic_shapes={"x": {0: Dim("n", min=2)}}), path / "open.pt2")
    (path / "factory.py").write_text(
        "import torch\n"
        "def build():\n"
        "    return torch.nn.ReLU(), (torch.randn(3, 5),), {}, {'input': {0: torch.export.Dim('n', min=1, max=13)}}\n"
    )
    return path


def test_a_clean_program_exits_with_0_and_writes_html_here(trtdiag: Run, folder: Path, tmp_path: Path) -> None:
    done = trtdiag("analyze", str(folder / "clean.pt2"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "clean.html").read_text(encoding="utf-8").startswith("<!")
    assert "clean.html" in done.stdout
    assert done.stderr == ""


def test_an_error_exits_with_1_and_the_three_formats_agree(trtdiag: Run, folder: Path, tmp_path: Path) -> None:
    done = trtdiag(
        "analyze", str(folder / "open.pt2"), "-o", "r.html", "--json", "r.json", "--sarif", "r.sarif", cwd=tmp_path
    )
    assert done.returncode == 1, done.stderr
    assert "SYM201" in done.stdout
    data = json.loads((tmp_path / "r.json").read_text())
    ids = [finding["id"] for finding in data["findings"]]
    assert "SYM201-1" in ids
    assert all(f'id="{one}"' in (tmp_path / "r.html").read_text(encoding="utf-8") for one in ids)
    sarif = json.loads((tmp_path / "r.sarif").read_text())["runs"][0]
    assert {"SYM201", "GRD301", "ART801"} <= {rule["id"] for rule in sarif["tool"]["driver"]["rules"]}
    rules = [result["ruleId"] for result in sarif["results"]]
    assert rules == [finding["rule"] for finding in data["findings"]]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--fail-on", "never"], 0),
        (["--ignore", "SYM"], 0),
        (["--select", "TYP"], 0),
        (["--select", "unbounded-symbol"], 1),
        (["--select", "NOPE"], 2),
        (["--target", "9.9"], 2),
        (["--fail-on", "sometimes"], 2),
        (["--no-such-option"], 2),
    ],
)
def test_exit_codes(trtdiag: Run, folder: Path, tmp_path: Path, arguments: list[str], code: int) -> None:
    done = trtdiag("analyze", str(folder / "open.pt2"), "--no-html", *arguments, cwd=tmp_path)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("source", "reference"),
    [
        ("missing.pt2", "file-not-found"),
        ("empty.pt2", "empty-file"),
        (".", "folder-not-readable"),
        ("notes.txt", "not-a-zip"),
        ("factory:nothing", "factory-not-found"),
    ],
)
def test_wrong_input_is_one_clear_error(
    trtdiag: Run, folder: Path, tmp_path: Path, source: str, reference: str
) -> None:
    (tmp_path / "empty.pt2").write_bytes(b"")
    (tmp_path / "notes.txt").write_text("these are notes")
    (tmp_path / "factory.py").write_text((folder / "factory.py").read_text())
    done = trtdiag("analyze", source, cwd=tmp_path)
    assert done.returncode == 2
    assert f"[{reference}]" in done.stderr
    assert "because:" in done.stderr
    assert "fix:" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert "Traceback" in trtdiag("analyze", source, "--debug", cwd=tmp_path).stderr


def test_a_stage_that_failed_by_our_fault_is_told_and_exits_with_4(
    trtdiag: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_arguments: object, **_named: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr("trtdiag.pipeline.plan_engines.plan_types", broken)
    # Findings and --fail-on are about the program: of what was not looked at there are none.
    for source, options in (("clean.pt2", ()), ("clean.pt2", ("--fail-on", "never", "-q")), ("open.pt2", ())):
        done = trtdiag("analyze", str(folder / source), "--no-html", "--json", "r.json", *options, cwd=tmp_path)
        assert done.returncode == 4, done.stdout
        assert "error: trtdiag itself failed: KeyError" in done.stderr
        assert "types failed: KeyError: 'x'" in done.stdout or "-q" in options
    assert {"name": "types", "state": "failed", "message": "KeyError: 'x'"}.items() <= next(
        stage for stage in json.loads((tmp_path / "r.json").read_text())["stages"] if stage["state"] == "failed"
    ).items()


def test_a_factory_of_the_current_folder(trtdiag: Run, folder: Path) -> None:
    done = trtdiag("analyze", "factory:build", "--json", "-", "--no-html", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert [f for f in json.loads(done.stdout)["findings"] if f["severity"] != "info"] == []


def test_a_package_of_custom_ops_can_be_imported_first(trtdiag: Run, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "registers.py").write_text("import pathlib\npathlib.Path('imported').touch()\n")
    source = str(folder / "clean.pt2")
    assert trtdiag("analyze", source, "--no-html", "--import", "registers", cwd=tmp_path).returncode == 0
    assert (tmp_path / "imported").exists()
    wrong = trtdiag("analyze", source, "--no-html", "--import", "no_such_package", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "[import-failed]" in wrong.stderr


def test_config_sets_defaults_and_the_command_line_wins(trtdiag: Run, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.trtdiag]\nfail-on = "never"\ntarget = "8.6"\n')
    source = str(folder / "open.pt2")
    assert trtdiag("analyze", source, "--no-html", cwd=tmp_path).returncode == 0
    assert trtdiag("analyze", source, "--no-html", "--fail-on", "error", cwd=tmp_path).returncode == 1
    (tmp_path / "pyproject.toml").write_text('[tool.trtdiag]\nfail-om = "never"\n')
    done = trtdiag("analyze", source, "--no-html", cwd=tmp_path)
    assert done.returncode == 2
    assert "'fail-on'" in done.stderr


def test_an_unwritable_place_is_an_error_and_not_half_a_file(trtdiag: Run, folder: Path, tmp_path: Path) -> None:
    done = trtdiag("analyze", str(folder / "clean.pt2"), "-o", "no/such/folder/r.html", cwd=tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_explain_and_rules(trtdiag: Run, tmp_path: Path) -> None:
    by_id, by_name = (trtdiag("explain", word, cwd=tmp_path) for word in ("GRD301", "guard-breaks-range"))
    assert by_id.returncode == 0
    assert by_id.stdout == by_name.stdout
    assert "Fix safety" in by_id.stdout
    listed = json.loads(trtdiag("rules", "--json", cwd=tmp_path).stdout)
    assert {"MET101", "SYM201", "GRD301", "TYP401", "ART801"} <= {rule["id"] for rule in listed}
    wrong = trtdiag("explain", "GRD3O1", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "GRD301" in wrong.stderr


def test_our_own_fault_says_so_and_leaves_a_reproducer(
    trtdiag: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_given: object, **_named: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(analyze, "check_metadata", broken)
    done = trtdiag("analyze", str(folder / "clean.pt2"), cwd=tmp_path)
    assert done.returncode == 4
    assert "planted" in done.stderr
    assert "Traceback" not in done.stderr
    (crash,) = tmp_path.glob("trtdiag-crash-*.txt")
    assert "ZeroDivisionError: planted" in crash.read_text()


def test_the_commands_are_there_without_torch() -> None:
    """Help and completion ask for all of them; torch alone takes ten times as long as they do."""
    code = "import sys, trtdiag.cli.commands; assert not {'torch', 'sympy', 'numpy'} & {*sys.modules}"
    subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], check=True)


@pytest.mark.slow  # quick: the README, in tests/documents
def test_a_module_in_a_file_needs_its_inputs(trtdiag: Run, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("from torch import nn\n\n\ndef build():\n    return nn.Linear(3, 2)\n")
    before = (tmp_path / "net.py").read_bytes()
    words = ("net.py:build", "--inputs", "input=1..8x3")
    done = trtdiag("analyze", *words, cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert "next: trtdiag compile net.py:build --inputs=input=1..8x3" in done.stdout.splitlines()
    assert "[same-file]" in trtdiag("analyze", *words, "--json", "net.py", cwd=tmp_path).stderr
    assert trtdiag("compile", *words, "--backend", "reference", "-q", cwd=tmp_path).returncode == 0
    assert trtdiag("fix-dims", *words, cwd=tmp_path).returncode == 0
    assert "[wrong-inputs]" in trtdiag("analyze", "net.py:build", "--inputs", "input=x", cwd=tmp_path).stderr
    assert (tmp_path / "net.py").read_bytes() == before


def test_files_of_a_folder_are_not_written_over(trtdiag: Run, tmp_path: Path) -> None:
    folder = tmp_path / "llama"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    done = trtdiag("analyze", "llama", "--json", "llama/config.json", cwd=tmp_path)
    assert done.returncode == 2
    assert "[same-file]" in done.stderr
    assert (folder / "config.json").read_text() == "{}"
