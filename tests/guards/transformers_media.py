"""Image, audio and video models of transformers, from configurations."""

from __future__ import annotations

import torch
from torch import nn

from tests.guards.asks import BATCH, Span, noise, tokens
from tests.guards.registry import Live, case
from tests.guards.wrapping import FirstTensor, transformers_quiet


@case("transformers", "audio", note="encoder asks for exactly 3000 frames")
def hf_whisper_enc():
    t = transformers_quiet()
    c = t.WhisperConfig(
        vocab_size=64,
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        num_mel_bins=8,
        max_source_positions=50,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    return Live(
        model=FirstTensor(t.WhisperModel(c).encoder, ("input_features",)),
        args=(torch.randn(2, 8, 100),),
        spec=({0: BATCH, 2: Span("t", 2, 3000)},),
    )


@case("transformers", "audio")
def hf_whisper_full():
    t = transformers_quiet()
    c = t.WhisperConfig(
        vocab_size=64,
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        num_mel_bins=8,
        max_source_positions=50,
        max_target_positions=32,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    return Live(
        model=FirstTensor(
            t.WhisperForConditionalGeneration(c), ("input_features", "decoder_input_ids"), use_cache=False
        ),
        args=(torch.randn(2, 8, 100), tokens(2, 6)),
        spec=({0: BATCH}, {0: BATCH, 1: Span("t", 2, 448)}),
    )


@case("transformers", "audio")
def hf_encodec():
    t = transformers_quiet()
    c = t.EncodecConfig(
        num_filters=4,
        hidden_size=16,
        upsampling_ratios=[4, 2],
        num_residual_layers=1,
        num_lstm_layers=1,
        codebook_size=16,
        codebook_dim=16,
        target_bandwidths=[12.0],
        sampling_rate=8000,
    )
    m = t.EncodecModel(c)

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.m = m

        def forward(self, x):
            return self.m.decoder(self.m.encoder(x)) - x

    return Live(model=M(), args=(torch.randn(1, 1, 320),), spec=({2: Span("t", 64, 24000)},))


@case("transformers", "vision", "swin")
def hf_swin():
    t = transformers_quiet()
    c = t.SwinConfig(image_size=64, embed_dim=16, depths=[2, 2], num_heads=[2, 2], window_size=4)
    return Live(
        model=FirstTensor(t.SwinModel(c), ("pixel_values",), interpolate_pos_encoding=True),
        args=(noise(2, 3, 64, 96),),
        spec=({0: BATCH, 2: Span("h", 32, 1024), 3: Span("w", 32, 1024)},),
    )


@case("transformers", "vision", "swin")
def hf_swinv2():
    t = transformers_quiet()
    c = t.Swinv2Config(image_size=64, embed_dim=16, depths=[2, 2], num_heads=[2, 2], window_size=4)
    return Live(
        model=FirstTensor(t.Swinv2Model(c), ("pixel_values",), interpolate_pos_encoding=True),
        args=(noise(2, 3, 64, 96),),
        spec=({0: BATCH, 2: Span("h", 32, 1024), 3: Span("w", 32, 1024)},),
    )


@case("transformers", "vision", "swin", note="super-resolution, pads to the window")
def hf_swin2sr():
    t = transformers_quiet()
    c = t.Swin2SRConfig(image_size=32, embed_dim=16, depths=[2], num_heads=[2], window_size=8, upscale=2)
    return Live(
        model=FirstTensor(t.Swin2SRForImageSuperResolution(c), ("pixel_values",)),
        args=(noise(1, 3, 32, 48),),
        spec=({2: Span("h", 8, 1024), 3: Span("w", 8, 1024)},),
    )


@case("transformers", "vision", "vit")
def hf_clip_vision_interp():
    t = transformers_quiet()
    c = t.CLIPVisionConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4, image_size=64, patch_size=16
    )
    return Live(
        model=FirstTensor(t.CLIPVisionModel(c), ("pixel_values",), interpolate_pos_encoding=True),
        args=(noise(2, 3, 64, 96),),
        spec=({0: BATCH, 2: Span("h", 32, 1024), 3: Span("w", 32, 1024)},),
    )


@case("transformers", "vision", "vit")
def hf_clip_vision_static():
    t = transformers_quiet()
    c = t.CLIPVisionConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4, image_size=64, patch_size=16
    )
    return Live(
        model=FirstTensor(t.CLIPVisionModel(c), ("pixel_values",)),
        args=(noise(2, 3, 64, 64),),
        spec=({0: BATCH, 2: Span("h", 32, 1024), 3: Span("w", 32, 1024)},),
    )


