"""Refits by the real TensorRT beside fresh builds with the same weights; needs a GPU and TensorRT."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import trtdiag
from tests.engine.refit_models import MODELS, refit_model
from trtdiag.targets import installed_version

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        installed_version() is None or not torch.cuda.is_available(), reason="needs TensorRT and a GPU to build for"
    ),
]


@pytest.mark.parametrize("name", MODELS)
def test_a_refit_gives_what_a_fresh_build_gives(name: str, tmp_path: Path) -> None:
    old, sizes = refit_model(name, 1)
    new, _ = refit_model(name, 2)
    options = {"backend": "tensorrt", "optimization_level": 1, "min_segment_ops": 0, "verify": False}
    compiled = trtdiag.compile(old, inputs=[sizes], refittable=True, **options)
    fresh = trtdiag.compile(new, inputs=[sizes], **options)
    x = torch.randn(sizes.opt, generator=torch.Generator().manual_seed(3)).cuda()
    before = compiled(x)
    trtdiag.refit(compiled, new)
    # The limit that was asked for: kernels may add in another order.
    torch.testing.assert_close(compiled(x), fresh(x), rtol=1e-4, atol=1e-4)
    assert not torch.allclose(compiled(x), before, rtol=1e-3, atol=1e-3)
    trtdiag.save(compiled, tmp_path / "refitted.pt2")
    torch.testing.assert_close(trtdiag.load(tmp_path / "refitted.pt2")(x), compiled(x))


@pytest.mark.parametrize("where", ["once", "none"])
def test_engines_without_weights(where: str, tmp_path: Path) -> None:
    torch.manual_seed(5)
    model = torch.nn.Sequential(*(torch.nn.Linear(2048, 2048) for _ in range(3))).eval()
    sizes = trtdiag.Input(min=(1, 2048), opt=(4, 2048), max=(8, 2048))
    compiled = trtdiag.compile(
        model, inputs=[sizes], backend="tensorrt", optimization_level=1, min_segment_ops=0, engine_weights=where
    )
    trtdiag.save(compiled, tmp_path / "bare.pt2")
    own = sum(each.nbytes for each in model.parameters())
    size = (tmp_path / "bare.pt2").stat().st_size
    assert size < (1.1 * own if where == "once" else 0.05 * own)
    weights = None if where == "once" else model
    x = torch.randn(sizes.opt).cuda()
    torch.testing.assert_close(trtdiag.load(tmp_path / "bare.pt2", weights=weights)(x), compiled(x))
