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

# Model -> rule of each ERROR beside ART802 -> why it is right.
ERRORS: dict[str, dict[str, str]] = {}