@case("transformers", "vision", "vit")
def hf_dinov2():
    t = transformers_quiet()
    c = t.Dinov2Config(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=4, mlp_ratio=2, image_size=70, patch_size=14
    )
    return Live(
        model=FirstTensor(t.Dinov2Model(c), ("pixel_values",)),
        args=(noise(2, 3, 70, 98),),
        spec=({0: BATCH, 2: Span("h", 28, 1400), 3: Span("w", 28, 1400)},),
    )


@case("transformers", "vision", "depth")
def hf_depth_anything():
    t = transformers_quiet()
    b = t.Dinov2Config(
        hidden_size=32,
        num_hidden_layers=4,
        num_attention_heads=4,
        mlp_ratio=2,
        image_size=70,
        patch_size=14,
        out_indices=[1, 2, 3, 4],
        apply_layernorm=True,
        reshape_hidden_states=False,
    )
    c = t.DepthAnythingConfig(
        backbone_config=b,
        patch_size=14,
        reassemble_hidden_size=32,
        reassemble_factors=[4, 2, 1, 0.5],
        neck_hidden_sizes=[8, 8, 8, 8],
        fusion_hidden_size=8,
        head_hidden_size=8,
    )
    return Live(
        model=FirstTensor(t.DepthAnythingForDepthEstimation(c), ("pixel_values",)),
        args=(noise(1, 3, 70, 98),),
        spec=({2: Span("h", 28, 1400), 3: Span("w", 28, 1400)},),
    )


@case("transformers", "vision", "hybrid")
def hf_mobilevit_seg():
    t = transformers_quiet()
    c = t.MobileViTConfig(
        hidden_sizes=[16, 16, 16],
        neck_hidden_sizes=[8, 8, 16, 16, 16, 16, 32],
        num_attention_heads=2,
        num_labels=4,
        image_size=64,
        aspp_out_channels=16,
        atrous_rates=[2, 3, 4],
    )
    return Live(
        model=FirstTensor(t.MobileViTForSemanticSegmentation(c), ("pixel_values",)),
        args=(noise(2, 3, 64, 128),),
        spec=({0: BATCH, 2: Span("h", 32, 1024), 3: Span("w", 32, 1024)},),
    )


@case("transformers", "video")
def hf_videomae():
    t = transformers_quiet()
    c = t.VideoMAEConfig(
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=64,
        image_size=32,
        num_frames=4,
        patch_size=16,
    )
    return Live(
        model=FirstTensor(t.VideoMAEModel(c), ("pixel_values",)),
        args=(torch.randn(2, 4, 3, 32, 32),),
        spec=({0: BATCH, 1: Span("f", 2, 64)},),
    )


@case("transformers", "timeseries")
def hf_patchtst():
    t = transformers_quiet()
    c = t.PatchTSTConfig(
        num_input_channels=2,
        context_length=32,
        patch_length=8,
        patch_stride=8,
        d_model=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        ffn_dim=32,
        prediction_length=4,
    )
    return Live(
        model=FirstTensor(t.PatchTSTModel(c), ("past_values",)),
        args=(torch.randn(2, 32, 2),),
        spec=({0: BATCH, 1: Span("t", 8, 512)},),
    )


@case("transformers", "vision", "detr")
def hf_detr_like_pixelmask():
    t = transformers_quiet()
    b = t.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1], layer_type="basic", out_features=["stage4"]
    )
    c = t.DetrConfig(
        use_timm_backbone=False,
        backbone=None,
        use_pretrained_backbone=False,
        backbone_config=b,
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        num_queries=5,
        num_labels=3,
    )
    return Live(
        model=FirstTensor(t.DetrForObjectDetection(c), ("pixel_values", "pixel_mask")),
        args=(noise(1, 3, 64, 96), torch.ones(1, 64, 96, dtype=torch.long)),
        spec=({2: Span("h", 32, 1333), 3: Span("w", 32, 1333)}, {1: Span("h", 32, 1333), 2: Span("w", 32, 1333)}),
    )


@case("transformers", "vision", "detr")
def hf_yolos():
    t = transformers_quiet()
    c = t.YolosConfig(
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=64,
        image_size=[64, 96],
        patch_size=16,
        num_detection_tokens=5,
        use_mid_position_embeddings=False,
    )
    return Live(
        model=FirstTensor(t.YolosModel(c), ("pixel_values",)),
        args=(noise(1, 3, 64, 96),),
        spec=({2: Span("h", 32, 1333), 3: Span("w", 32, 1333)},),
    )
