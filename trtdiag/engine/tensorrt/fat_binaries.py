"""The code for several GPUs that an engine of TensorRT carries, of which one GPU uses one."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

_MAGIC = struct.pack("<IHH", 0xBA55ED50, 1, 16)
"""What a fat binary of CUDA begins with: a number, its version, and the bytes of this header.

CUDA documents no layout.  It was read from the fat binaries of engines of TensorRT 8.6.0, of which each byte belongs to
a header or a piece of code; whatever differs from it is left as it is.
"""
_HEADER = struct.Struct("<8sQ")
_ENTRY = struct.Struct("<HHIQIIHHI")
"""Kind, version, bytes of the header, bytes of the code, three that are not read, and the architecture.

The three: bytes when compressed, where options are, the minor and the major version of the code's format.
"""
_PTX, _CUBIN = 1, 2
_LEAST_ENTRY = 64


@dataclass(frozen=True)
class _Code:
    """Code in a fat binary: text that the driver compiles (PTX) or machine code (a cubin).

    Attributes:
        kind: ``_PTX`` or ``_CUBIN``.
        architecture: Which GPUs it is for: 90 is compute capability 9.0.
        start: Where it begins.
        size: Its bytes.
    """

    kind: int
    architecture: int
    start: int
    size: int


def without_other_gpus(plan: bytes | bytearray, compute_capability: str) -> bytearray:
    """An engine with zeros in the place of code that a GPU does not use.

    Where a fat binary has machine code for exactly this GPU, CUDA takes that.  All others of it become zeros, which
    compress to nothing; where there is none, all stay.

    Args:
        plan: The engine.
        compute_capability: Of the GPU that it runs on (``9.0``).

    Returns:
        As many bytes.
    """
    major, minor = map(int, compute_capability.split("."))
    architecture, found = 10 * major + minor, bytearray(plan)
    at = plan.find(_MAGIC)
    while at >= 0:
        codes, end = _codes(plan, at)
        if any(code.kind == _CUBIN and code.architecture == architecture for code in codes):
            for code in codes:
                if code.architecture != architecture or code.kind == _PTX:
                    found[code.start : code.start + code.size] = bytes(code.size)
        at = plan.find(_MAGIC, end)
    return found


def _codes(plan: bytes | bytearray, at: int) -> tuple[list[_Code], int]:
    """The code of the fat binary at a place, and where it ends; none where its layout is another than the known one."""
    begin = at + _HEADER.size
    if begin > len(plan):
        return [], len(plan)
    _, size = _HEADER.unpack_from(plan, at)
    if not 0 < size <= len(plan) - begin:
        return [], begin
    codes = list(_entries(plan, begin, begin + size))
    return ([], begin) if None in codes else ([code for code in codes if code is not None], begin + size)


def _entries(plan: bytes | bytearray, start: int, end: int) -> Iterator[_Code | None]:
    """The pieces of code between two places; ``None`` at the end where they do not fill them."""
    while start < end:
        if end - start < _LEAST_ENTRY:
            yield None
            return
        kind, _, header, size, *_, architecture = _ENTRY.unpack_from(plan, start)
        known = kind in (_PTX, _CUBIN) and header >= _LEAST_ENTRY and header + size <= end - start
        yield _Code(kind, architecture, start + header, size) if known else None
        if not known:
            return
        start += header + size
