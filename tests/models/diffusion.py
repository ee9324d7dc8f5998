"""Diffusion models and their autoencoders."""

from __future__ import annotations

import torch
from torch.export import Dim

from tests.models.asks import BATCH, BATCH_SEQ, H8, SEQ, W8, diffusers_model, image, positional
from tests.models.registry import zoo

LATENT = {0: BATCH, 2: H8, 3: W8}
UNET = {
    "sample_size": 32,
    "in_channels": 4,
    "out_channels": 4,
    "cross_attention_dim": 64,
    "attention_head_dim": 8,
    "norm_num_groups": 16,
}


def _unet(m, *more):
    def f(m, x, t, e, *added):
        conditions = {"text_embeds": added[0], "time_ids": added[1]} if added else None
        return m(x, t, e, added_cond_kwargs=conditions, return_dict=False)[0]

    return positional(
        m,
        f,
        (torch.randn(2, 4, 32, 40), LATENT),
        (torch.tensor([10, 10]), {0: BATCH}),
        (torch.randn(2, 77, 64), {0: BATCH}),
        *more,
    )


@zoo("diffusion")
def unet_sd15():
    return _unet(diffusers_model("UNet2DConditionModel", block_out_channels=(32, 64, 128, 128), **UNET))


@zoo("diffusion")
def unet_sdxl():
    m = diffusers_model(
        "UNet2DConditionModel",
        block_out_channels=(32, 64, 128),
        transformer_layers_per_block=(1, 2, 10),
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
        use_linear_projection=True,
        addition_embed_type="text_time",
        addition_time_embed_dim=32,
        projection_class_embeddings_input_dim=32 * 6 + 64,
        **UNET,
    )
    return _unet(m, (torch.randn(2, 64), {0: BATCH}), (torch.ones(2, 6), {0: BATCH}))


@zoo("diffusion")
def controlnet():
    m = diffusers_model(
        "ControlNetModel",
        block_out_channels=(32, 64, 128, 128),
        cross_attention_dim=64,
        attention_head_dim=8,
        norm_num_groups=16,
    )

    def f(m, x, t, e, c):
        d, mid = m(x, t, e, c, return_dict=False)
        return (*d, mid)

    return positional(
        m,
        f,
        (torch.randn(2, 4, 32, 32), {0: BATCH}),
        (torch.tensor([10, 10]), {0: BATCH}),
        (torch.randn(2, 77, 64), {0: BATCH}),
        (image(256, 256), {0: BATCH}),
    )


@zoo("diffusion")
def pixart():
    m = diffusers_model(
        "PixArtTransformer2DModel",
        num_attention_heads=4,
        attention_head_dim=24,
        num_layers=8,
        sample_size=32,
        caption_channels=64,
        cross_attention_dim=96,
    )
    return positional(
        m,
        lambda m, x, e, t, a: m(x, e, t, encoder_attention_mask=a, return_dict=False)[0],
        (torch.randn(2, 4, 32, 32), {0: BATCH}),
        (torch.randn(2, 40, 64), BATCH_SEQ),
        (torch.tensor([10, 10]), {0: BATCH}),
        (torch.ones(2, 40), BATCH_SEQ),
    )


@zoo("diffusion")
def flux_dit():
    m = diffusers_model(
        "FluxTransformer2DModel",
        in_channels=16,
        num_layers=6,
        num_single_layers=12,
        attention_head_dim=32,
        num_attention_heads=2,
        joint_attention_dim=64,
        pooled_projection_dim=32,
        guidance_embeds=True,
        axes_dims_rope=(8, 12, 12),
    )
    n = Dim("tokens", min=16, max=4096)
    return positional(
        m,
        lambda m, x, e, p, t, ii, ti, g: m(x, e, p, t, ii, ti, g, return_dict=False)[0],
        (torch.randn(2, 80, 16), {0: BATCH, 1: n}),
        (torch.randn(2, 24, 64), BATCH_SEQ),
        (torch.randn(2, 32), {0: BATCH}),
        (torch.tensor([0.5, 0.5]), {0: BATCH}),
        (torch.rand(80, 3), {0: n}),
        (torch.zeros(24, 3), {0: SEQ}),
        (torch.tensor([3.5, 3.5]), {0: BATCH}),
    )


def _vae():
    return diffusers_model(
        "AutoencoderKL",
        block_out_channels=(32, 64, 128, 128),
        layers_per_block=2,
        norm_num_groups=16,
        latent_channels=4,
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
    )


@zoo("diffusion")
def vae_decoder():
    return positional(
        _vae(),
        lambda m, z: m.decode(z, return_dict=False)[0],
        (torch.randn(2, 4, 16, 20), {0: BATCH, 2: Dim("lh", min=4, max=64), 3: Dim("lw", min=4, max=64)}),
    )


@zoo("diffusion")
def taesd_decoder():
    return positional(
        diffusers_model("AutoencoderTiny"),
        lambda m, z: m.decode(z, return_dict=False)[0],
        (torch.randn(2, 4, 16, 20), {0: BATCH, 2: Dim("lh", min=4, max=64), 3: Dim("lw", min=4, max=64)}),
    )
