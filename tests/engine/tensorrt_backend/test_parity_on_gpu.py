"""Every layer kind and the small models on TensorRT beside the reference; needs a GPU and TensorRT."""

from __future__ import annotations

import pytest
import torch
from gpu_parity import LAYER_DTYPES, PRECISIONS, layer_parity, program_parity, seed_parity
from layer_samples import CASES, lacks
from seed_models import SEEDS

from trtdiag.errors import EngineBuildError
from trtdiag.options import CompileOptions
from trtdiag.targets import get_target, installed_version

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        installed_version() is None or not torch.cuda.is_available(), reason="needs TensorRT and a GPU to build for"
    ),
]
OPTIONS = CompileOptions(get_target(None).version, "tensorrt", optimization_level=1)
# Quantize of what is computed, by channel: TensorRT's guide has it for weights alone ("Working with Quantized Types"),
# as converters write it.  8.6.0 gave other numbers in two runs beside other tests, and the right ones alone; the cause
# is not known.
NOT_PROMISED = {"8.6": ["quantize_int8_each"]}


@pytest.mark.parametrize("precision", LAYER_DTYPES)
@pytest.mark.parametrize("name", CASES)
def test_a_layer(name: str, precision: str) -> None:
    if lacks(name, OPTIONS.target or ""):
        pytest.skip(f"TensorRT {OPTIONS.target} has no such layer; converters write it with others")
    if name in NOT_PROMISED.get(OPTIONS.target or "", ()):
        pytest.skip(f"TensorRT {OPTIONS.target} promises nothing of it, and no converter writes it")
    try:
        found = layer_parity(name, precision, OPTIONS)
    except EngineBuildError as error:
        if error.reference != "layer-missing":
            raise
        pytest.skip(f"{error.message}; converters write it with others")
    if found is None:
        pytest.skip(f"the layer has no {precision}")
    assert found.agrees, found


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", SEEDS)
def test_networks_of_a_model(name: str, precision: str) -> None:
    found = seed_parity(name, precision, OPTIONS)
    assert found.agrees, found


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", SEEDS)
def test_a_compiled_model(name: str, precision: str) -> None:
    found = program_parity(name, precision, OPTIONS)
    assert found.agrees, found
