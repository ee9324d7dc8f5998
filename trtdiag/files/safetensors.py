"""Files of tensors in the layout of safetensors: 8 bytes length, a JSON text, then the elements.  Reading runs nothing.

Source: https://github.com/huggingface/safetensors, "Format".
"""

from __future__ import annotations

import json
from math import prod
from typing import Any

import torch

_DTYPES = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "I16": torch.int16,
    "I32": torch.int32,
    "I64": torch.int64,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "F64": torch.float64,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
}
_MOST_HEAD_BYTES = 100 * 2**20
"""The format's own limit."""


class NotSafetensorsError(ValueError):
    """The bytes are cut, changed, or no safetensors."""


def read_tensors(content: bytes | bytearray | memoryview) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """The tensors by name and the texts of ``__metadata__``.

    Args:
        content: Of memory that may be written to, tensors are used in place: it must not change meanwhile.

    Raises:
        NotSafetensorsError: Says what is wrong.
    """
    view = memoryview(content).cast("B")
    if len(view) < 8:
        raise NotSafetensorsError(f"it has {len(view)} bytes")
    length = int.from_bytes(view[:8], "little")
    if length > min(_MOST_HEAD_BYTES, len(view) - 8):
        raise NotSafetensorsError(f"its head is said to have {length:,} bytes; {len(view) - 8:,} follow")
    try:
        head = json.loads(bytes(view[8 : 8 + length]))
    except (ValueError, RecursionError) as error:
        raise NotSafetensorsError(f"its head is no JSON text: {str(error)[:100]}") from error
    if not isinstance(head, dict):
        raise NotSafetensorsError("its head is no JSON object")
    said = head.pop("__metadata__", None) or {}
    body = view[8 + length :]
    return {str(name): _tensor(str(name), entry, body) for name, entry in head.items()}, dict(said)


def _tensor(name: str, entry: Any, body: memoryview) -> torch.Tensor:
    try:
        dtype, shape = _DTYPES[entry["dtype"]], tuple(entry["shape"])
        start, end = entry["data_offsets"]
    except (KeyError, TypeError, ValueError) as error:
        raise NotSafetensorsError(f"the entry {name!r} has no dtype, shape and place that are known") from error
    numbers = (*shape, start, end)
    if any(type(each) is not int or each < 0 for each in numbers) or end - start != prod(shape) * dtype.itemsize:
        raise NotSafetensorsError(f"the place of {name!r} does not fit its shape {list(shape)}")
    if end > len(body):
        raise NotSafetensorsError(f"it ends {end - len(body):,} bytes before the end of {name!r}")
    if start == end:
        return torch.empty(shape, dtype=dtype)
    part = body[start:end]
    lying = torch.frombuffer(bytearray(part) if part.readonly else part, dtype=torch.uint8)
    if lying.data_ptr() % dtype.itemsize:
        lying = lying.clone()
    return lying.view(dtype).reshape(shape)
