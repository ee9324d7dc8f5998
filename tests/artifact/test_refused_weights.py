"""Adapters and weights that are none are refused by what is wrong, and a refit that did not end did nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from torch import nn

import trtdiag
from trtdiag.artifact.lora import merged
from trtdiag.artifact.model_weights import model_weights
from trtdiag.errors import UserError

WEIGHT = {"fc.weight": torch.zeros(3, 4)}
DOWN, UP = torch.ones(2, 4), torch.ones(3, 2)
CONFIGS = {
    "[]": "no JSON object",
    "{": "cannot be read",
    "[" * 100_000: "cannot be read",
    '{"lora_alpha": "x"}': 'lora_alpha is "x", no number',
    '{"lora_alpha": null}': "lora_alpha is null, no number",
    '{"lora_alpha": true}': "lora_alpha is true, no number",
    '{"lora_alpha": NaN}': "lora_alpha is NaN, no number",
    '{"lora_alpha": 1e400}': "lora_alpha is Infinity, no number",
    '{"alpha_pattern": [1]}': "alpha_pattern is no JSON object",
    '{"alpha_pattern": {"fc": "x"}}': 'fc is "x", no number',
    '{"alpha_pattern": {"(": 3}}': "no regular expression",
}


@pytest.mark.parametrize(("config", "why"), CONFIGS.items(), ids=range(len(CONFIGS)))
def test_a_configuration_that_says_no_alpha(tmp_path: Path, config: str, why: str) -> None:
    torch.save({"fc.lora_A.weight": DOWN, "fc.lora_B.weight": UP}, tmp_path / "adapter_model.bin")
    (tmp_path / "adapter_config.json").write_text(config)
    with pytest.raises(UserError) as caught:
        merged(WEIGHT, tmp_path)
    assert caught.value.reference == "adapter-not-read"
    assert why in caught.value.because
    (tmp_path / "adapter_config.json").write_text('{"lora_alpha": 4, "alpha_pattern": {"f.": 6}}')
    assert torch.equal(merged(WEIGHT, tmp_path)["fc.weight"], torch.full((3, 4), 6 / 2 * 2.0))


@pytest.mark.parametrize(
    "alpha", [torch.ones(3), torch.ones(0), torch.tensor(torch.inf), torch.ones((), device="meta"), torch.ones(()) * 1j]
)
def test_an_alpha_that_is_no_number(alpha: torch.Tensor) -> None:
    with pytest.raises(UserError, match=r"fc\.alpha is no number"):
        merged(WEIGHT, {"fc.lora_down.weight": DOWN, "fc.lora_up.weight": UP, "fc.alpha": alpha})


@pytest.mark.parametrize("odd", [DOWN.to_sparse(), DOWN.to("meta"), DOWN * 1j, DOWN.int(), torch.tensor(1.0)])
def test_a_factor_that_is_none(odd: torch.Tensor) -> None:
    with pytest.raises(UserError, match=r"no real elements|the factors of fc are") as caught:
        merged(WEIGHT, {"fc.lora_down.weight": odd, "fc.lora_up.weight": UP})
    assert caught.value.reference == "adapter-does-not-fit"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize("name", ["pipe.safetensors", "pipe.pt", "pipe.pt2"])
def test_a_pipe_is_not_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(UserError, match="named pipe"):
        model_weights(tmp_path / name)
    if not name.endswith("pt2"):
        with pytest.raises(UserError, match="named pipe"):
            merged(WEIGHT, tmp_path / name)


def test_a_refit_that_was_interrupted_did_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither while the weights change nor while the outputs are compared."""
    old, new = (nn.Linear(4, 3).eval() for _ in range(2))
    dims = {"input": {0: torch.export.Dim("n", min=1, max=8)}}
    model = torch.export.export(new, (torch.ones(2, 4),), dynamic_shapes=dims)
    usual = {"backend": "reference", "min_segment_ops": 0, "verify": False, "engine_weights": "once"}
    compiled = trtdiag.compile((old, (torch.ones(2, 4),), {}, dims), refittable=True, **usual)
    x, plan = torch.randn(3, 4), compiled.refit_plan
    before = compiled(x)

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    for place in ("verify_saved", "refit_with"):
        with monkeypatch.context() as patch:
            patch.setattr(f"trtdiag.pipeline.refit.{place}", interrupted)
            with pytest.raises(KeyboardInterrupt):
                trtdiag.refit(compiled, new, model=model)
        assert torch.equal(compiled(x), before)
        assert compiled.refit_plan is plan
    trtdiag.refit(compiled, new, model=model)
    torch.testing.assert_close(compiled(x), new(x))


def test_a_file_that_torch_save_did_not_write_is_told_by_what_it_is(tmp_path: Path) -> None:
    file = tmp_path / "weights.pt"
    torch.save(torch.nn.Linear(3, 2), file)
    for written, why in ((file.read_bytes(), "could run code"), (b"", "it is empty"), (b"hello", "looks like text")):
        file.write_bytes(written)
        with pytest.raises(UserError, match="cannot be read") as caught:
            model_weights(file)
        assert why in caught.value.because


INDICES = {
    "[" * 100_000: "cannot be read",
    '{"weight_map": {"a": 1, "b": "x"}}': "cannot be read",
    '{"weight_map": {"a": 1}}': "says 1, no name",
    '{"weight_map": {"a": ""}}': "says '', no name",
    '{"weight_map": {"a": ".."}}': "says '..', no name",
}


@pytest.mark.parametrize(("index", "why"), INDICES.items(), ids=range(len(INDICES)))
def test_an_index_that_names_no_files(tmp_path: Path, index: str, why: str) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(index)
    with pytest.raises(UserError) as caught:
        model_weights(tmp_path)
    assert caught.value.reference == "weights-not-read"
    assert why in caught.value.because
