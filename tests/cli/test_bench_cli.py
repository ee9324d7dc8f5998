"""``trtdiag bench`` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import trtdiag
from tests.benching.bench_models import build
from trtdiag.cli.main import main


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    module, args, kwargs, dims = build()
    torch.export.save(torch.export.export(module, args, kwargs, dynamic_shapes=dims), "small.pt2")
    compiled = trtdiag.compile("small.pt2", backend="reference", verify=False, min_segment_ops=0)
    trtdiag.save(compiled, "small_trt.ep")
    return tmp_path


def test_tables_and_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ("--sizes", "max", "--sizes", "x.shape[0]=7,x.shape[1]=8")
    assert run("bench", "small_trt.ep", "--against", "eager,onnx-trt", *sizes, "--rounds", "1", "--json", "b.json") == 0
    told = capsys.readouterr().out
    assert "on cpu" in told
    assert "x float32 (9, 34, 5)" in told
    assert "x float32 (7, 8, 5)" in told
    assert "onnx-trt: cannot run: TensorRT" in told
    written = json.loads((folder / "b.json").read_text(encoding="utf-8"))
    assert [result["label"] for result in written["results"]] == ["max", "x.shape[0]=7, x.shape[1]=8"]
    assert [way["way"] for way in written["results"][0]["ways"]] == ["trtdiag", "eager", "onnx-trt"]


def test_original_by_name_and_json_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "small.pt2").unlink()
    assert run("bench", "small_trt.ep", "--rounds", "1") == 2
    assert "trtdiag bench compiled.ep --model model.ep" in capsys.readouterr().err
    assert (
        run("bench", "small_trt.ep", "--model", "tests.benching.bench_models:build", "--rounds", "1", "--json", "-")
        == 0
    )
    ways = json.loads(capsys.readouterr().out)["results"][0]["ways"]
    assert [way["failed"] for way in ways] == ["", ""]


@pytest.mark.parametrize("arguments", [("--sizes", "largest"), ("--sizes", "x.shape[0]=two"), ("--against", "tvm")])
def test_wrong_arguments(folder: Path, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("bench", "small_trt.ep", *arguments) == 2
    assert repr(arguments[1]) in capsys.readouterr().err
