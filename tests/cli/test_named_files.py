"""No command writes over a file that it reads or writes under another argument: it says so before it works."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from tests.compiling.programs import mlp, saved
from tests.harness.forked_runs import run_forked
from tests.harness.rows import each
from trtdiag.artifact.save import save
from trtdiag.cli.main import main
from trtdiag.pipeline.compile import compile as compile_program

ROOT = Path(__file__).resolve().parents[2]
posix = pytest.mark.skipif(os.name != "posix", reason="devices and pipes of POSIX")


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files that no command could read: what is refused is refused before that."""
    monkeypatch.chdir(tmp_path)
    for name in (
        "m.pt2",
        "x.ep",
        "r.json",
        "old.json",
        "t.cache",
        "factory.py",
        "ops.py",
        "pyproject.toml",
        "page.html",
    ):
        (tmp_path / name).write_text("" if name.endswith(("py", "toml")) else "precious")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("raise SystemExit('imported')\n")
    (tmp_path / "package" / "model.py").write_text("precious = 1\n")
    (tmp_path / "link.json").symlink_to("m.pt2")
    os.link("m.pt2", "hard.ep")
    return tmp_path


REFUSED = {
    "analyze m.pt2 --json m.pt2": "--json names SOURCE itself: m.pt2",
    "analyze m.pt2 --json ./m.pt2": "--json names SOURCE itself: ./m.pt2",
    "analyze m.pt2 --sarif hard.ep": "--sarif names SOURCE itself",
    "analyze m.pt2 --markdown link.json": "--markdown names SOURCE itself",
    "analyze m.pt2 -o link.json": "-o names SOURCE itself",
    "analyze m.pt2 --compare old.json --json old.json": "--json names --compare itself",
    "analyze m.pt2 --json a.json --sarif a.json": "--json and --sarif name one file: a.json",
    "analyze m.pt2 -o a.html --markdown ./a.html": "-o and --markdown name one file: ./a.html",
    "analyze m.pt2 --json - --sarif -": "--json and --sarif name one file: standard output",
    "analyze m.pt2 --json - --sarif /dev/stdout": "--json and --sarif name one file: standard output",
    "analyze m.pt2 --format html,json --sarif m.json": "the report (json) and --sarif would be one file: m.json",
    "analyze m.pt2 -o a.json --format html,json": "-o (html) and -o (json) name one file: a.json",
    "analyze page.html": "the report would be written over SOURCE: page.html",
    "analyze factory:build -o factory.py --json factory.py": "no report format",
    "analyze factory:build --json factory.py": "--json names the module of SOURCE itself",
    "analyze package.model:build --json package/model.py": "--json names the module of SOURCE itself",
    "analyze package.model:build --json package/__init__.py": "--json names the module of SOURCE itself",
    "analyze m.pt2 --import ops --json ops.py": "--json names the module of --import itself",
    "analyze m.pt2 --json pyproject.toml": "--json names the configuration itself",
    "compile m.pt2 -o m.pt2": "-o names SOURCE itself: m.pt2",
    "compile m.pt2 -o hard.ep": "-o names SOURCE itself: hard.ep",
    "compile m.pt2 --json m.pt2": "--json names SOURCE itself",
    "compile m.pt2 -o o.ep --json o.ep": "-o and --json name one file: o.ep",
    "compile m.pt2 -o o.ep --report o.html --markdown o.html": "--report and --markdown name one file: o.html",
    "compile m.pt2 -o o.html": "-o and the report would be one file: o.html",
    "compile m.pt2 --timing-cache m.pt2": "--timing-cache names SOURCE itself",
    "compile m.pt2 --runtime-cache m.pt2": "--runtime-cache names SOURCE itself",
    "compile m.pt2 --timing-cache t.cache --json t.cache": "--json and --timing-cache name one file",
    "compile m.pt2 -o cache --engine-cache cache": "-o and --engine-cache name one file: cache",
    "compile m.pt2 --timing-cache c --engine-cache c": "--engine-cache and --timing-cache name one file",
    "compile m.pt2 -o pyproject.toml": "-o names the configuration itself",
    "compile m.pt2 --compare old.json --report old.json": "--report names --compare itself",
    "verify x.ep --json x.ep": "--json names COMPILED itself",
    "verify x.ep --model m.pt2 --json m.pt2": "--json names --model itself",
    "verify x.ep --against m.pt2 --json m.pt2": "--json names --against itself",
    "verify x.ep --against m.pt2 --json hard.ep": "--json names --against itself",
    "bench x.ep --json x.ep": "--json names COMPILED itself",
    "bench x.ep --model m.pt2 --json m.pt2": "--json names --model itself",
    "bench x.ep --report r.json --json r.json": "--json and --report name one file: r.json",
    "bench x.ep --report r.json --json r.html": "--json and the page of --report name one file: r.html",
    "bench x.ep --report page.html": "--report and the page of --report name one file",
    "bench x.ep --report x.ep": "--report names COMPILED itself",
    "bench x.ep --add-to-report x.ep": "--add-to-report names COMPILED itself",
    "report r.json --json r.json": "--json names SAVED itself",
    "report r.json --sarif r.json": "--sarif names SAVED itself",
    "report r.json --compare old.json --markdown old.json": "--markdown names --compare itself",
    "report page.html": "the report would be written over SAVED: page.html",
    "fix-dims m.pt2 --json m.pt2": "--json names SOURCE itself",
    "fix-dims m.pt2 --write m.pt2 --force": "--write names SOURCE itself",
    "fix-dims m.pt2 --apply -o m.pt2": "-o names SOURCE itself",
    "fix-dims m.pt2 --apply -o o.ep --json o.ep": "-o and --json name one file",
    "fix-dims m.pt2 --apply -o o.ep --json o-2.ep": "a further program of -o and --json name one file: o-2.ep",
    "fix-dims m.pt2 --apply -o o.ep --json o.programs.json": "the table of -o and --json name one file",
    "fix-dims m.pt2 --write d.py --json d.py": "--write and --json name one file: d.py",
    "fix-dims factory:build --write factory.py --force": "--write names the module of SOURCE itself",
}


