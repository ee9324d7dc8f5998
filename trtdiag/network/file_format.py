"""A network as bytes: a JSON text, and the weights as they lie in memory.  Reading one executes nothing from it.

Layout: the magic line, 8 bytes length of the JSON text (little endian), its sha256, the text, then the weights one
after the other.  The reader builds the network anew, so that everything is checked again and every shape is inferred
again; a layer that does not fit is a damaged file, not a wrong engine.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

import torch

from trtdiag.errors import ArtifactError, InternalError
from trtdiag.network.attributes import FORMS, attributes_from_json, attributes_to_json
from trtdiag.network.builder import NetworkBuilder
from trtdiag.network.dtype import DType
from trtdiag.network.layer import LayerError
from trtdiag.network.layers import KINDS
from trtdiag.network.layers.constant import Constant
from trtdiag.network.network import Network, Origin
from trtdiag.network.tensor import Tensor
from trtdiag.network.value import Value
from trtdiag.network.weights import ALIGNMENT, WeightKeys, weight_bytes, weight_from_bytes, weight_key
from trtdiag.symbolic import ExpressionError, Range, parse_condition, parse_expr, to_text

if TYPE_CHECKING:
    from typing_extensions import Buffer

_MAGIC = b"trtdiag network 1\n"
_DIGEST_BYTES = 32


def to_json(network: Network) -> str:
    """The network without its weights' content; equal networks give equal texts."""
    sizes = {key: weight_bytes(weight).nbytes for key, weight in network.weights.items()}
    document = {
        "version": 1,
        "ranges": FORMS.written(Mapping[str, Range], network.ranges),
        "given": [to_text(condition) for condition in network.given],
        "definitions": {name: to_text(expr) for name, expr in network.definitions.items()},
        "inputs": [
            [port.name, tensor.dtype.value, [to_text(size) for size in tensor.shape], _values_to_json(tensor)]
            for port, tensor in zip(network.inputs, network.input_types, strict=True)
        ],
        "layers": [
            {
                "kind": placed.layer.kind,
                "attributes": attributes_to_json(placed.layer),
                "inputs": list(placed.inputs),
                "outputs": [str(network.tensors[number]) for number in placed.outputs],
                "origin": FORMS.written(Origin, placed.origin),
            }
            for placed in network.layers
        ],
        "outputs": [[port.name, port.tensor] for port in network.outputs],
        "weights": [
            [key, DType.holding(weight.dtype).value, list(weight.shape), sizes[key]]
            for key, weight in network.weights.items()
        ],
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def to_parts(network: Network) -> Iterator[bytes | memoryview]:
    """The bytes of a network, part by part: weights are not copied.  Writing them to a file is the caller's."""
    text = to_json(network).encode()
    # Spaces after the text bring the weights to a place from which they can be used without a copy.
    text += b" " * (-(len(_MAGIC) + 8 + _DIGEST_BYTES + len(text)) % ALIGNMENT)
    yield _MAGIC + len(text).to_bytes(8, "little") + hashlib.sha256(text).digest() + text
    for weight in network.weights.values():
        yield weight_bytes(weight)


def to_bytes(network: Network) -> bytes:
    """The bytes of a network in one piece."""
    return b"".join(to_parts(network))


def from_bytes(content: Buffer, at_hand: Mapping[str, torch.Tensor] | None = None) -> Network:
    """The network of ``to_bytes``.

    Args:
        content: Of memory that can be written to, weights are used in place where they are aligned: it must not change
            while the network is used.  Of other memory they are copied.
        at_hand: Weights by their key: they are used in the place of equal ones, which are not looked at.

    Raises:
        ArtifactError: ``damaged-network`` where the bytes are cut, changed or foreign.
    """
    view = memoryview(content).cast("B")
    start = len(_MAGIC) + 8 + _DIGEST_BYTES
    if len(view) < start or bytes(view[: len(_MAGIC)]) != _MAGIC:
        raise _damaged("it does not begin as a network of this version")
    length = int.from_bytes(view[len(_MAGIC) : len(_MAGIC) + 8], "little")
    text = bytes(view[start : start + length])
    if hashlib.sha256(text).digest() != bytes(view[start - _DIGEST_BYTES : start]):
        raise _damaged("its text is cut or changed")
    return from_json(text.decode(), view[start + length :], at_hand)


def from_json(text: str, weights: memoryview | bytes, at_hand: Mapping[str, torch.Tensor] | None = None) -> Network:
    """The network of ``to_json`` with the content of its weights, one after the other; ``at_hand`` as above.

    Raises:
        ArtifactError: ``damaged-network``.
    """
    with _reading():
        document = json.loads(text)
        return _built(document, _weights_from(document["weights"], memoryview(weights), at_hand or {}))


def with_weights(text: str, contents: Mapping[int, torch.Tensor], known: Network | None = None) -> Network:
    """The network of ``to_json`` with the content of each constant, by the place of its layer.

    Args:
        text: The text.
        contents: The contents.
        known: The network of the same text, whose weights may be missing: its layers are taken where no content but
            that of floats has changed, for no type rests on these.

    Raises:
        ArtifactError: ``damaged-network``; a content is missing, or does not fit its layer.
    """
    found = None if known is None else _with_floats(known, contents)
    if found is not None:
        return found
    with _reading():
        document = json.loads(text)
        weights: dict[str, torch.Tensor] = {}
        for place, entry in enumerate(document["layers"]):
            if KINDS[entry["kind"]] is Constant:
                key = weight_key(contents[place])
                weights[key], entry["attributes"]["weights"] = contents[place], key
        return _built(document, weights)


def _with_floats(network: Network, contents: Mapping[int, torch.Tensor]) -> Network | None:
    """A network with other contents of its constants; ``None`` where one does not fit, or is not of floats."""
    layers, weights = list(network.layers), {}
    for place, placed in enumerate(network.layers):
        layer = placed.layer
        if isinstance(layer, Constant):
            content = contents.get(place)
            if content is None or content.dtype is not layer.dtype.torch or tuple(content.shape) != layer.shape:
                return None
            key = weight_key(content)
            if not (layer.dtype.is_float or key == layer.weights):
                return None
            layers[place], weights[key] = replace(placed, layer=replace(layer, weights=key)), content.detach()
    return replace(network, layers=tuple(layers), weights=weights)


@contextmanager
def _reading() -> Iterator[None]:
    """What goes wrong in this block is the document's fault."""
    try:
        yield
    except ArtifactError:
        raise
    except InternalError as error:
        raise _damaged(f"{error.message} ({error.because})") from error
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError, ExpressionError) as error:
        raise _damaged(f"{type(error).__name__}: {error}") from error


