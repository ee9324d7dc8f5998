"""Attributes of layers as JSON, by the types of their fields, what else files hold, and the hash of a network."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields
from typing import Any

from trtdiag.files.typed_json import JsonTypeError, TypedJson, required
from trtdiag.graph.source import Frame
from trtdiag.network.layer import Layer
from trtdiag.network.network import Network, Origin
from trtdiag.network.symbol_values import readable, solvable
from trtdiag.symbolic import Expr, Range, Sym, free_symbols, substitute, to_text


def _hexadecimal(number: float) -> dict[str, str]:
    """So that each keeps all its bits; an integer in the place of a real number is one: 1 and 1.0 are the same."""
    return {"float": float(number).hex()}


def _number(value: Any) -> float:
    if not isinstance(value, dict) or set(value) != {"float"}:
        raise JsonTypeError(f"{value!r} is no number")
    text = required(str, value["float"])
    try:
        return float.fromhex(text)
    except (ValueError, OverflowError) as error:
        raise JsonTypeError(f"{text!r} is no number") from error


FORMS = TypedJson(
    {float: (_hexadecimal, _number)},
    rows={
        Range: ("min", "max"),
        Origin: ("op", "node", "frame"),
        Frame: ("file", "line", "function", "code"),
    },
)


def attributes_to_json(layer: Layer) -> dict[str, Any]:
    """Field name to JSON value."""
    found: dict[str, Any] = FORMS.written(type(layer), layer)
    return found


def attributes_from_json(kind: type[Layer], given: object) -> Layer:
    """The layer of these attributes.

    Raises:
        JsonTypeError: A field is missing, unknown, or has a value of another type.
        LayerError: The attributes are impossible.
    """
    names = {each.name for each in fields(kind)}
    if not isinstance(given, dict) or given.keys() != names:
        raise JsonTypeError(f"{kind.__name__} has the attributes {sorted(names)}")
    layer: Layer = FORMS.read(kind, given)
    return layer


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
