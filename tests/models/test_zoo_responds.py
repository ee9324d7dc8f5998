"""Agreement on the zoo means something: its outputs depend on its inputs, and no branch of a model is switched off."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pytest
import torch
from torch import nn

from tests.models import zoo
from tests.models.expected_findings import REFUSED
from tests.models.initialization import NEEDS, SEEDS, Need, initialize, vanishing
from tests.models.library import needs_library
from tests.models.registry import Ask
from tests.models.responses import Responses

# An error of a hundredth of what the inputs do to an output is seen; the tolerance counts its absolute part, too, below
# which an output of 1e-5 says as little as a constant.
LEAST = 100.0
# Of what one of several inputs does alone, a tenth: a mask of three places of 24, a position beside tokens.
LEAST_ALONE = 10.0
# A last ReLU that is 0 at nearly every element says nothing of these; PointPillars' canvas is empty for the most part.
LEAST_SHARE = 0.1

# In every test run: of what was given other weights one of each kind (boxes, convolutions, attention, both) that takes
# under half a second.  How weights are given is tested below on models of a few layers.
QUICK = ("yolov8n_like", "timm_efficientnet_b0", "timm_levit_128", "timm_xcit_tiny_12_p16_224")

# Model -> index of an input that no output sees -> why that is right.
UNSEEN: dict[str, dict[int, str]] = {
    "llm_gemma3_12l_static": {1: "of the positions only the first is read, which is 0 in other inputs, too"},
    "whisper_decoder_kv": {2: "keys and values of the encoder's states are in the cache already"},
}
# Model -> the end of the names of weights that vanish -> why that is right.
VANISHING: dict[str, dict[str, str]] = {
    "llm_gemma3_12l": {"norm.weight": "its RMSNorm scales by 1 + weight"},
    "llm_gemma3_12l_static": {"norm.weight": "its RMSNorm scales by 1 + weight"},
    "siglip": {"logit_scale": "its exponential is the scale"},
    "depth_anything_s": {"mask_token": "no patch is masked"},
    "sam_mask_decoder": {"": "the image encoder is not run, its output is an input"},
    "ast_audio": {
        "_token": "summands that the blocks after them see",
        "position_embeddings": "a summand of the patches: with their deviation it takes three parts of four from them",
    },
    "timm_vit_base_patch16_224": {"cls_token": "positions are added to it"},
    # Both begin as in Deformable DETR; comparing this model again takes a quarter of an hour.
    "mask2former_swin_t": {
        "relative_position_bias_table": "a summand of the scores",
        "sampling_offsets.weight": "offsets are the biases, which are not 0, for every input",
        "attention_weights.weight": "all places that are sampled weigh the same, for every input",
    },
}


def parameters() -> list[Any]:
    """Every model that exports; all but QUICK are slow."""
    return [
        pytest.param(name, marks=[pytest.mark.zoo] if name in QUICK else [pytest.mark.zoo, pytest.mark.slow])
        for name in zoo.ZOO
        if name not in REFUSED
    ]


@lru_cache(maxsize=1)
def asked(name: str) -> Ask:
    with needs_library(name):
        return zoo.build(name)


@pytest.mark.parametrize("name", parameters())
def test_outputs_depend_on_inputs(name: str) -> None:
    responses = Responses(asked(name))
    to_all = responses.to_all()
    assert to_all
    for found in to_all:
        assert found.tolerances >= LEAST
        assert found.share >= LEAST_SHARE
    changed = responses.changed
    alone = {k: max(found.tolerances for found in responses.to_one(k)) for k in changed} if len(changed) > 1 else {}
    assert {k for k, most in alone.items() if most < LEAST_ALONE} == set(UNSEEN.get(name, {})), alone


@pytest.mark.parametrize("name", parameters())
def test_no_branch_is_switched_off(name: str) -> None:
    allowed = tuple(VANISHING.get(name, {}))
    assert [weight for weight, _ in vanishing(asked(name)[0]) if not weight.endswith(allowed)] == []


def test_expectations_name_models_that_exist() -> None:
    assert set(NEEDS) | set(UNSEEN) | set(VANISHING) <= set(zoo.ZOO)
    assert set(SEEDS) | set(QUICK) <= set(NEEDS)


class Faint(nn.Module):
    """A branch that is scaled by nearly nothing, behind a norm without statistics and a dying convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Conv1d(3, 4, 1), nn.BatchNorm1d(4), nn.Conv1d(4, 4, 1)
        self.scale = nn.Parameter(torch.full((4,), 1e-6))
        self.bias = nn.Parameter(torch.ones(4))
        self.last.weight.data.zero_()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.last(self.norm(self.first(x)).relu())
        return (y * self.scale[:, None]) + self.bias[:, None]


