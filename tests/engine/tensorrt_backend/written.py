"""Networks as the stand-in records them."""

from __future__ import annotations

from collections import deque

from tests.engine.tensorrt_backend.standin import TensorRT
from trtdiag.engine.tensorrt.api_versions import Dialect
from trtdiag.engine.tensorrt.emission import Emission
from trtdiag.engine.tensorrt.emit import EMITTERS
from trtdiag.network import Network
from trtdiag.targets import get_target


def write(network: Network, target: str) -> tuple[TensorRT, Emission]:
    """The network written for a version."""
    trt = TensorRT(target)
    dialect = Dialect(trt, get_target(target))
    builder = trt.Builder(trt.Logger())
    emission = Emission(dialect, network, dialect.create_network(builder), deque())
    emission.write(EMITTERS)
    return trt, emission
