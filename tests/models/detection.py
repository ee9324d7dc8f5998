"""Object detectors."""

from __future__ import annotations

import torch

from tests.models.asks import (
    BATCH,
    BATCH_HW,
    BATCH_HW32,
    BATCH_SEQ,
    H32,
    W32,
    image,
    padding_mask,
    positional,
    single,
    tokens,
    torchvision_model,
    transformers_model,
)
from tests.models.registry import zoo
from tests.models.yolo import Yolo


@zoo("detection")
def yolov8n_like():
    return single(Yolo(), image(256, 320), BATCH_HW32)


@zoo("detection")
def yolov8n_nms():
    """YOLO followed by score filter and class-agnostic NMS written with data-dependent indexing."""

    def f(m, x):
        y = m(x)[0].t()
        s, c = y[:, 4:].max(-1)
        i = (s > 0.25).nonzero()[:, 0]
        xy, wh = y[i, :2], y[i, 2:4]
        b, s, c = torch.cat((xy - wh / 2, xy + wh / 2), 1), s[i], c[i]
        o = s.argsort(descending=True)
        b, s, c = b[o], s[o], c[o]
        area = (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1])
        wh = (torch.minimum(b[:, None, 2:], b[None, :, 2:]) - torch.maximum(b[:, None, :2], b[None, :, :2])).clamp(
            min=0
        )
        inter = wh[..., 0] * wh[..., 1]
        iou = (inter / (area[:, None] + area[None] - inter)).triu(1)
        k = iou.amax(0) < 0.5  # fast NMS
        return b[k], s[k], c[k]

    return positional(Yolo(), f, (image(256, 320, 1), {2: H32, 3: W32}))


def _det(m, size=(224, 256), dims=BATCH_HW, extra=None):
    def f(m, x, *a):
        o = m(x, *a)
        return o.logits, o.pred_boxes

    return positional(m, f, (image(*size), dims), *([extra] if extra else []))


def _resnet_cfg():
    import transformers

    return transformers.ResNetConfig(
        depths=[3, 4, 6, 3], embedding_size=32, hidden_sizes=[64, 128, 256, 512], out_features=["stage4"]
    )


DETR = {
    "d_model": 64,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 256,
    "decoder_ffn_dim": 256,
    "use_timm_backbone": False,
    "use_pretrained_backbone": False,
    "backbone": None,
}


@zoo("detection")
def deformable_detr():
    c = _resnet_cfg()
    c.out_features = ["stage2", "stage3", "stage4"]
    return _det(
        transformers_model("DeformableDetrForObjectDetection", "DeformableDetrConfig", backbone_config=c, **DETR)
    )


@zoo("detection")
def rt_detr_r18():
    import transformers

    b = transformers.RTDetrResNetConfig(
        depths=[2, 2, 2, 2],
        layer_type="basic",
        hidden_sizes=[64, 128, 256, 512],
        out_features=["stage2", "stage3", "stage4"],
    )
    return _det(
        transformers_model(
            "RTDetrForObjectDetection",
            transformers.RTDetrConfig(
                backbone_config=b,
                encoder_in_channels=[128, 256, 512],
                encoder_hidden_dim=64,
                d_model=64,
                decoder_in_channels=[64, 64, 64],
                encoder_ffn_dim=256,
                decoder_ffn_dim=256,
                decoder_layers=3,
            ),
        ),
        (256, 320),
        BATCH_HW32,
    )


@zoo("detection")
def d_fine():
    return _det(transformers_model("DFineForObjectDetection", "DFineConfig"), (256, 320), BATCH_HW32)


@zoo("detection")
def grounding_dino():
    import transformers

    c = transformers.GroundingDinoConfig(
        backbone_config=transformers.SwinConfig(
            depths=[2, 2, 6, 2], embed_dim=48, out_features=["stage2", "stage3", "stage4"]
        ),
        text_config=transformers.BertConfig(
            hidden_size=64, num_hidden_layers=12, num_attention_heads=4, intermediate_size=128, vocab_size=1000
        ),
        d_model=64,
        encoder_ffn_dim=128,
        decoder_ffn_dim=128,
        num_queries=100,
    )
    m = transformers_model("GroundingDinoForObjectDetection", c)

    def f(m, x, i, a):
        o = m(pixel_values=x, input_ids=i, attention_mask=a)
        return o.logits, o.pred_boxes

    return positional(m, f, (image(224, 256), {0: BATCH}), (tokens(2, 16), BATCH_SEQ), (padding_mask(2, 16), BATCH_SEQ))


@zoo("detection")
def tv_retinanet():
    m = torchvision_model("detection.retinanet_resnet50_fpn")(
        weights=None, weights_backbone=None, num_classes=21
    ).eval()

    def f(m, x):  # dense heads only: torchvision's NMS is not available here
        fs = list(m.backbone(x).values())
        o = m.head(fs)
        return o["cls_logits"], o["bbox_regression"]

    return positional(m, f, (image(224, 256), BATCH_HW32))