def faint() -> Ask:
    torch.manual_seed(0)
    return Faint().eval(), (torch.randn(2, 3, 50),), {}, ({},)


def test_a_constant_output_is_found() -> None:
    (found,) = Responses(faint()).to_all()
    assert found.tolerances == 0
    assert found.share == 0


def test_an_output_below_the_absolute_tolerance_is_found() -> None:
    (found,) = Responses((nn.Hardtanh(-1e-7, 1e-7), (torch.randn(2, 50),), {}, ({},))).to_all()
    assert found.tolerances < 1  # though every element changes its sign, or nearly


def test_an_input_without_effect_is_found() -> None:
    class First(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor, ones: torch.Tensor) -> torch.Tensor:
            return x + 1e-6 * y * ones

    found = Responses((First(), (torch.randn(2, 5), torch.randn(2, 5), torch.ones(5)), {}, ({}, {}, {})))
    assert found.changed == [0, 1]  # ones stay ones
    assert found.to_one(0)[0].tolerances > LEAST
    assert found.to_one(1)[0].tolerances < 1


def test_a_faint_model_is_given_weights_that_show_its_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NEEDS, "faint", (Need.LIVE, Need.STATISTICS))
    module, args, kwargs, _ = faint()
    assert [name for name, _ in vanishing(module)] == ["scale", "last.weight"]
    initialize("faint", module, args, kwargs, 0)

    assert list(vanishing(module)) == []
    assert Responses((module, args, kwargs, ({},))).to_all()[0].tolerances > LEAST
    seen = module.first(args[0])
    torch.testing.assert_close(module.norm.running_mean, seen.mean((0, 2)))
    torch.testing.assert_close(module.norm.running_var, seen.var((0, 2)))
    assert (module.norm.momentum, int(module.norm.num_batches_tracked)) == (0.1, 0)
    assert not any(layer.training for layer in module.modules())
    assert all(weight.requires_grad for weight in module.parameters())

    again, *_ = faint()
    initialize("faint", again, args, kwargs, 0)
    for (name, first), second in zip(module.state_dict().items(), again.state_dict().values(), strict=True):
        assert torch.equal(first, second), name


def test_weights_keep_the_variance_through_layers_also_where_they_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NEEDS, "deep", (Need.KAIMING,))
    layers = [nn.utils.parametrizations.weight_norm(nn.Linear(64, 64)), *[nn.Linear(64, 64) for _ in range(7)]]
    module = nn.Sequential(*[step for layer in layers for step in (layer, nn.ReLU())]).eval()
    x = torch.randn(100, 64, generator=torch.Generator().manual_seed(1))
    before = layers[0].weight.detach().clone()

    def moves() -> float:
        """How far outputs lie apart over the batch: what biases add is the same in all of it."""
        return float(module(x).detach().std(0).mean())

    faint = moves()
    initialize("deep", module, (x,), {}, 0)
    assert not torch.equal(layers[0].weight, before)
    assert faint < 0.01
    assert moves() > 0.1


def test_a_model_that_needs_nothing_keeps_its_weights() -> None:
    module, args, kwargs, _ = faint()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    initialize("a model without needs", module, args, kwargs, 0)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
