"""Image classifiers."""

from __future__ import annotations

import functools

from torch.export import Dim

from tests.models.asks import BATCH, BATCH_HW, BATCH_HW32, image, single, torchvision_model
from tests.models.registry import zoo

# Model: height, width, dims, more arguments of timm.create_model.
TIMM = {
    "resnet50": (224, 256, BATCH_HW, {}),
    "regnety_016": (224, 256, BATCH_HW, {}),
    "densenet121": (224, 256, BATCH_HW, {}),
    "inception_v3": (288, 320, BATCH_HW, {}),
    "hrnet_w18_small": (224, 256, BATCH_HW32, {}),
    "ghostnetv2_100": (224, 256, BATCH_HW, {}),
    "mobilenetv3_large_100": (224, 256, BATCH_HW, {}),
    "mobilenetv4_hybrid_medium": (224, 256, BATCH_HW32, {}),
    "efficientnet_b0": (224, 256, BATCH_HW, {}),
    "tf_efficientnetv2_b0": (224, 256, BATCH_HW, {}),
    "efficientvit_b0": (224, 256, BATCH_HW32, {}),
    "levit_128": (224, 224, {0: BATCH}, {}),
    "focalnet_tiny_srf": (224, 256, BATCH_HW, {}),
    "vit_base_patch16_224": (224, 224, {0: BATCH}, {}),
    "vit_small_patch16_dinov3": (
        256,
        256,
        {0: BATCH, 2: 16 * Dim("_h16", min=4, max=32), 3: 16 * Dim("_w16", min=4, max=32)},
        {"dynamic_img_size": True},
    ),
    "swinv2_tiny_window8_256": (256, 256, {0: BATCH}, {}),
    "maxvit_tiny_tf_224": (224, 224, {0: BATCH}, {}),
    "xcit_tiny_12_p16_224": (224, 224, {0: BATCH}, {}),
    "volo_d1_224": (224, 224, {0: BATCH}, {}),
    "sequencer2d_s": (224, 224, {0: BATCH}, {}),
}


def build_timm(name):
    import timm

    height, width, dims, more = TIMM[name]
    return single(timm.create_model(name, pretrained=False, **more), image(height, width), dims)


for _name in TIMM:
    zoo("vision_cls", "timm_" + _name)(functools.partial(build_timm, _name))


def build_torchvision(name):
    return single(torchvision_model(name)(), image(224, 256), BATCH_HW)


for _name in ("shufflenet_v2_x1_0", "alexnet"):
    zoo("vision_cls", "tv_" + _name)(functools.partial(build_torchvision, _name))
