"""ONNX files of originals, as far as torch writes them without the package onnx."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from tests.benchmark.bench_models import build
from trtdiag.benchmark import onnx_trt
from trtdiag.benchmark.original import original
from trtdiag.options import CompileOptions


@pytest.fixture(autouse=True)
def _without_onnx(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package adds the functions of onnxscript, of which there are none here, and nothing else."""
    home = import_module("torch.onnx._internal.torchscript_exporter.onnx_proto_utils")
    monkeypatch.setattr(home, "_add_onnxscript_fn", lambda model, _: model)
    monkeypatch.setattr(onnx_trt, "find_spec", lambda name: None if name == "onnxscript" else find_spec(name))


@pytest.mark.parametrize("live", [True, False])
def test_names_and_dynamic_dims(live: bool, tmp_path: Path) -> None:
    module, args, kwargs, dims = build()
    source = build() if live else torch.export.export(module, args, kwargs, dynamic_shapes=dims)
    there = original(source, torch.device("cpu"), CompileOptions())
    onnx_trt.write_onnx(there, tmp_path / "model.onnx")
    content = (tmp_path / "model.onnx").read_bytes()
    for name in (b"x_0", b"x_1", b"scale", b"MatMul", b"Relu"):
        assert name in content
    assert b"x_2" not in content  # that dim is static
    assert module.training is False
