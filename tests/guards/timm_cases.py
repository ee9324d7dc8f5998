"""Networks of timm."""

from __future__ import annotations

from tests.guards.asks import BATCH, Span, noise
from tests.guards.registry import Live, enter


def timm_model(name, architecture, *tags, shape=(2, 3, 64, 96), batch=True, **options):
    """Enter a model of one image, both sizes dynamic."""

    def build():
        import timm

        spec = {2: Span("h", 32, 2048), 3: Span("w", 32, 2048)}
        if batch:
            spec[0] = BATCH
        return Live(
            model=timm.create_model(architecture, pretrained=False, **options), args=(noise(*shape),), spec=(spec,)
        )

    enter(name, build, "timm", tags, architecture)


CLASSES = {"num_classes": 5}

timm_model(
    "timm_vit_dyn_pad",
    "vit_tiny_patch16_224",
    "vit",
    dynamic_img_size=True,
    dynamic_img_pad=True,
    depth=1,
    shape=(2, 3, 70, 90),
    **CLASSES,
)

timm_model(
    "timm_swin_nonstrict",
    "swin_tiny_patch4_window7_224",
    "swin",
    depths=(1, 1),
    embed_dim=24,
    num_heads=(2, 2),
    strict_img_size=False,
    img_size=64,
    shape=(2, 3, 64, 96),
    **CLASSES,
)

timm_model(
    "timm_swinv2",
    "swinv2_tiny_window8_256",
    "swin",
    depths=(1, 1),
    embed_dim=24,
    num_heads=(2, 2),
    img_size=64,
    strict_img_size=False,
    shape=(2, 3, 64, 64),
    **CLASSES,
)

timm_model("timm_convnext_atto", "convnext_atto", "conv", **CLASSES)

timm_model("timm_mnv3_small", "mobilenetv3_small_050", "conv", **CLASSES)

timm_model("timm_mixer", "mixer_s32_224", "mlp", img_size=64, shape=(2, 3, 64, 64), **CLASSES)

timm_model("timm_nest", "nest_tiny", "hier-attn", img_size=64, shape=(2, 3, 64, 64), **CLASSES)

timm_model("timm_edgenext", "edgenext_xx_small", "conv", **CLASSES)

timm_model("timm_mobilevit_xxs", "mobilevit_xxs", "hybrid", shape=(2, 3, 64, 128), **CLASSES)

timm_model("timm_mobilevitv2_050", "mobilevitv2_050", "hybrid", **CLASSES)

timm_model("timm_davit", "davit_tiny", "hier-attn", depths=(1, 1, 1, 1), shape=(2, 3, 64, 96), **CLASSES)

timm_model("timm_hrnet_w18_small", "hrnet_w18_small", "multi-res", shape=(1, 3, 64, 96), batch=False, **CLASSES)

timm_model("timm_dla34", "dla34", "conv", **CLASSES)

timm_model("timm_ghostnet", "ghostnet_050", "conv", **CLASSES)

timm_model("timm_fastvit_t8", "fastvit_t8", "hybrid", layers=(1, 1, 1, 1), **CLASSES)

timm_model("timm_inception_next", "inception_next_atto", "conv", depths=(1, 1, 1, 1), **CLASSES)

timm_model("timm_coatnet", "coatnet_0_rw_224", "hybrid", img_size=64, shape=(2, 3, 64, 64), **CLASSES)

timm_model("timm_maxvit_pico", "maxvit_pico_rw_256", "hybrid", img_size=64, shape=(2, 3, 64, 64), **CLASSES)

timm_model("timm_swiftformer", "swiftformer_xs", "hybrid", layers=(1, 1, 1, 1), **CLASSES)

timm_model(
    "timm_eva02_rope",
    "eva02_tiny_patch14_224",
    "vit",
    dynamic_img_size=True,
    depth=1,
    img_size=70,
    shape=(2, 3, 70, 98),
    **CLASSES,
)

timm_model("timm_cspdarknet", "cspresnet50", "conv", **CLASSES)

timm_model("timm_selecsls", "selecsls42", "conv", **CLASSES)