def _weights_from(table: Any, content: memoryview, at_hand: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {}
    position = 0
    for key, dtype, shape, size in table:
        kind, sizes = DType(dtype), tuple(_index(number) for number in shape)
        part = content[position : position + _index(size)]
        position += size
        if not len(part) == size == prod(sizes) * kind.torch.itemsize:
            raise _damaged("a weight is cut, or has another size than its shape says")
        weight = at_hand.get(key)
        if weight is None or weight.dtype is not kind.torch or tuple(weight.shape) != sizes:
            weight = weight_from_bytes(kind, sizes, part)
            if weight_key(weight) != key:
                raise _damaged("a weight is cut or changed")
        found[key] = weight
    if position != len(content):
        raise _damaged(f"{len(content) - position} bytes follow the last weight")
    return found


def _built(document: Mapping[str, Any], weights: Mapping[str, torch.Tensor]) -> Network:
    ranges = FORMS.read(Mapping[str, Range], document["ranges"])
    definitions = {str(name): parse_expr(text) for name, text in document["definitions"].items()}
    given = [parse_condition(text) for text in document["given"]]
    keys = WeightKeys()
    for key, weight in weights.items():
        keys.add(weight, key)  # they were hashed when they were read
    builder = NetworkBuilder(ranges, given, definitions, keys=keys)
    values: list[Value] = []
    for name, dtype, shape, elements in document["inputs"]:
        known = None if elements is None else [parse_expr(text) for text in elements]
        values.append(builder.input(name, DType(dtype), [parse_expr(size) for size in shape], known))
    for place, entry in enumerate(document["layers"]):
        origin = FORMS.read(Origin, entry["origin"])
        layer = attributes_from_json(KINDS[entry["kind"]], entry["attributes"])
        inputs = [values[_index(number)] for number in entry["inputs"]]
        made: tuple[Value, ...]
        if isinstance(layer, Constant):  # each by itself: equal ones may come from several parameters
            made = (builder.constant(weights[layer.weights], origin, layer.dtype, recipe=place),)
        else:
            made = builder.add(layer, *inputs, origin=origin)
        if [str(value.tensor) for value in made] != entry["outputs"]:
            raise _damaged(f"{layer.kind} for {origin} gives other types than the file says")
        values.extend(made)
    for name, number in document["outputs"]:
        builder.output(name, values[_index(number)])
    return builder.build()


def _index(number: Any) -> int:
    if type(number) is not int or number < 0:
        raise LayerError(f"{number!r} is no index or size")
    return number


def _values_to_json(tensor: Tensor) -> list[str] | None:
    return None if tensor.values is None else [to_text(value) for value in tensor.values]


def _damaged(why: str) -> ArtifactError:
    return ArtifactError(
        "the saved network cannot be read",
        because=why,
        fix="compile and save the program again",
        reference="damaged-network",
    )