@posix
@each("line", REFUSED)
def test_one_file_under_two_arguments_is_refused_before_the_work(
    line: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in files.rglob("*") if path.is_file()}
    assert run(*line.split()) == 2
    told = capsys.readouterr().err
    assert REFUSED[line] in told
    if "no report format" not in told:
        assert "[same-file]" in told
        assert re.search("fix: name another file (for|with) ", told)
    assert {path: path.read_bytes() for path in files.rglob("*") if path.is_file()} == before


@posix
@pytest.mark.parametrize(
    ("line", "option", "what"),
    [
        ("report page.html", "-o", "the report has this name, and SAVED is read"),
        ("compile m.pt2 -o o.html", "--report", "the report has this name, and only one of the two would be left"),
        ("compile m.pt2 --timing-cache m_trt.pt2", "--timing-cache", ""),
    ],
)
def test_a_usual_name_is_told_with_the_option_that_gives_another(
    line: str, option: str, what: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*line.split()) == 2
    told = capsys.readouterr().err
    assert not what or f"because: without {option} {what}" in told
    assert f"fix: name another file {'with' if what else 'for'} {option}" in told


@posix
@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("analyze m.pt2 --json absent/a.json", "[report-not-writable]"),
        ("analyze m.pt2 --json package", "directory"),
        ("compile m.pt2 -o absent/o.ep --no-html", "[file-not-written]"),
        ("compile m.pt2 -o package", "directory"),
        ("compile m.pt2 -o /dev/stdout", "[file-on-standard-output]"),
        ("fix-dims m.pt2 --write /dev/stdout", "[file-on-standard-output]"),
        ("fix-dims m.pt2 --apply --programs 2 -o /dev/null", "[programs-need-files]"),
        ("verify x.ep --json absent/a.json", "[report-not-writable]"),
        ("bench x.ep --json absent/a.json", "[report-not-writable]"),
        ("report r.json --sarif absent/a.json", "[report-not-writable]"),
        ("analyze m.pt2 --trace package", "cannot write the trace to package"),
        ("analyze m.pt2 --trace package", "name a file, for example package/trace.json"),
    ],
)
def test_what_cannot_be_written_is_refused_before_the_work(
    line: str, why: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*line.split()) == 2
    assert why in capsys.readouterr().err


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compiled")
    (folder / "model.pt2").write_bytes(saved(mlp))
    save(compile_program(folder / "model.pt2", backend="reference", verify=False), folder / "model.ep")
    return folder


