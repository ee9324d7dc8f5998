"""Builds by the real TensorRT: several at once, from caches, for other GPUs and versions; needs a GPU and TensorRT."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.engine.linear_network import PROFILE, linear, linear_network
from trtdiag.engine.backend import get_backend
from trtdiag.engine.build import Engine
from trtdiag.engine.builds import build_engines
from trtdiag.errors import PlatformError, UserError
from trtdiag.options import CompileOptions
from trtdiag.targets import get_target, installed_version

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        installed_version() is None or not torch.cuda.is_available(), reason="needs TensorRT and a GPU to build for"
    ),
]


def _models(count: int) -> list[torch.nn.Linear]:
    made = []
    for number in range(count):
        model = linear()
        model.weight.add_(float(number))
        made.append(model)
    return made


def _built(models: Sequence[torch.nn.Linear], **options: Any) -> tuple[Engine, ...]:
    wanted = [(linear_network(model), PROFILE) for model in models]
    asked = CompileOptions(optimization_level=1, **options)
    return build_engines(get_backend("tensorrt"), wanted, asked, get_target(None))


def _check(engines: Sequence[Engine], models: Sequence[torch.nn.Linear]) -> None:
    x = torch.randn(3, 5, generator=torch.Generator().manual_seed(5))
    for engine, model in zip(engines, models, strict=True):
        (y,) = get_backend("tensorrt").load(engine.blob, engine.manifest)([x.cuda()])
        torch.testing.assert_close(y.cpu(), model(x), rtol=1e-4, atol=1e-4)  # 5 products, another order


def test_several_at_once_are_each_their_own() -> None:
    models = _models(5)
    _check(_built(models, build_jobs=3), models)


def test_engines_from_the_cache_run(tmp_path: Path) -> None:
    models = _models(2)
    options = {"engine_cache": str(tmp_path / "engines"), "build_jobs": 2}
    first, again = _built(models, **options), _built(models, **options)
    assert [engine.saved for engine in (*first, *again)] == [False, False, True, True]
    assert [engine.blob for engine in first] == [engine.blob for engine in again]
    _check(again, models)
    other = _built(models, **options, tf32=True)
    assert [engine.saved for engine in other] == [False, False]


def test_builds_at_once_share_a_timing_cache(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "timings"
    models = _models(3)
    with caplog.at_level(logging.WARNING, "trtdiag.tensorrt.timings"):
        _check(_built(models, timing_cache=str(path), build_jobs=3), models)
        size = path.stat().st_size
        _check(_built(models, timing_cache=str(path)), models)
    assert size > 0
    assert path.stat().st_size >= size
    assert [entry.name for entry in tmp_path.iterdir()] == ["timings"]
    path.write_bytes(b"no timing cache" * 9)
    _check(_built(models[:1], timing_cache=str(path)), models[:1])
    # TensorRT has warnings of its own, about the last file among others: what counts is that each file was written.
    assert not [record for record in caplog.records if record.name == "trtdiag.tensorrt.timings"]


@pytest.mark.parametrize(
    "options",
    [
        {"hardware_compatibility": "ampere+"},
        {"version_compatible": True},
        {"hardware_compatibility": "ampere+", "version_compatible": True},
        {"hardware_compatibility": "same-compute-capability"},
    ],
    ids=str,
)
def test_engines_for_more_than_this_machine_run_here(options: dict[str, Any]) -> None:
    models = _models(1)
    level = options.get("hardware_compatibility")
    if level == "ampere+" and torch.cuda.get_device_capability() < (8, 0):
        pytest.skip("needs a GPU of Ampere or later")
    if level == "same-compute-capability" and get_target(None).version == "8.6":
        with pytest.raises(UserError, match="hardware compatibility"):
            _built(models, **options)
        return
    try:
        engines = _built(models, **options)
    except PlatformError as error:
        if error.reference != "lean-runtime-missing":
            raise
        pytest.skip(f"{error.message}: {error.because}")  # the package of TensorRT has no such library
    assert get_backend("tensorrt").differences(engines[0].manifest) == ()
    _check(engines, models)
