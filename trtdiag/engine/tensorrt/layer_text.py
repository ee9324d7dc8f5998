"""What the inspector writes of an engine, read: the forms of TensorRT 8.6, 10 and 11.

Source: the texts of TensorRT 8.6.0 in tests/engine/tensorrt_backend/inspected; for 10 and 11 NVIDIA's pages "Engine
Inspector" (10.16.1) and "Migrating IEngineInspector Usage from TensorRT 10.x to 11.x" (11.3.0).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from trtdiag.engine.built_layers import LayerInfo, LayerTensor

# In this order: FP16 is in BF16, and INT8 in UINT8.
_DTYPES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), dtype)
    for pattern, dtype in (
        (r"\bBF16\b|BFloat16", "bfloat16"),
        (r"\bFP16\b|\bHalf\b", "float16"),
        (r"\bFP32\b|\bFloat\b|\bFloat32\b", "float32"),
        (r"\bFP8\b", "float8"),
        (r"\bUINT8\b", "uint8"),
        (r"\bINT8\b", "int8"),
        (r"\bINT32\b", "int32"),
        (r"\bINT64\b", "int64"),
        (r"\bBOOL\b", "bool"),
    )
)


def read_layers(text: str) -> tuple[LayerInfo, ...]:
    """The layers in the text, without their ops; none where it has no form that is known."""
    try:
        # Names of layers that were fused are joined by control characters, which strict JSON does not take.
        document = json.loads(text, strict=False)
    except ValueError:
        return ()
    layers = document.get("Layers") if isinstance(document, dict) else None
    return tuple(_layer(entry) for entry in layers or ()) if isinstance(layers, list) else ()


def _layer(entry: Any) -> LayerInfo:
    if not isinstance(entry, dict):  # an engine that keeps names alone
        return LayerInfo(str(entry), "")
    tactic = _text(entry, "TacticName") or _text(entry, "TacticValue")
    return LayerInfo(
        _text(entry, "Name"),
        _text(entry, "LayerType") or _text(entry, "ParameterType"),
        inputs=_tensors(entry.get("Inputs")),
        outputs=_tensors(entry.get("Outputs")),
        tactic="" if re.fullmatch(r"0x0*", tactic) else tactic,
        metadata=_text(entry, "Metadata"),
    )


def _tensors(entries: Any) -> tuple[LayerTensor, ...]:
    return tuple(_tensor(entry) for entry in entries if isinstance(entry, dict)) if isinstance(entries, list) else ()


def _tensor(entry: Mapping[str, Any]) -> LayerTensor:
    both = _text(entry, "Format/Datatype")
    told = _text(entry, "Datatype") or _text(entry, "DataType") or both
    dtype = next((dtype for pattern, dtype in _DTYPES if pattern.search(told)), "")
    sizes = entry.get("Dimensions")
    shape = tuple(int(size) for size in sizes if isinstance(size, int)) if isinstance(sizes, list) else ()
    return LayerTensor(_text(entry, "Name"), dtype, _text(entry, "Format") or both, shape)


def _text(entry: Mapping[str, Any], key: str) -> str:
    value = entry.get(key)
    return value if isinstance(value, str) else ""
