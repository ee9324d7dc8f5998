"""Plans alone: the files, the JSON that tells of them, and the C++ example where TensorRT's headers are."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import torch
from torch import nn

import trtdiag
from tests.deployment.served_programs import as_plan, compiled
from trtdiag.cli.main import main
from trtdiag.engine.tensorrt.engine_per_gpu import packed

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "trtdiag/report/schema/plans-1.schema.json").read_text())
HEADERS = ("/usr/include/x86_64-linux-gnu", "/usr/include/aarch64-linux-gnu", "/usr/include", "/usr/local/cuda/include")
"""Where NVIDIA's packages put NvInfer.h and cuda_runtime_api.h; CPLUS_INCLUDE_PATH names others."""


def _told(folder: Path) -> Any:
    found = json.loads((folder / "engines.json").read_text())
    jsonschema.validate(found, SCHEMA)
    return found


def _sequence() -> trtdiag.CompiledProgram:
    return compiled(nn.Sequential(nn.Linear(5, 3), nn.ReLU()), trtdiag.Input((1, 2, 5), (4, 7, 5), (8, 9, 5)))


def test_one_engine_is_all_of_the_program(tmp_path: Path) -> None:
    made = trtdiag.export_engine(as_plan(_sequence()), tmp_path / "plans")
    assert (list(made.files), made.beside) == (["engine_0.plan"], "")
    told = _told(made.folder)
    (engine,) = told["engines"]
    (plan,) = engine["plans"]
    content = (made.folder / plan["file"]).read_bytes()
    assert content.startswith(b"plan of ")
    assert (plan["bytes"], plan["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
    assert (engine["tensorrt"], engine["gpu"], engine["compute_capability"]) == ("10.16.1", "GPU of 9.0", "9.0")
    (taken,), (given,) = engine["inputs"], engine["outputs"]
    assert (taken["binding"], taken["program_input"], taken["dtype"]) == ("input 0: input", "input", "float32")
    assert given["program_output"] == "output"
    assert taken["shape"][2] == 5
    assert set(taken["shape"][:2]) == set(engine["ranges"])
    assert engine["profiles"] == [[{"binding": "input 0: input", "min": [1, 2, 5], "opt": [4, 7, 5], "max": [8, 9, 5]}]]
    assert told["program"]["outputs"][0]["shape"][2] == 3


def test_what_is_beside_the_engines_is_told(tmp_path: Path) -> None:
    class Sorted(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sort(x * 2 + 1, dim=1).values.relu() - 3

    program = compiled(Sorted(), trtdiag.Input((1, 5), (4, 5), (8, 5)), keep_in_torch=("aten.sort",))
    made = trtdiag.export_engine(as_plan(program), tmp_path / "plans")
    assert list(made.files) == ["engine_0.plan", "engine_1.plan"]
    first, second = _told(made.folder)["engines"]
    assert made.beside == "it has 2 engines"
    assert [port["program_input"] for port in first["inputs"]] == ["x"]
    assert [port["program_input"] for port in second["inputs"]] == [None]
    assert [port["program_output"] for port in second["outputs"]] == ["output"]


def test_int64_of_the_oldest_target_is_told_as_pairs(tmp_path: Path) -> None:
    words = trtdiag.Input((1, 1), (2, 5), (7, 13), dtype=torch.int64)
    program = compiled(nn.Sequential(nn.Embedding(11, 3), nn.ReLU()), words, target="8.6")
    made = trtdiag.export_engine(as_plan(program), tmp_path / "plans")
    assert (
        made.beside
        == "int64 enters its engine as pairs of int32 (input): the same memory, with one more dim, of size 2"
    )
    told = _told(made.folder)
    (taken,) = told["engines"][0]["inputs"]
    assert (taken["program_input"], taken["dtype"], taken["shape"][2:]) == ("input", "int32", [2])
    assert told["program"]["inputs"][0]["dtype"] == "int64"


def test_engines_for_several_generations_are_a_file_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tests.deployment.served_programs as programs

    both = packed({"sm80": b"for ampere", "sm89": b"for ada"})
    monkeypatch.setattr(programs.StandIn, "build", lambda *_: both)
    made = trtdiag.export_engine(as_plan(_sequence()), tmp_path / "plans")
    assert dict(made.files) == {"engine_0_sm80.plan": 10, "engine_0_sm89.plan": 7}
    assert (made.folder / "engine_0_sm89.plan").read_bytes() == b"for ada"
    assert [plan["gpu"] for plan in _told(made.folder)["engines"][0]["plans"]] == ["sm80", "sm89"]


def test_nothing_is_written_over(tmp_path: Path) -> None:
    plan = as_plan(_sequence())
    (tmp_path / "mine").write_text("kept")
    trtdiag.export_engine(plan, tmp_path)  # a folder that is there, with other files
    with pytest.raises(trtdiag.UserError, match=r"has a file engine_0.plan") as refused:
        trtdiag.export_engine(plan, tmp_path)
    assert refused.value.reference == "engines-there"
    trtdiag.export_engine(plan, tmp_path, force=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["engine_0.plan", "engines.json", "mine"]
    (tmp_path / "file").write_text("")
    with pytest.raises(trtdiag.UserError, match="cannot be written"):
        trtdiag.export_engine(plan, tmp_path / "file" / "below")


def test_networks_are_no_plans(tmp_path: Path) -> None:
    with pytest.raises(trtdiag.ArtifactError, match="no engines that could stand alone") as refused:
        trtdiag.export_engine(_sequence(), tmp_path / "plans")
    assert "of the reference backend" in refused.value.because
    none = compiled(nn.Linear(5, 3), trtdiag.Input((2, 5)), keep_in_torch=("aten.linear",))
    with pytest.raises(trtdiag.ArtifactError, match="no engines") as refused:
        trtdiag.export_engine(none, tmp_path / "plans")
    assert refused.value.because == "it has no engine"
    assert not list(tmp_path.iterdir())


def test_the_command_names_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    trtdiag.save(as_plan(_sequence()), "net.pt2")
    for arguments, code in ((("net.pt2", "plans"), 0), (("net.pt2", "plans"), 2), (("net.pt2", "plans", "--force"), 0)):
        with pytest.raises(SystemExit) as ended:
            main(["export-engine", *arguments])
        assert ended.value.code == code
    printed = capsys.readouterr()
    assert "plans/engine_0.plan (" in printed.out
    assert "plans/engines.json: what they take and give" in printed.out
    assert "has a file engine_0.plan" in printed.err


def test_the_example_compiles_against_the_headers_of_tensorrt() -> None:
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler is here")
    places = [*filter(None, os.environ.get("CPLUS_INCLUDE_PATH", "").split(os.pathsep)), *HEADERS]
    for header in ("NvInfer.h", "cuda_runtime_api.h"):
        if not any((Path(place) / header).exists() for place in places):
            pytest.skip(f"{header} is in none of {', '.join(places)}: the example was not compiled")
    flags = [f"-isystem{place}" for place in places if Path(place).is_dir() and place != "/usr/include"]
    command = [compiler, "-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Wno-deprecated-declarations"]
    ended = subprocess.run(
        [*command, *flags, str(ROOT / "examples/cpp/run_plan.cpp")], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
