"""Live cases that no Dims solve, dims that can only be static, and what is accepted with its reason."""

from __future__ import annotations

# Case -> why no dynamic_shapes makes it export.  From the model and torch alone, whatever trtdiag manages.
UNSOLVABLE: dict[str, str] = {
    "nonzero_branch": "branches on the number of nonzero elements: the model needs a torch._check, no size helps",
    "hf_encodec": "a padding that is read from a tensor decides a branch: the export fails with every dim static too",
    "hf_nystromformer": "the export fails with every dim static too; the model itself raises for 32, 64 and 128 tokens",
    "hf_longformer": "branches on whether any token attends globally: the export fails with every dim static too",
}

# Case -> how long torch.export alone takes for what is asked, without trtdiag: one core of an AMD EPYC, torch 2.13.
TOO_SLOW: dict[str, str] = {
    "tv_maxvit_cfg": "torch.export refuses it after 467 s of processor time, spent in sympy on nested floors",
    "timm_davit": "torch.export had not ended after 2,400 s of wall time beside other work, in sympy's simplify",
}

# Case -> asked name -> why no declaration makes the dim dynamic.
TRULY_STATIC: dict[str, dict[str, str]] = {
    "pos_add_full_table": {"t": "added to a table of 64 positions: only 64 fits (1 would broadcast the tokens)"},
    "hf_whisper_enc": {
        "t": "the encoder raises ValueError unless it gets exactly as many frames as it has positions for"
    },
    "hf_patchtst": {"t": "the model raises ValueError unless it gets exactly the length it was configured for"},
    "tv_vit_cfg": dict.fromkeys("hw", "the model asserts the one image size that it was configured for"),
    "timm_mixer": dict.fromkeys("hw", "timm asserts the one image size that the model was configured for"),
    "timm_nest": dict.fromkeys("hw", "timm asserts the one image size that the model was configured for"),
    "hf_clip_vision_static": dict.fromkeys("hw", "the model raises ValueError for any other image size"),
    "hf_mamba": {"t": "without its kernels the model loops over the positions: any other example is pinned as well"},
    "lstm_bt": {
        "t": "torch.export runs nn.LSTM for the example's number of steps: any other example is pinned as well"
    },
}

# Case -> asked names, joined -> what the best single Dim keeps, where measured.json cannot tell its values.
BEST: dict[str, dict[str, tuple[int, str]]] = {
    "ghost_bn_chunk4": {"b": (1011, "14..1024: from 8 to 13 only 8, 11 and 12 split into four chunks")},
    "reshape_b_m1_k_6ch12": {"t": (2042, "14..4096 step 2: 8 and 10 are allowed, 12 is not")},
}

# Case -> (asked name -> what is kept of what the best single Dim keeps, why that is right).
KEEPS_LESS: dict[str, tuple[dict[str, str], str]] = {}

# Case -> why the suggestion cannot be called proven.
NOT_PROVEN: dict[str, str] = {}
