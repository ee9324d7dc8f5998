"""Video classifiers."""

from __future__ import annotations

import functools

import torch

from tests.models.asks import BATCH, single, torchvision_model
from tests.models.registry import zoo


def build_video(name, batch):
    return single(torchvision_model("video." + name)(), torch.rand(batch, 3, 16, 224, 224), {0: BATCH})


# One example only for MViT: its batch is then specialised, which is what it is here for.
zoo("video", "tv_mvit_v2_s")(functools.partial(build_video, "mvit_v2_s", 1))
zoo("video", "tv_s3d")(functools.partial(build_video, "s3d", 2))
