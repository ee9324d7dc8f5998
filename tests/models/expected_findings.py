"""What the zoo is expected to show: models that torch.export refuses, and every ERROR with its reason."""

from __future__ import annotations

# Model -> a part of torch's message when it is exported as asked (torch 2.13).
REFUSED: dict[str, str] = {
    "deformable_detr": "Constraints violated (h, w)",
    "rt_detr_r18": "specialized it to be a constant (2)",
    "d_fine": "specialized it to be a constant (2)",
    "grounding_dino": "Constraints violated (seq)",
    "llm_llama_32l_kv": "Constraints violated (past)",
    "qwen2_vl_vision": "Could not guard on data-dependent expression Eq(u3, 0)",
    "lstm_bi": "specialized it to be a constant (12)",
    "lstm_proj": "specialized it to be a constant (12)",
    "rnn_tanh": "specialized it to be a constant (12)",
    "longformer": "Could not guard on data-dependent expression 8*u1 < 24",
    "informer": "Attention mask should be of size",
    "autoformer": "is invalid for input of size",
    "tv_mvit_v2_s": "specialized it to be a constant (1)",
    "tv_raft_small": "Constraints violated (batch)",
    "tv_alexnet": "Constraints violated (h, w)",
    "timm_inception_v3": "Constraints violated (h, w)",
    "timm_ghostnetv2_100": "Constraints violated (h, w)",
    "timm_tf_efficientnetv2_b0": "Constraints violated (h, w)",
    "timm_focalnet_tiny_srf": "Constraints violated (w)",
}

# Model -> rule of each ERROR beside ART802 -> why it is right, by the guards of the exported program or by torch's
# message.
ERRORS: dict[str, dict[str, str]] = {
    "crnn_ocr": {"GRD301": "torch unrolls the LSTM over the 25 steps of the example; the program refuses other widths"},
    "deformable_detr": {"GRD301": "the sizes of the feature maps are numbers: only h 217..224, w 249..256 are right"},
    "depth_anything_s": {"GRD301": "the program holds the example's grid of patches, 16 x 20, and refuses others"},
    "demucs_like": {"GRD301": "torch unrolls the LSTM over the 100 steps of the example; the program refuses others"},
    "grounding_dino": {"GRD301": "torch decides seq == 2 and seq == 256 once, and refuses the range for that"},
    "longformer": {"GRD301": "attention works in windows: the length is a multiple of 8 of at least 2 windows"},
    "mask2former_swin_t": {"GRD301": "only 224 x 256 with batch 2 or more runs: the sizes of its maps are numbers"},
    "timm_ghostnetv2_100": {"GRD301": "below 97 a feature map has one row or column, which torch takes apart"},
    "timm_inception_v3": {"GRD301": "below 107 the last feature map has one row or column, which torch takes apart"},
    "timm_vit_small_patch16_dinov3": {"GRD301": "timm makes floats of the sizes of its grid: only 16 x 16 runs"},
    "tv_alexnet": {"GRD301": "below 95 the last feature map has one row or column, which torch takes apart"},
    "tv_raft_small": {"GRD301": "torch takes batch 1 apart, and RAFT refuses sizes that 8 does not divide"},
    "tv_retinanet": {"GRD301": "below 160 the coarsest of the maps has one row or column; the program refuses those"},
}
