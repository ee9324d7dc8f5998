"""``pytest --trtdiag``: baselines that are missing, kept, gained upon, damaged and written again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from tests.harness.odd_rows_factory import FACTORY
from trtdiag.pytest_plugin import checker

pytest_plugins = ("pytester",)
ROOT = Path(__file__).resolve().parents[2]

# The installed plugin has this name, and would be there twice.
PLUGIN = ("-p", "no:trtdiag", "-p", "trtdiag.pytest_plugin", "-p", "no:randomly", "-p", "no:cacheprovider")
TEST = """
import hosted

def test_export(trtdiag_check):
    report = trtdiag_check(hosted.build, target="8.6")
    assert report.analysis.program.label == "build"

class TestSizes:
    def test_both(self, trtdiag_check):
        trtdiag_check("hosted:build", "one target/8.6", target="8.6")
        trtdiag_check("hosted:build", name="another", target="11.4")

def test_other():
    pass
"""


class Doubles(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2


class Asked:
    """What the plugin asks of a request."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.path, self.config, self.node = folder / "test_export.py", self, self
        self.nodeid, self.options = "tests/test_export.py::TestSizes::test_unet[3/4]", options

    def getoption(self, name: str) -> bool:
        return name in self.options


def check(folder: Path, option: str, source: object) -> None:
    checker(cast(pytest.FixtureRequest, Asked(folder, option)))(source, "fp 16", target="8.6")


def odd_rows() -> object:
    made: dict[str, Any] = {}
    exec(FACTORY, made)
    return made["build"]()


def clean() -> object:
    return torch.export.export(Doubles(), (torch.ones(2, 3),))


def test_what_was_not_looked_at_is_no_baseline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules whose facts are missing find nothing: a test passed where a stage had failed."""
    check(tmp_path, "--trtdiag-update", clean())

    def broken(*_arguments: object, **_named: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr("trtdiag.pipeline.plan_engines.plan_types", broken)
    for option in ("--trtdiag", "--trtdiag-update"):
        with pytest.raises(KeyError, match="x"):
            check(tmp_path, option, clean())


def test_gained_findings_fail_until_they_are_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "trtdiag_baselines" / "test_export.TestSizes.test_unet-3-4-fp-16.json"
    monkeypatch.chdir(tmp_path)
    with pytest.raises(pytest.fail.Exception) as caught:
        check(tmp_path, "--trtdiag", clean())
    why = "No such file or directory): write it with pytest --trtdiag-update"
    assert str(caught.value) == f"no baseline at {file.relative_to(tmp_path)} ({why}"
    assert caught.value.__context__ is None, "pytest would print it above"
    check(tmp_path, "--trtdiag-update", clean())
    check(tmp_path, "--trtdiag", clean())
    assert json.loads(file.read_text())["findings"] == []
    with pytest.raises(pytest.fail.Exception) as caught:
        check(tmp_path, "--trtdiag", odd_rows())
    told = str(caught.value)
    assert f"new finding since trtdiag_baselines/{file.name}:" in told.replace("findings", "finding")
    assert "error GRD301  guard" in told
    assert "  fix: declare" in told

    check(tmp_path, "--trtdiag-update", odd_rows())
    check(tmp_path, "--trtdiag", odd_rows())
    body = json.loads(file.read_text())
    assert "GRD301" in {each["rule"] for each in body["findings"]}
    written = file.stat().st_mtime_ns
    check(tmp_path, "--trtdiag-update", odd_rows())
    assert file.stat().st_mtime_ns == written
    check(tmp_path, "--trtdiag", clean())  # what is fixed is no failure
    milder = [{**each, "severity": "info"} for each in body["findings"]]
    file.write_text(json.dumps({**body, "findings": milder}))
    with pytest.raises(pytest.fail.Exception, match="error GRD301"):
        check(tmp_path, "--trtdiag", odd_rows())
    for content, why in (("[", "is damaged"), ("[]", "is damaged"), ('{"format": "other/2"}', "is no baseline of")):
        file.write_text(content)
        with pytest.raises(pytest.fail.Exception, match=why):
            check(tmp_path, "--trtdiag", clean())
    with pytest.raises(pytest.skip.Exception):
        check(tmp_path, "", clean())


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    pytester.makepyfile(test_export=TEST, hosted=FACTORY)
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{pytester.path}")
    return pytester.path


def outcomes(pytester: pytest.Pytester, *arguments: str) -> tuple[dict[str, int], str]:
    ran = pytester.runpytest_subprocess(*PLUGIN, *arguments)
    return ran.parseoutcomes(), "\n".join(ran.outlines)


@pytest.mark.slow
def test_baselines_from_the_first_to_the_accepted(project: Path, pytester: pytest.Pytester) -> None:
    assert outcomes(pytester)[0] == {"passed": 1, "skipped": 2}
    found, text = outcomes(pytester, "--trtdiag")
    assert found == {"passed": 1, "failed": 2}
    assert "write it with pytest --trtdiag-update" in text
    assert "torch.__trace" not in text  # hundreds of lines that torch logs of each export
    assert not (project / "trtdiag_baselines").exists()

    assert outcomes(pytester, "--trtdiag-update")[0] == {"passed": 3}
    folder = project / "trtdiag_baselines"
    names = ["test_export.TestSizes.test_both-another", "test_export.TestSizes.test_both-one-target-8.6"]
    assert sorted(path.stem for path in folder.iterdir()) == [*names, "test_export.test_export"]
    saved = json.loads((folder / "test_export.test_export.json").read_text())
    assert "GRD301" in {each["rule"] for each in saved["findings"]}
    assert outcomes(pytester, "--trtdiag")[0] == {"passed": 3}

    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.iterdir()}
    outcomes(pytester, "--trtdiag-update")
    assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.iterdir()} == before
