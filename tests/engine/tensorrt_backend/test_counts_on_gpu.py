"""Sizes that the data decide, as the emitters write them, and on TensorRT beside PyTorch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import count_parity
import pytest
import torch
from counting_networks import NETWORKS
from written import write

from trtdiag.errors import EngineBuildError
from trtdiag.options import CompileOptions
from trtdiag.targets import TARGETS, get_target, installed_version

SCRIPT = Path(count_parity.__file__)


@pytest.mark.parametrize("version", [target.version for target in TARGETS])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_is_written_with_names_that_the_version_has(name: str, version: str) -> None:
    if not get_target(version).counts:
        with pytest.raises(EngineBuildError, match="layers behind NonZero") as caught:
            write(NETWORKS[name].network(), version)
        assert caught.value.reference == "layer-missing"
        return
    trt, emission = write(NETWORKS[name].network(), version)
    counting = trt.of("INonZeroLayer")
    assert len(counting) == (2 if name == "twice" else 1)
    assert all(emission.layers[layer.seen["name"]].layer.kind == "NonZero" for layer in counting)


@pytest.mark.slow
def test_the_script_tells_every_case(tmp_path: Path) -> None:
    out = tmp_path / "counts.json"
    command = [sys.executable, str(SCRIPT), "--json", str(out), "--backend", "reference"]
    here = {**os.environ, "PYTHONPATH": str(SCRIPT.parents[3])}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=here)
    found = json.loads(out.read_text(encoding="utf-8"))["cases"]
    assert set(found) == {*NETWORKS, "large", "latency"}
    assert all(case["state"] == "right" for case in found.values()), done.stdout


@pytest.mark.gpu
@pytest.mark.skipif(
    installed_version() is None or not torch.cuda.is_available(), reason="needs TensorRT and a GPU to build for"
)
@pytest.mark.parametrize("name", [*NETWORKS, "large"])
def test_on_tensorrt(name: str) -> None:
    target = get_target(None)
    if not target.counts:
        pytest.skip(f"TensorRT {target.version} does not build what such a size has; the ops stay with PyTorch")
    options = CompileOptions(target.version, "tensorrt", optimization_level=1)
    points = count_parity.large_points if name == "large" else count_parity.network_points
    assert not [text for text in points(name, options) if text]
