"""Builds by the real TensorRT: several at once, from caches, for other GPUs and versions; needs a GPU and TensorRT."""

from __future__ import annotations

import logging
import multiprocessing
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.engine.linear_network import PROFILE, linear, linear_network
from tests.harness.logged import Logged
from trtdiag.engine.backend import get_backend
from trtdiag.engine.build import Engine
from trtdiag.engine.parallel_builds import build_engines
from trtdiag.errors import PlatformError, UserError
from trtdiag.network import DType, Network, NetworkBuilder, Origin, run
from trtdiag.network.layers.activation import Activation, ActivationType
from trtdiag.network.layers.matmul import MatrixMultiply, MatrixOperation
from trtdiag.options import CompileOptions
from trtdiag.symbolic import Range, symbol
from trtdiag.targets import get_target, installed_version

LIMIT_S = 400.0
"""Of 24 builds of a few seconds, and of starting TensorRT beside other tests."""
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


def _chain(length: int) -> Network:
    """Products with activations between them: builds of several lengths overlap in many ways.

    Short ones, since a kernel is compiled for each product where there is no cuBLAS.
    """
    torch.manual_seed(length)
    builder = NetworkBuilder({"s0": Range(1, 8)})
    x = builder.input("x", DType.FLOAT32, [symbol("s0"), 5])
    for number in range(length):
        with builder.at(Origin("aten.linear.default", f"linear_{number}")):
            weight = builder.constant(torch.randn(5, 5))
            x = builder.add_single(MatrixMultiply(MatrixOperation.NONE, MatrixOperation.TRANSPOSE), x, weight)
            x = builder.add_single(Activation(ActivationType.TANH), x)
    builder.output("y", x)
    return builder.build()


def _build_many() -> None:
    """Engines of 24 networks, as many at once as there may be."""
    wanted = [(_chain(1 + number % 3), PROFILE) for number in range(24)]
    asked = CompileOptions(optimization_level=0, build_jobs=8)
    engines = build_engines(get_backend("tensorrt"), wanted, asked, get_target(None))
    x = torch.randn(3, 5)
    for engine, (network, _) in zip(engines, wanted, strict=True):
        (y,) = get_backend("tensorrt").load(engine.blob, engine.manifest)([x.cuda()])
        # Sums of five terms in another order, through up to three layers.
        torch.testing.assert_close(y.cpu(), run(network, [x])[0], rtol=1e-4, atol=1e-4)


def test_many_at_once_do_not_stand_still() -> None:
    """In a process of its own: threads that wait for each other for ever hold Python's lock."""
    process = multiprocessing.get_context("spawn").Process(target=_build_many)
    process.start()
    process.join(LIMIT_S)
    stood_still = process.is_alive()
    process.kill()
    process.join()
    assert not stood_still
    assert process.exitcode == 0


def test_engines_from_the_cache_run(tmp_path: Path) -> None:
    models = _models(2)
    options = {"engine_cache": str(tmp_path / "engines"), "build_jobs": 2}
    first, again = _built(models, **options), _built(models, **options)
    assert [engine.saved for engine in (*first, *again)] == [False, False, True, True]
    assert [engine.blob for engine in first] == [engine.blob for engine in again]
    _check(again, models)
    other = _built(models, **options, tf32=True)
    assert [engine.saved for engine in other] == [False, False]


def test_builds_at_once_share_a_timing_cache(tmp_path: Path, logged: Logged) -> None:
    path = tmp_path / "timings"
    models = _models(3)
    with logged.at_level(logging.WARNING, "trtdiag.tensorrt.timings"):
        _check(_built(models, timing_cache=str(path), build_jobs=3), models)
        size = path.stat().st_size
        _check(_built(models, timing_cache=str(path)), models)
    assert size > 0
    assert path.stat().st_size >= size
    assert [entry.name for entry in tmp_path.iterdir()] == ["timings"]
    path.write_bytes(b"no timing cache" * 9)
    _check(_built(models[:1], timing_cache=str(path)), models[:1])
    # TensorRT has warnings of its own, about the last file among others: what counts is that each file was written.
    assert not [record for record in logged.records if record.name == "trtdiag.tensorrt.timings"]


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
