"""Weights that let the outputs of a model depend on its inputs, where those of its library do not.

Agreement of a constant says nothing of what computes it, and random weights make constants in three ways.  Libraries
begin with weights of 0 or nearly so, which training would move: zero convolutions, the last norm or scale of a residual
branch, heads.  BatchNorm without statistics lets signals vanish with depth instead of giving them unit variance.  And
where there is no norm, PyTorch's initial weights lose a part of the signal at each layer, until the biases are all that
is left; He et al. 2015 (arXiv:1502.01852) keep the variance instead.

``NEEDS`` says which models need what.  All others keep the weights that their library gives them.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn

VANISHING = 1e-3
"""The greatest magnitude of weights that count as switched off; libraries begin live ones at deviations of 0.01 up."""

FEW = 32
"""Of fewer values than this a channel's variance is not taken by itself."""

_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_PRODUCTS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose2d)


class Need(enum.Enum):
    """What is done to a model, always in this order."""

    KAIMING = "weights of convolutions and linear layers that keep the variance through a ReLU"
    LIVE = "weights that vanish are drawn anew"
    STATISTICS = "BatchNorms take the mean and the variance of their inputs at the example"


NEEDS: dict[str, tuple[Need, ...]] = {
    # BatchNorms whose mean is 0 and variance 1, through tens of layers: outputs of one value, or of 1e-5 and less.
    **dict.fromkeys(
        (
            "crnn_ocr", "timm_efficientnet_b0", "timm_efficientvit_b0", "timm_xcit_tiny_12_p16_224",
            "tv_deeplabv3_mobilenet_v3_large", "tv_s3d", "tv_shufflenet_v2_x1_0", "yolov8n_like", "yolov8n_nms",
        ),
        (Need.STATISTICS,),
    ),
    # The same, and residual branches that begin with a scale of 0 or 1e-5.
    **dict.fromkeys(
        ("timm_levit_128", "timm_mobilenetv4_hybrid_medium", "timm_regnety_016", "timm_resnet50"),
        (Need.LIVE, Need.STATISTICS),
    ),
    # Such branches alone, a head of zeros, and an image encoder of weights of 1e-10.
    **dict.fromkeys(
        ("timm_swinv2_tiny_window8_256", "timm_vit_small_patch16_dinov3", "timm_sequencer2d_s", "blip_caption"),
        (Need.LIVE,),
    ),
    # Convolutions that shrink what they get, with no norm behind them: of ControlNet those of the image that guides it.
    "tcn": (Need.KAIMING,),
    "depth_anything_s": (Need.KAIMING,),
    "controlnet": (Need.KAIMING, Need.LIVE),
    "vitmatte": (Need.KAIMING, Need.LIVE, Need.STATISTICS),
}  # fmt: skip
# Model -> what is added to the seed.  Depths come out of a ReLU, and most draws give nearly all pixels a 0.
SEEDS = {"depth_anything_s": 15}


def initialize(name: str, module: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], seed: int) -> None:
    """Give a model the weights and statistics that it needs, in place.

    Args:
        name: In the zoo.
        module: In eval mode.
        args: Its example inputs, for the statistics.
        kwargs: Those by keyword.
        seed: Of the weights that are drawn.
    """
    needs = NEEDS.get(name, ())
    generator = torch.Generator().manual_seed(seed + SEEDS.get(name, 0))
    with torch.no_grad():
        if Need.KAIMING in needs:
            _draw_kaiming(module, generator)
        if Need.LIVE in needs:
            _draw_vanishing(module, generator)
        if Need.STATISTICS in needs:
            gather_statistics(module, args, kwargs)


def vanishing(module: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """Names and weights that are 0 or nearly so; biases may be."""
    for name, weight in module.named_parameters():
        if weight.numel() and not name.endswith("bias") and float(weight.detach().abs().max()) < VANISHING:
            yield name, weight


def _draw_vanishing(module: nn.Module, generator: torch.Generator) -> None:
    layers = {id(layer.weight) for layer in module.modules() if isinstance(layer, _PRODUCTS)}
    for _, weight in vanishing(module):
        if weight.dim() < 2:
            # The scale of a residual branch.  A tenth is seen, and the sum of all stays near 1: with branches of full
            # strength LeViT makes of rounding 3e-2 of its output, whoever computes it.
            weight.uniform_(0.05, 0.15, generator=generator)
        elif id(weight) in layers:
            nn.init.kaiming_normal_(weight, nonlinearity="linear", generator=generator)
        else:  # a token, or a table of positions: added to what has unit variance
            weight.normal_(generator=generator)


def _draw_kaiming(module: nn.Module, generator: torch.Generator) -> None:
    for layer in module.modules():
        if isinstance(layer, _PRODUCTS):
            # Through a copy: the weight of a parametrized layer is computed, and takes what is assigned to it.
            drawn = torch.empty_like(layer.weight)
            nn.init.kaiming_normal_(drawn, nonlinearity="relu", generator=generator)
            if nn.utils.parametrize.is_parametrized(layer, "weight"):
                layer.weight = drawn
            else:
                layer.weight.copy_(drawn)


def gather_statistics(module: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Let each batch norm take the mean and the variance of what it gets at the example, in place."""
    norms = [layer for layer in module.modules() if isinstance(layer, _BATCH_NORMS)]
    before = [(norm.momentum, norm.num_batches_tracked.clone()) for norm in norms]
    hooks = [norm.register_forward_hook(_share_variance) for norm in norms]
    for norm in norms:
        norm.train()
        norm.momentum = 1.0  # what it sees now replaces what it began with
    module(*args, **kwargs)
    for norm, hook, (momentum, tracked) in zip(norms, hooks, before, strict=True):
        hook.remove()
        norm.eval()
        norm.momentum = momentum
        norm.num_batches_tracked.copy_(tracked)


def _share_variance(norm: nn.Module, inputs: tuple[torch.Tensor, ...], _: torch.Tensor) -> None:
    """One variance for all channels where each has few values: that of two values is by chance as good as 0.

    Divided by its root, the last digits of a channel would be what the output is made of.
    """
    values, variance = inputs[0], norm.running_var
    if values.numel() < FEW * variance.numel():
        variance.fill_(float(variance.mean()))
