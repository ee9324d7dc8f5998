"""What the README says of installing: a wheel built from the clone works on its own, and ``make demo`` runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tests.documents.pages import ROOT

pytestmark = pytest.mark.slow  # builds a wheel and starts commands, each of which imports torch


def quiet(*words: str | Path, cwd: Path) -> str:
    """Run a command without this checkout in its path, and give what it printed."""
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([str(word) for word in words], cwd=cwd, env=own, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, words))}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def clone(folder: Path) -> Path:
    """What a clone of the working tree would hold: the files that git knows or does not ignore."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, target)
    return folder


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with a wheel of the clone; what trtdiag depends on comes from the one that runs the tests."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a clone: what belongs to it is not known")
    folder = tmp_path_factory.mktemp("install")
    wheels = folder / "wheels"
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", str(wheels), str(clone(folder / "clone"))]
    built = subprocess.run(build, capture_output=True, text=True, check=False, cwd=folder)
    if "No matching distribution found for hatchling" in built.stderr:
        pytest.skip("hatchling, which builds the wheel, cannot be had here")
    assert built.returncode == 0, built.stderr
    (wheel,) = wheels.glob("trtdiag-*.whl")
    venv.create(folder / "env", with_pip=False)
    (packages,) = (folder / "env" / "lib").glob("python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    python = folder / "env" / "bin" / "python"
    quiet(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel, cwd=folder)
    return folder


def test_the_wheel_has_templates_schemas_and_extras(environment: Path) -> None:
    (wheel,) = (environment / "wheels").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (archive.read(name).decode() for name in names if name.endswith(".dist-info/METADATA"))
    assert "trtdiag/report/schema/report-1.schema.json" in names
    assert any(name.startswith("trtdiag/report/templates/") for name in names)
    assert not [name for name in names if name.startswith(("tests/", "docs/", "examples/"))]
    assert {"Provides-Extra: tensorrt", "Provides-Extra: rtx"} <= set(metadata.splitlines())


def test_what_was_installed_analyzes_a_file(environment: Path, tmp_path: Path) -> None:
    python, command = environment / "env" / "bin" / "python", environment / "env" / "bin" / "trtdiag"
    home = quiet(python, "-c", "import trtdiag; print(trtdiag.__file__)", cwd=tmp_path)
    assert Path(home.strip()).is_relative_to(environment)
    quiet(python, ROOT / "examples" / "demo.py", tmp_path / "model.pt2", cwd=tmp_path)
    told = quiet(command, "analyze", "model.pt2", "--fail-on", "never", cwd=tmp_path)
    assert told.rstrip().endswith("report: model.html")
    assert (tmp_path / "model.html").is_file()


def test_make_demo_says_where_its_report_is(tmp_path: Path) -> None:
    root = Path(sys.prefix)
    if shutil.which("make") is None or not (root / "bin" / "trtdiag").exists():
        pytest.skip("needs make, and an environment with trtdiag")
    folder = clone(tmp_path / "clone")
    # The environment that runs the tests is the one that make would have made.
    told = quiet("make", "demo", f"VENV={root}", "-o", f"{root}/.package", cwd=folder)
    assert f"The report: {folder}/demo/report.html" in told
    assert (folder / "demo" / "report.html").is_file()
    assert (folder / "demo" / "report.json").is_file()
