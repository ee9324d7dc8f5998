"""A handful of real architectures, exported on the CPU and compiled for TensorRT, right at the corners that fit."""

from __future__ import annotations

import pytest
import torch

from tests.models import zoo
from tests.models.library import needs_library
from trtdiag.options import CompileOptions, PartitionOptions
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.targets import get_target, installed_version
from trtdiag.verification.limits import VerifyLimits

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.usefixtures("whole_float32"),
    pytest.mark.slow,
    pytest.mark.zoo,
    pytest.mark.skipif(
        installed_version() is None or not torch.cuda.is_available(), reason="needs TensorRT and a GPU to build for"
    ),
]
# A U-Net, a convolution over time, a field, a decoder, an encoder, and one that data keeps in several pieces.
MODELS = ("pix2pix_unet", "tcn", "nerf_mlp", "llm_gpt2_12l", "bert_base", "pyg_gat")
# As sorts in an engine of 8.6 they are 2,200 layers, whose build does not end in 7 minutes.
KEPT = {"pyg_gat": ("aten.index_add", "aten.index_reduce")}
# A point that takes more on the GPU would make a test of minutes; what is skipped is told, not passed.
LIMITS = VerifyLimits(seconds=5.0, total_s=0)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_agrees_on_the_gpu(name: str) -> None:
    with needs_library(name):
        asked = zoo.build(name)
    target = get_target(None).version
    parts = PartitionOptions(keep_in_torch=KEPT.get(name, ()))
    options = CompileOptions(target, "tensorrt", optimization_level=1, workspace_mib=4096, force=True, partition=parts)
    found = compile_in_stages(asked, options, limits=LIMITS)
    assert {manifest.backend for manifest in found.compiled.manifests} == {"tensorrt"}
    assert found.verification is not None
    wrong = [result for result in found.verification.results if not result.passed and not result.skipped]
    assert not wrong, (wrong, found.verification.culprit)
    assert found.verification.results[0].passed, found.verification.results[0].skipped  # the example
