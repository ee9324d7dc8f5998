"""Engines without the code of other GPUs; the layouts are those of engines of TensorRT 8.6.0 for an H200."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pytest
from host_engine import manifest

from trtdiag.engine.manifest import Compatibility
from trtdiag.engine.tensorrt.backend import TensorRTBackend
from trtdiag.engine.tensorrt.fat_binaries import without_other_gpus
from trtdiag.errors import ArtifactError

PTX, CUBIN = 1, 2


def _entry(kind: int, architecture: int, code: bytes, header: int = 64) -> bytes:
    head = struct.pack("<HHIQIIHHI", kind, 0x101, header, len(code), len(code) - 3, 0, 7, 1, architecture)
    return head.ljust(header, b"\x11") + code


def _fat(*entries: bytes) -> bytes:
    content = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(content)) + content


def _code(letter: str, size: int = 40) -> bytes:
    return letter.encode() * size


SEVERAL = _fat(_entry(CUBIN, 80, _code("a")), _entry(CUBIN, 90, _code("b", 48), 72), _entry(PTX, 90, _code("c")))


def test_only_the_machine_code_of_the_gpu_stays() -> None:
    plan = b"plan" + SEVERAL + b"between" + SEVERAL + b"end"
    alone = without_other_gpus(plan, "9.0")
    assert alone == plan.replace(_code("a"), bytes(40)).replace(_code("c"), bytes(40))
    assert alone.count(_code("b", 48)) == 2


@pytest.mark.parametrize("capability", ["8.9", "10.0"])
def test_all_code_stays_where_none_is_for_exactly_the_gpu(capability: str) -> None:
    assert without_other_gpus(SEVERAL, capability) == SEVERAL


def test_text_that_the_driver_compiles_is_no_machine_code_for_the_gpu() -> None:
    plan = _fat(_entry(PTX, 90, _code("a")), _entry(CUBIN, 80, _code("b")))
    assert without_other_gpus(plan, "9.0") == plan


@pytest.mark.parametrize("other", [_entry(4, 80, _code("a")), _entry(CUBIN, 80, _code("a"), 32), b"x" * 20])
def test_a_layout_that_is_not_known_stays(other: bytes) -> None:
    plan = _fat(other, _entry(CUBIN, 90, _code("b")))
    assert without_other_gpus(plan, "9.0") == plan
    assert without_other_gpus(plan + SEVERAL, "9.0") == plan + without_other_gpus(SEVERAL, "9.0")


@pytest.mark.parametrize("length", [0, 7, 8, 15, 16, 40, 100, len(SEVERAL) - 1])
def test_what_ends_early_stays(length: int) -> None:
    assert without_other_gpus(SEVERAL[:length], "9.0") == SEVERAL[:length]


class _Reader(TensorRTBackend):
    """Reads every engine, or none that was changed."""

    def __init__(self, takes: bool = True) -> None:
        self.takes = takes

    def _deserialised(self, blob: Any, manifest: Any) -> Any:
        if not self.takes and bytes(blob) != SEVERAL:
            raise ArtifactError("it cannot be read", because="it says so", fix="none", reference="engine-damaged")
        return manifest


@pytest.mark.parametrize(
    ("runs_on", "takes", "changed"),
    [
        (Compatibility(compute_capability="9.0"), True, True),
        (Compatibility(compute_capability="9.0"), False, False),
        (Compatibility(hardware="ampere+", compute_capability="9.0"), True, False),
        (Compatibility(hardware="same-compute-capability", compute_capability="9.0"), True, False),
        (Compatibility(), True, False),
        (Compatibility(gpus=("sm90",), compute_capability="9.0"), True, False),
    ],
)
def test_code_goes_only_where_the_engine_runs_on_one_kind_of_gpu_and_is_still_read(
    runs_on: Compatibility, takes: bool, changed: bool
) -> None:
    alone = _Reader(takes)._for_one_gpu(bytearray(SEVERAL), replace(manifest(), compatibility=runs_on))
    assert (alone != SEVERAL) is changed
    assert len(alone) == len(SEVERAL)
