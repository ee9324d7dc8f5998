"""Real architectures quantized by torchao's PT2E flow: one engine each, as the quantized original but for its rounding.

What lies next to the middle between two steps falls to either side for a difference in the last digit, and later
quantizers pass that on.  So each op is held to PyTorch's on PyTorch's inputs, and where nearly all ops are equal to the
bit, the whole program is not a step apart.
"""

from __future__ import annotations

import pytest
import torch

from tests.harness.ops_alone import differences
from tests.models import zoo
from tests.models.library import needs_library
from trtdiag.options import CompileOptions
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.targets import get_rtx_target, installed_rtx_version
from trtdiag.verification.limits import VerifyLimits
from trtdiag.verification.lowered_run import values_of

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
# No step apart as a whole, at most sizes.  The others have attention, whose sums PyTorch's kernel forms in blocks,
# and on 8.6 GELU by its formula; what these are off by reaches over a middle somewhere.
EXACT = ("timm_resnet50", "timm_mobilenetv3_large_100", "pix2pix_unet")
# Of the magnitude of an output.  Seen 6.5e-7 and, on a CPU with wider vectors, 1.03e-6: attention, whose sums each
# CPU's kernel forms in blocks of its own.  It is 17 units of the last place of float32.
ROUNDING = 2e-6
# As in test_zoo.py: what is skipped is told, not passed.
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
    ran = [result for result in found.verification.results if not result.skipped]
    assert ran
    assert all(result.passed for result in ran)
    if name in EXACT:
        # A convolution of another size may form its sums in another order, and one of them fall on the other side of a
        # half: pix2pix_unet at one of ten sets of sizes, 1.5e-2 in all, on a CPU with AVX2.  It began with 3 of 8.8
        # million elements of one quantizer, one step apart and at most 5.8e-6 of a step from a half.
        exact = [max(error.max_rel for error in result.outputs) <= ROUNDING for result in ran]
        assert sum(exact) > len(exact) / 2
    generator = torch.Generator().manual_seed(3)
    inputs = [torch.randn(x.shape, generator=generator) if x.is_floating_point() else x for x in args]
    entering = [crossing.entering(x) for crossing, x in zip(one.inputs, inputs, strict=True)]
    alone = differences(one.network, values_of(found.plan.lowered, inputs), entering)
    assert len(alone) >= len(fused)
    # Quantizers and what dequantizes are equal to the bit.
    assert [op for op in alone if op.unlike and "quantize" in op.op] == []
    assert [op for op in alone if op.off > ROUNDING * op.magnitude] == []


@pytest.mark.skipif(installed_rtx_version() is None, reason="tensorrt-rtx is not installed")
@pytest.mark.parametrize("name", sorted(MODELS))
def test_the_real_builder_makes_one_engine_of_it(name: str) -> None:
    from tests.harness.pt2e_quantizer import pt2e_quantized

    with needs_library(name):
        module, args, _, dims = zoo.build(name)
    options = CompileOptions(get_rtx_target(None).version, "tensorrt-rtx", gpu=("sm86",), force=True, verify=False)
    found = compile_in_stages(pt2e_quantized(module.eval(), args, dims), options)
    facts = found.report.analysis.compilation
    assert facts is not None
    assert (len(facts.engines), facts.notes) == (1, ())
