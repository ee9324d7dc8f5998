"""Networks of torchvision."""

from __future__ import annotations

import torch
from torch import nn

from tests.guards.asks import BATCH, Span, noise
from tests.guards.registry import Live, case, enter
from tests.guards.wrapping import Listed


def torchvision_models():
    import torchvision

    return torchvision


def vision(name, make, *tags, note="", low=32, high=2160, shape=(1, 3, 64, 96)):
    """Enter a model of one image, batch and both sizes dynamic."""

    def build():
        spec = {0: BATCH, 2: Span("h", low, high), 3: Span("w", low, high)}
        return Live(model=Listed(make(torchvision_models())), args=(noise(*shape),), spec=(spec,))

    enter(name, build, "torchvision", tags, note)


@case("torchvision", "flow")
def tv_raft_small():
    m = torchvision_models().models.optical_flow.raft_small(weights=None)
    h, w = (Span("h", 135, 2160), Span("w", 135, 3840))

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.m = m

        def forward(self, image1, image2):
            return self.m(image1, image2, num_flow_updates=2)

    return Live(model=M(), args=(noise(1, 3, 136, 144), noise(1, 3, 136, 144)), spec=({2: h, 3: w}, {2: h, 3: w}))


@case("torchvision", "flow")
def tv_raft_large_sep():
    m = torchvision_models().models.optical_flow.raft_large(weights=None)

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.m = m

        def forward(self, image1, image2):
            return self.m(image1, image2, num_flow_updates=1)

    return Live(
        model=M(),
        args=(noise(1, 3, 136, 144), noise(1, 3, 136, 144)),
        spec=(
            {2: Span("h1", 128, 2160), 3: Span("w1", 128, 3840)},
            {2: Span("h2", 128, 2160), 3: Span("w2", 128, 3840)},
        ),
    )


vision("tv_resnet18", lambda t: t.models.resnet18(num_classes=10), "cls", shape=(2, 3, 64, 96))

vision("tv_mobilenet_v3_small", lambda t: t.models.mobilenet_v3_small(num_classes=10), "cls", shape=(2, 3, 64, 96))

vision(
    "tv_googlenet",
    lambda t: t.models.googlenet(num_classes=10, aux_logits=False, init_weights=False),
    "cls",
    shape=(2, 3, 64, 96),
)

vision("tv_regnet_y_400mf", lambda t: t.models.regnet_y_400mf(num_classes=10), "cls", shape=(2, 3, 64, 96))

vision(
    "tv_convnext_small_cfg",
    lambda t: t.models.ConvNeXt(
        [
            t.models.convnext.CNBlockConfig(16, 32, 1),
            t.models.convnext.CNBlockConfig(32, 32, 1),
            t.models.convnext.CNBlockConfig(32, None, 1),
        ],
        num_classes=10,
    ),
    "cls",
    shape=(2, 3, 64, 96),
)

vision(
    "tv_deeplabv3_mbv3",
    lambda t: t.models.segmentation.deeplabv3_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=5),
    "seg",
    shape=(2, 3, 64, 96),
)

vision(
    "tv_lraspp_mbv3",
    lambda t: t.models.segmentation.lraspp_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=5),
    "seg",
    shape=(2, 3, 64, 96),
)

vision(
    "tv_swin_small_cfg",
    lambda t: t.models.SwinTransformer([4, 4], 16, [1, 1], [2, 2], [7, 7], num_classes=10),
    "swin",
    shape=(2, 3, 56, 84),
    note="window divides the grid at the example",
)

vision(
    "tv_swin_v2_cfg",
    lambda t: t.models.SwinTransformer(
        [4, 4],
        16,
        [2, 2],
        [2, 2],
        [8, 8],
        num_classes=10,
        block=t.models.swin_transformer.SwinTransformerBlockV2,
        downsample_layer=t.models.swin_transformer.PatchMergingV2,
    ),
    "swin",
    shape=(2, 3, 64, 128),
)

vision(
    "tv_vit_cfg",
    lambda t: t.models.VisionTransformer(32, 8, 1, 2, 16, 32, num_classes=5),
    "vit",
    shape=(2, 3, 32, 32),
    low=8,
    note="torch._assert on the image size",
)


@case("torchvision", "vit")
def tv_vit_batch_only():
    t = torchvision_models()
    return Live(
        model=t.models.VisionTransformer(32, 8, 2, 2, 16, 32, num_classes=5),
        args=(noise(2, 3, 32, 32),),
        spec=({0: BATCH},),
    )


vision(
    "tv_maxvit_cfg",
    lambda t: t.models.MaxVit((64, 64), 8, 4, [8, 16], [1, 1], 8, 0.0, num_classes=5),
    "vit",
    shape=(2, 3, 64, 64),
)


@case("torchvision", "fpn", "relation", note="FPN module alone; naive independent dims per level")
def tv_fpn_levels():
    from collections import OrderedDict

    t = torchvision_models()

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.f = t.ops.FeaturePyramidNetwork([8, 8, 8], 8)

        def forward(self, c3, c4, c5):
            return list(self.f(OrderedDict([("0", c3), ("1", c4), ("2", c5)])).values())

    return Live(
        model=M(),
        args=(noise(1, 8, 32, 40), noise(1, 8, 16, 20), noise(1, 8, 8, 10)),
        spec=(
            {2: Span("h3", 8, 512), 3: Span("w3", 8, 512)},
            {2: Span("h4", 4, 256), 3: Span("w4", 4, 256)},
            {2: Span("h5", 2, 128), 3: Span("w5", 2, 128)},
        ),
    )


@case("torchvision", "video")
def tv_r3d():
    t = torchvision_models()
    m = t.models.video.VideoResNet(
        t.models.video.resnet.BasicBlock,
        [t.models.video.resnet.Conv3DSimple] * 4,
        [1, 1, 1, 1],
        t.models.video.resnet.BasicStem,
        num_classes=5,
    )
    return Live(
        model=m,
        args=(torch.randn(1, 3, 8, 32, 32),),
        spec=({2: Span("t", 4, 64), 3: Span("h", 16, 512), 4: Span("w", 16, 512)},),
    )


@case("torchvision", "video", "swin")
def tv_swin3d_cfg():
    t = torchvision_models()
    m = t.models.video.swin_transformer.SwinTransformer3d([2, 4, 4], 16, [2], [2], [4, 7, 7], num_classes=5)
    return Live(
        model=m,
        args=(torch.randn(1, 3, 8, 56, 56),),
        spec=({2: Span("t", 2, 64), 3: Span("h", 28, 512), 4: Span("w", 28, 512)},),
    )


@case("torchvision", "det-head")
def tv_ssd_backbone_head():
    t = torchvision_models()
    bb = t.models.mobilenet_v3_small(weights=None).features
    head = t.models.detection.retinanet.RetinaNetHead(576, 3, 5)

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.b = bb
            self.h = head

        def forward(self, x):
            f = self.b(x)
            return self.h([f])

    return Live(
        model=M(), args=(noise(2, 3, 64, 96),), spec=({0: BATCH, 2: Span("h", 32, 1024), 3: Span("w", 32, 1024)},)
    )


vision("tv_efficientnet_b0", lambda t: t.models.efficientnet_b0(num_classes=5), "cls", shape=(2, 3, 64, 96))
