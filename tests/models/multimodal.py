"""Images with text."""

from __future__ import annotations

import torch
from torch.export import Dim

from tests.models.asks import BATCH, BATCH_SEQ, image, padding_mask, positional, tokens, transformers_model
from tests.models.registry import zoo

VT = {"hidden_size": 96, "intermediate_size": 192, "num_attention_heads": 4, "num_hidden_layers": 12}
VT4 = dict(VT, num_hidden_layers=4)


@zoo("multimodal")
def clip():
    m = transformers_model(
        "CLIPModel",
        "CLIPConfig",
        text_config=dict(VT, vocab_size=1000, eos_token_id=999),
        vision_config=dict(VT, patch_size=32),
        projection_dim=64,
    )
    # A text is what its end token saw; without one CLIP takes the first token, which sees nothing but itself.
    texts = tokens()
    texts[:, -1] = 999
    return positional(
        m,
        lambda m, i, x, a: m(input_ids=i, pixel_values=x, attention_mask=a).logits_per_image,
        (texts, {0: Dim("texts", min=1, max=64), 1: Dim("len", min=2, max=77)}),
        (image(), {0: BATCH}),
        (padding_mask(), {0: Dim("texts", min=1, max=64), 1: Dim("len", min=2, max=77)}),
    )


@zoo("multimodal")
def siglip():
    m = transformers_model(
        "SiglipModel", "SiglipConfig", text_config=dict(VT4, vocab_size=1000), vision_config=dict(VT4, patch_size=16)
    )
    return positional(
        m,
        lambda m, i, x: m(input_ids=i, pixel_values=x).logits_per_image,
        (tokens(), {0: Dim("texts", min=1, max=64)}),
        (image(), {0: BATCH}),
    )


@zoo("multimodal")
def blip_caption():
    m = transformers_model(
        "BlipForConditionalGeneration",
        "BlipConfig",
        text_config=dict(VT4, vocab_size=1000, encoder_hidden_size=96),
        vision_config=dict(VT4, image_size=224),
    )
    return positional(
        m,
        lambda m, x, i, a: m(pixel_values=x, input_ids=i, attention_mask=a).logits,
        (image(), {0: BATCH}),
        (tokens(), BATCH_SEQ),
        (padding_mask(), BATCH_SEQ),
    )


@zoo("multimodal")
def blip2_qformer():
    m = transformers_model(
        "Blip2QFormerModel", "Blip2QFormerConfig", **dict(VT4, vocab_size=1000, encoder_hidden_size=80)
    )
    return positional(
        m,
        lambda m, q, e: m(query_embeds=q, encoder_hidden_states=e).last_hidden_state,
        (torch.randn(2, 32, 96), {0: BATCH}),
        (torch.randn(2, 50, 80), {0: BATCH, 1: Dim("patches", min=2, max=1024)}),
    )


@zoo("multimodal")
def qwen2_vl_vision():
    """Vision tower of Qwen2-VL: patch sequence plus an image grid tensor (data-dependent splits)."""
    import transformers
    from transformers.models.qwen2_vl.modeling_qwen2_vl import Qwen2VisionTransformerPretrainedModel

    m = Qwen2VisionTransformerPretrainedModel(
        transformers.Qwen2VLConfig(
            vision_config={"depth": 8, "embed_dim": 96, "num_heads": 4, "hidden_size": 96}
        ).vision_config
    ).eval()

    def f(m, x, g):
        o = m(x, grid_thw=g)
        return o if torch.is_tensor(o) else o.pooler_output

    return positional(
        m, f, (torch.randn(96, 1176), {0: 4 * Dim("_p4", min=4, max=1024)}), (torch.tensor([[1, 8, 12]]), None)
    )