@pytest.mark.parametrize("command", ["verify", "bench"])
def test_the_original_that_a_compiled_program_names_is_not_written_over(
    command: str, compiled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (compiled / "model.pt2").read_bytes()
    assert run(command, str(compiled / "model.ep"), "--json", str(compiled / "model.pt2")) == 2
    assert "--json names the original of COMPILED itself" in capsys.readouterr().err
    assert (compiled / "model.pt2").read_bytes() == before


@posix
def test_reports_go_through_devices_and_pipes(
    compiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(Path("pipe").read_text()))
    reader.start()
    arguments = ("--sarif", "/dev/null", "--markdown", "/dev/null", "--json", "pipe", "-o", "/dev/null")
    assert run("analyze", str(compiled / "model.pt2"), *arguments) == 0
    reader.join(timeout=60)
    assert read[0].startswith("{")
    assert read[0].endswith("}\n")
    assert stat.S_ISFIFO(os.stat("pipe").st_mode)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert os.listdir() == ["pipe"]
    told = capsys.readouterr().out
    assert "report: /dev/null" in told


@posix
def test_a_compiled_program_goes_through_a_pipe(
    compiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(Path("pipe").read_bytes()))
    reader.start()
    arguments = ("--backend", "reference", "--no-verify", "-o", "pipe")
    assert run("compile", str(compiled / "model.pt2"), *arguments) == 0
    reader.join(timeout=60)
    assert "compiled: pipe, 1 engine of the reference backend" in capsys.readouterr().out
    assert sorted(os.listdir()) == ["model_trt.html", "pipe"]  # the page has a name of its own
    Path("copy.ep").write_bytes(read[0])
    x = torch.randn(9, 33, 5)
    torch.testing.assert_close(torch.export.load("copy.ep").module()(x), mlp()[0](x), rtol=1e-5, atol=1e-6)


@posix
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_device_that_is_full_is_told(compiled: Path, tmp_path: Path) -> None:
    """In a process of its own: PyTorch ends it where a write of a program fails under it."""
    model = str(compiled / "model.pt2")
    command = ["compile", model, "--backend", "reference", "--no-verify", "--no-html", "-o", "/dev/full"]
    done = run_forked("from trtdiag.cli.main import main; main()", *command, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert "No space left on device" in done.stderr
    assert "[file-not-written]" in done.stderr
    assert "terminate" not in done.stderr


@posix
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_the_program_is_saved_before_a_report_that_cannot_be(
    compiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ("--backend", "reference", "--no-verify", "--no-html", "--json", "/dev/full", "-o", "o.ep")
    assert run("compile", str(compiled / "model.pt2"), *arguments) == 2
    told = capsys.readouterr()
    assert "No space left on device" in told.err
    assert "compiled: o.ep" in told.out
    torch.export.load("o.ep")


@pytest.mark.parametrize(
    "line", ["analyze model.pt2 -o a.html", "compile model.pt2 --backend reference --no-verify --report a.html"]
)
def test_a_page_that_is_named_and_not_wanted_is_told(
    line: str, compiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    command, source, *options = line.split()
    assert run(command, str(compiled / source), *options, "--no-html") == 0
    option = "--report" if command == "compile" else "--output"
    assert f"warning: {option} a.html has no effect: --no-html writes no page\n" in capsys.readouterr().err
    assert not Path("a.html").exists()


@posix
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("analyze model.pt2 -o /dev/full --json a.json", "report: a.json\n"),
        ("analyze model.pt2 --no-html --trace /dev/full", "next: trtdiag compile"),
        ("compile model.pt2 --backend reference --no-verify -o /dev/full --report c.html", "report: c.html\n"),
        ("verify model.ep --json /dev/full", "verified: agrees"),
        ("fix-dims model.pt2 --json /dev/full --write dims.py", "written: dims.py\n"),
        ("fix-dims model.pt2 --apply -o /dev/full --write dims.py", "written: dims.py\n"),
    ],
)
def test_what_a_command_found_is_told_where_its_file_cannot_be_written(
    line: str,
    found: str,
    compiled: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    command, source, *options = line.split()
    assert run(command, str(compiled / source), *options) == 2
    told = capsys.readouterr()
    assert "No space left on device" in told.err
    assert found in told.out
    assert "/dev/full" not in told.out


@posix
@pytest.mark.slow
def test_dev_stdout_is_standard_output(compiled: Path, tmp_path: Path) -> None:
    """And nothing else is printed there."""
    done = subprocess.run(
        [sys.executable, "-m", "trtdiag", "analyze", str(compiled / "model.pt2"), "--no-html", "--json", "/dev/stdout"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["tool"]["name"] == "trtdiag"
    assert os.listdir(tmp_path) == []
