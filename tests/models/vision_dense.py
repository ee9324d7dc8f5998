"""Segmentation, depth, flow, matting and keypoints."""

from __future__ import annotations

import functools
import itertools

import torch
from torch import nn
from torch.export import Dim

from tests.models.asks import (
    BATCH,
    BATCH_HW,
    BATCH_HW32,
    image,
    positional,
    single,
    torchvision_model,
    transformers_model,
)
from tests.models.registry import zoo


@zoo("vision_dense")
def tv_deeplabv3_mobilenet_v3_large():
    m = torchvision_model("segmentation.deeplabv3_mobilenet_v3_large")(weights=None, weights_backbone=None)
    return positional(m, lambda m, x: m(x)["out"], (image(224, 256), BATCH_HW))


@zoo("vision_dense")
def tv_raft_small():
    dims = {0: BATCH, 2: 8 * Dim("_fh", min=16, max=64), 3: 8 * Dim("_fw", min=16, max=64)}
    m = torchvision_model("optical_flow.raft_small")(weights=None)
    frames = [(image(128, 160) * 2 - 1, dims) for _ in range(2)]
    return positional(m, lambda m, a, b: m(a, b, num_flow_updates=12)[-1], *frames)


SMP = {
    "Unet": "resnet34",
    "FPN": "resnet18",
}


def build_smp(arch):
    import segmentation_models_pytorch as smp

    return single(getattr(smp, arch)(encoder_name=SMP[arch], encoder_weights=None), image(224, 256), BATCH_HW32)


for _name in SMP:
    zoo("vision_dense", "smp_" + _name.lower())(functools.partial(build_smp, _name))


@zoo("vision_dense")
def segformer_b0():
    m = transformers_model("SegformerForSemanticSegmentation", "SegformerConfig", num_labels=19)
    return positional(m, lambda m, x: m(x).logits, (image(224, 256), BATCH_HW32))


@zoo("vision_dense")
def mask2former_swin_t():
    import scipy  # noqa: F401  transformers asks for it only when the model is made, with an ImportError of its own
    import transformers

    m = transformers_model(
        "Mask2FormerForUniversalSegmentation",
        transformers.Mask2FormerConfig(
            backbone_config=transformers.SwinConfig(
                depths=[2, 2, 6, 2],
                num_heads=[3, 6, 12, 24],
                embed_dim=48,
                out_features=["stage1", "stage2", "stage3", "stage4"],
            ),
            num_labels=80,
        ),
    )

    def f(m, x):
        o = m(x)
        return o.class_queries_logits, o.masks_queries_logits

    return positional(m, f, (image(224, 256), BATCH_HW32))


@zoo("vision_dense")
def depth_anything_s():
    import transformers

    b = transformers.Dinov2Config(
        hidden_size=192,
        num_attention_heads=3,
        image_size=518,
        patch_size=14,
        out_features=["stage3", "stage6", "stage9", "stage12"],
        reshape_hidden_states=False,
    )
    m = transformers_model(
        "DepthAnythingForDepthEstimation",
        transformers.DepthAnythingConfig(
            backbone_config=b,
            reassemble_hidden_size=192,
            patch_size=14,
            neck_hidden_sizes=[24, 48, 96, 192],
            fusion_hidden_size=32,
        ),
    )
    d = {0: BATCH, 2: 14 * Dim("_h14", min=4, max=37), 3: 14 * Dim("_w14", min=4, max=37)}
    return positional(m, lambda m, x: m(x).predicted_depth, (image(224, 280), d))


@zoo("vision_dense")
def sam_mask_decoder():
    import transformers

    v = transformers.SamVisionConfig(
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        mlp_dim=64,
        output_channels=256,
        image_size=1024,
        global_attn_indexes=[0],
    )
    m = transformers.SamModel(transformers.SamConfig(vision_config=v.to_dict())).eval()

    def f(m, emb, pts, lab):
        o = m(image_embeddings=emb, input_points=pts, input_labels=lab, multimask_output=True)
        return o.pred_masks, o.iou_scores

    n = Dim("points", min=1, max=64)
    return positional(
        m,
        f,
        (torch.randn(2, 256, 64, 64), {0: BATCH}),
        (torch.rand(2, 1, 5, 2) * 1024, {0: BATCH, 2: n}),
        (torch.ones(2, 1, 5, dtype=torch.int64), {0: BATCH, 2: n}),
    )


@zoo("vision_dense")
def vitpose():
    import transformers

    m = transformers_model(
        "VitPoseForPoseEstimation",
        transformers.VitPoseConfig(
            backbone_config=transformers.VitPoseBackboneConfig(
                hidden_size=192, num_hidden_layers=12, num_attention_heads=3, out_indices=[12]
            ),
            num_labels=17,
        ),
    )
    return positional(m, lambda m, x: m(x).heatmaps, (image(256, 192), {0: BATCH}))


@zoo("vision_dense")
def vitmatte():
    import transformers

    b = transformers.VitDetConfig(
        hidden_size=96,
        num_hidden_layers=12,
        num_attention_heads=3,
        image_size=224,
        pretrain_image_size=224,
        patch_size=16,
        num_channels=4,
        window_size=7,
        window_block_indices=[0, 1, 3, 4, 6, 7, 9, 10],
        residual_block_indices=[2, 5, 8, 11],
        use_relative_position_embeddings=True,
        out_features=["stage12"],
    )
    m = transformers_model(
        "VitMatteForImageMatting",
        transformers.VitMatteConfig(
            backbone_config=b,
            hidden_size=96,
            convstream_hidden_sizes=[48, 96, 192],
            fusion_hidden_sizes=[64, 48, 32, 16],
        ),
    )
    return positional(m, lambda m, x: m(x).alphas, (image(224, 224, 2, 4), {0: BATCH}))


@zoo("vision_dense")
def unet3d():
    class C(nn.Sequential):
        def __init__(self, i, o):
            super().__init__(
                nn.Conv3d(i, o, 3, padding=1),
                nn.InstanceNorm3d(o, affine=True),
                nn.LeakyReLU(0.01),
                nn.Conv3d(o, o, 3, padding=1),
                nn.InstanceNorm3d(o, affine=True),
                nn.LeakyReLU(0.01),
            )

    class Net(nn.Module):
        def __init__(self, ch=(8, 16, 32, 64)):
            super().__init__()
            self.down = nn.ModuleList(C(i, o) for i, o in zip((1, *ch), ch, strict=False))
            self.up = nn.ModuleList(nn.ConvTranspose3d(o, i, 2, 2) for i, o in itertools.pairwise(ch))
            self.dec = nn.ModuleList(C(2 * i, i) for i in ch[:-1])
            self.out = nn.Conv3d(ch[0], 3, 1)

        def forward(self, x):
            skips = []
            for k, d in enumerate(self.down):
                x = d(x if k == 0 else nn.functional.max_pool3d(x, 2))
                skips.append(x)
            for k in reversed(range(len(self.up))):
                x = self.dec[k](torch.cat([self.up[k](x), skips[k]], 1))
            return self.out(x).softmax(1)

    d = [8 * Dim(f"_{a}3", min=2, max=16) for a in "dhw"]
    return single(Net(), torch.rand(2, 1, 24, 32, 40), {0: BATCH, 2: d[0], 3: d[1], 4: d[2]})
