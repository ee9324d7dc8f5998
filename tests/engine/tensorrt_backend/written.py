"""Networks as the stand-in records them, and the samples that are written."""

from __future__ import annotations

import sys
from collections import deque
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
from standin import TensorRT

from trtdiag.engine.tensorrt.dialect import Dialect
from trtdiag.engine.tensorrt.emission import Emission
from trtdiag.engine.tensorrt.emit import EMITTERS
from trtdiag.network import DType, Network
from trtdiag.targets import get_target

sys.path.append(str(Path(__file__).parents[2] / "network"))

import pointwise_cases
import reducing_cases
import spatial_cases
from network_cases import Case, In

CASES = {case.name: case for module in (pointwise_cases, reducing_cases, spatial_cases) for case in module.CASES}


def write(network: Network, target: str) -> tuple[TensorRT, Emission]:
    """The network written for a version."""
    trt = TensorRT(target)
    dialect = Dialect(trt, get_target(target))
    builder = trt.Builder(trt.Logger())
    emission = Emission(dialect, network, dialect.create_network(builder), deque())
    emission.write(EMITTERS)
    return trt, emission


def without_int64(case: Case) -> Case:
    """The same case as it is written for 8.6: int32 in the place of int64."""
    narrow = {DType.INT64: DType.INT32}

    def of(one: In | torch.Tensor) -> In | torch.Tensor:
        if isinstance(one, In):
            return replace(one, dtype=narrow.get(one.dtype, one.dtype))
        return one.int() if one.dtype is torch.int64 else one

    changed: dict[str, Any] = {
        entry.name: DType.INT32 for entry in fields(case.layer) if getattr(case.layer, entry.name) is DType.INT64
    }
    return replace(case, layer=replace(case.layer, **changed), inputs=tuple(map(of, case.inputs)))


def case_for(name: str, target: str) -> Case:
    """The case as it is written for a version."""
    return without_int64(CASES[name]) if target == "8.6" else CASES[name]
