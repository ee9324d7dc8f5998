"""The canonical hash of a network: equal for networks that compute the same in the same way, whatever the names."""

from __future__ import annotations

import hashlib
import json

from trtdiag.network.attributes import attributes_to_json
from trtdiag.network.network import Network
from trtdiag.network.symbol_values import readable, solvable
from trtdiag.symbolic import Expr, Sym, free_symbols, substitute, to_text


def canonical_hash(network: Network) -> str:
    """A sha256 over what decides the outputs: attributes, wiring, dtypes, shapes, and the content of the weights.

    Names of inputs, outputs and symbols, the numbering of tensors, the order of independent layers, layers computed
    twice, origins, ranges, conditions, definitions and what layers call the sizes that they bear are not in it: with
    other ranges the same network is built for another profile, which an engine's key has beside this hash.

    Cost: linear; weights are hashed when they become constants, not here.
    """
    renamed = _renamed(network)
    digests: dict[int, str] = {}
    for index, (port, tensor) in enumerate(zip(network.inputs, network.input_types, strict=True)):
        shape = [to_text(substitute(size, renamed)) for size in tensor.shape]
        values = [to_text(substitute(value, renamed)) for value in tensor.values or ()]
        digests[port.tensor] = _digest("input", index, tensor.dtype.name, shape, values)
    for placed in network.layers:
        layer = placed.layer
        attributes = {name: value for name, value in attributes_to_json(layer).items() if name not in layer.labels}
        own = _digest(layer.kind, attributes, [digests[number] for number in placed.inputs])
        for index, number in enumerate(placed.outputs):
            digests[number] = _digest(own, index)
    inputs = [digests[port.tensor] for port in network.inputs]
    return _digest("network", inputs, [digests[port.tensor] for port in network.outputs])


def _digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _renamed(network: Network) -> dict[str, Expr | int]:
    """Symbols numbered in the order in which inputs give them a value, sizes before elements; plain ones come first."""
    sizes = readable(network.input_types)
    solutions = [solution[0] for size in sizes if (solution := solvable(size)) is not None]
    order = dict.fromkeys([*(size.name for size in sizes if isinstance(size, Sym)), *solutions])
    assert all(free_symbols(size) <= set(order) for size in sizes)
    return {name: Sym(f"d{index}") for index, name in enumerate(order)}
