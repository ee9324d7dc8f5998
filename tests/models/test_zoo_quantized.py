"""Real architectures quantized by torchao's PT2E flow: one engine each, as the quantized original but for its rounding.

The bound is ``QUANTIZED`` of ``trtdiag/verification/compare.py``, or what the original itself moves by where its inputs
change by one unit in the last place: what lies next to the middle between two steps may fall to either side.
"""

from __future__ import annotations

import pytest

from tests.models import zoo
from tests.models.library import needs_library
from trtdiag.options import CompileOptions
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.verification.limits import VerifyLimits

pytestmark = [pytest.mark.zoo, pytest.mark.slow]
pytest.importorskip("torchao", reason="torchao is an extra")
# By model: how many convolutions and products read quantized tensors at least.
MODELS = {
    "timm_resnet50": 53,
    "timm_mobilenetv3_large_100": 60,
    "timm_vit_base_patch16_224": 49,
    "bert_base": 72,
    "pix2pix_unet": 9,
}
# As in test_zoo_compile.py: what is skipped is told, not passed.
LIMITS = VerifyLimits(seconds=3.0, elements=1 << 29, total_s=0)


@pytest.mark.parametrize("target", ["8.6", "11.4"])
@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_quantized_model_is_one_engine_and_agrees(name: str, target: str) -> None:
    from tests.harness.pt2e_quantizer import pt2e_quantized

    with needs_library(name):
        module, args, kwargs, dims = zoo.build(name)
    assert not kwargs
    program = pt2e_quantized(module.eval(), args, dims)
    found = compile_in_stages(program, CompileOptions(target, "reference", force=True), limits=LIMITS)
    (one,) = found.converted
    made = {number: placed for placed in one.network.layers for number in placed.outputs}

    def is_dequantized(number: int) -> bool:
        """A Shuffle may stand between, which gives weights the rank of what they multiply, as ONNX's parser does."""
        placed = made.get(number)
        while placed is not None and placed.layer.kind == "Shuffle":
            placed = made.get(placed.inputs[0])
        return placed is not None and placed.layer.kind == "Dequantize"

    products = [p for p in one.network.layers if p.layer.kind in ("Convolution", "Deconvolution", "MatrixMultiply")]
    fused = [placed for placed in products if all(map(is_dequantized, placed.inputs[:2]))]
    assert len(fused) >= MODELS[name]
    assert found.verification is not None
    wrong = [result for result in found.verification.results if not result.passed and not result.skipped]
    assert not wrong
