"""The typed layer network: written by converters, read by backends.

A converter writes with ``NetworkBuilder``; a backend reads a ``Network``; layer kinds are in ``layers``.
"""

from trtdiag.network.attributes import canonical_hash
from trtdiag.network.builder import NetworkBuilder
from trtdiag.network.dtype import FLOATS, INDICES, NUMBERS, QUANTIZED, DType
from trtdiag.network.facts import ShapeConstraints
from trtdiag.network.file_format import from_bytes, from_json, to_bytes, to_json, to_parts
from trtdiag.network.layer import INPUT, Given, Layer, LayerError
from trtdiag.network.network import Network, Origin, Placed, Port
from trtdiag.network.run import run
from trtdiag.network.symbol_values import bind, size_at
from trtdiag.network.tensor import Tensor
from trtdiag.network.value import Value
from trtdiag.network.weights import WeightKeys
