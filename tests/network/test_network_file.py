"""Saved networks: every damage is an ArtifactError, and nothing in a file is executed."""

from __future__ import annotations

import hashlib
import json
import random
from dataclasses import replace
from typing import Any

import pytest
import torch
from sample_networks import small_network

from tests.harness.rows import each
from trtdiag.errors import ArtifactError
from trtdiag.network import DType, NetworkBuilder, from_bytes, from_json, run, to_bytes, to_json, to_parts
from trtdiag.network.file_format import with_weights
from trtdiag.network.layer import INPUT
from trtdiag.network.layers.constant import Constant, Fill
from trtdiag.network.layers.elementwise import ElementWise, ElementWiseOperation
from trtdiag.network.weights import weight_bytes

NETWORK = small_network()
CONTENT = to_bytes(NETWORK)


def _weights() -> bytes:
    return b"".join(weight_bytes(weight) for weight in NETWORK.weights.values())


def test_loaded_network_runs_alike() -> None:
    x = torch.randn(2, 3, 7, 11, generator=torch.Generator().manual_seed(0))
    again = from_bytes(bytearray(CONTENT))
    assert again.layers == NETWORK.layers
    for got, want in zip(run(again, [x]), run(NETWORK, [x]), strict=True):
        assert torch.equal(got, want)


def _place(tensor: torch.Tensor) -> int:
    return tensor.data_ptr()


def test_weights_are_used_where_they_lie_unless_that_memory_is_read_only() -> None:
    builder = NetworkBuilder()
    weights = [torch.randn(7, 5), torch.randn(3).half(), torch.randn(11, 2)]  # 140 and 6 bytes come before the others
    for index, weight in enumerate(weights):
        builder.output(f"y{index}", builder.constant(weight))
    content = to_bytes(builder.build())
    start = content.index(bytes(weight_bytes(weights[0])))
    assert start % 16 == 0
    owned = torch.frombuffer(bytearray(content), dtype=torch.uint8)
    for memory, shared in ((memoryview(owned.numpy()), True), (memoryview(content), False)):
        network = from_bytes(memory)
        first = next(iter(network.weights.values()))
        assert (_place(first) == _place(owned) + start) is (shared and _place(owned) % 16 == 0)
        outputs = run(network, [])
        for got, want in zip(outputs, weights, strict=True):
            assert torch.equal(got, want)
        outputs[0].zero_()  # an output never lies in a weight
        assert torch.equal(run(network, [])[0], weights[0])


@each("dtype", DType, ids=lambda dtype: dtype.value)
@each("shape", [(), (0, 3), (1,), (7, 5)], ids=str)
def test_weights_of_every_dtype_and_shape_come_back(dtype: DType, shape: tuple[int, ...]) -> None:
    weight = torch.arange(35)[: torch.Size(shape).numel()].reshape(shape).to(dtype.torch)
    builder = NetworkBuilder()
    builder.output("y", builder.constant(weight, dtype=dtype))
    network = from_bytes(to_bytes(builder.build()))
    (again,) = run(network, [])
    assert network.output_types[0].dtype is dtype
    assert again.dtype is dtype.torch
    assert torch.equal(again, weight)


def test_parts_do_not_copy_the_weights() -> None:
    _, *parts = to_parts(NETWORK)
    for part, weight in zip(parts, NETWORK.weights.values(), strict=True):
        assert torch.frombuffer(part, dtype=torch.uint8).data_ptr() == weight.data_ptr()


def test_every_cut_is_refused() -> None:
    for length in {*range(120), *range(120, len(CONTENT), 97), len(CONTENT) - 1}:
        with pytest.raises(ArtifactError) as caught:
            from_bytes(CONTENT[:length])
        assert caught.value.reference == "damaged-network"
    with pytest.raises(ArtifactError):
        from_bytes(CONTENT + b"\0")


def test_every_flipped_bit_is_refused() -> None:
    chosen = random.Random(5)
    for place in [*range(64), *(chosen.randrange(len(CONTENT)) for _ in range(100))]:
        damaged = bytearray(CONTENT)
        damaged[place] ^= 1 << chosen.randrange(8)
        with pytest.raises(ArtifactError):
            from_bytes(damaged)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x80\x04\x95." * 40, b"trtdiag network 2\n" + b"\0" * 90])
def test_foreign_bytes_are_refused(content: bytes) -> None:
    with pytest.raises(ArtifactError):
        from_bytes(content)


def _layer(document: dict[str, Any], kind: str) -> dict[str, Any]:
    return next(layer for layer in document["layers"] if layer["kind"] == kind)


def _set(kind: str, key: str, value: Any) -> Any:
    return lambda document: _layer(document, kind).__setitem__(key, value)


def _attribute(kind: str, name: str, value: Any) -> Any:
    return lambda document: _layer(document, kind)["attributes"].__setitem__(name, value)


EDITS = {
    "no_layers": lambda document: document.pop("layers"),
    "unknown_kind": _set("SoftMax", "kind", "os.system"),
    "attribute_of_another_type": _attribute("SoftMax", "axis", "1"),
    "bool_for_a_number": _attribute("SoftMax", "axis", True),
    "attribute_missing": lambda document: _layer(document, "SoftMax")["attributes"].clear(),
    "impossible_attribute": _attribute("Convolution", "stride", [0, 1]),
    "enum_member": _attribute("Activation", "op", "__class__"),
    "axis_outside": _attribute("SoftMax", "axis", 9),
    "float_text": _attribute("Fill", "alpha", {"float": "one"}),
    "reads_itself": _set("SoftMax", "inputs", [99]),
    "negative_tensor": _set("SoftMax", "inputs", [-1]),
    "another_type": _set("SoftMax", "outputs", ["float16[2, 6]"]),
    "too_many_inputs": _set("SoftMax", "inputs", [0, 0]),
    "unknown_dtype": lambda document: document["inputs"][0].__setitem__(1, "float64"),
    "size_that_is_no_expression": lambda document: document["inputs"][0].__setitem__(2, ["__import__('os')"] * 4),
    "range": lambda document: document["ranges"].__setitem__("h", ["1", None]),
    "output": lambda document: document["outputs"][0].__setitem__(1, 1000),
    "weight_shape": lambda document: document["weights"][0].__setitem__(2, [5]),
    "weight_size": lambda document: document["weights"][0].__setitem__(3, -4),
    "origin": _set("SoftMax", "origin", ["op"]),
}


@pytest.mark.parametrize("name", EDITS)
def test_edited_text_is_refused(name: str) -> None:
    """Also where the digest of the text is right: the reader trusts no field."""
    document = json.loads(to_json(NETWORK))
    EDITS[name](document)
    with pytest.raises(ArtifactError):
        from_json(json.dumps(document), _weights())


def test_unedited_text_is_read() -> None:
    assert to_json(from_json(to_json(NETWORK), _weights())) == to_json(NETWORK)


def test_text_that_is_no_object_is_refused() -> None:
    for text in ("", "[]", "null", "{}", "[" * 100_000, '{"weights": 3}'):
        with pytest.raises(ArtifactError):
            from_json(text, b"")
        head = b"trtdiag network 1\n" + len(text).to_bytes(8, "little") + hashlib.sha256(text.encode()).digest()
        with pytest.raises(ArtifactError):
            from_bytes(head + text.encode())


def test_a_weight_of_one_element_with_a_stride() -> None:
    weight = torch.arange(6)[1::4][:1].as_strided((1,), (2,))
    builder = NetworkBuilder()
    builder.output("y", builder.constant(weight))
    (found,) = from_bytes(to_bytes(builder.build())).weights.values()
    assert found.tolist() == weight.tolist()


def test_other_weights_in_a_network_that_is_known() -> None:
    builder = NetworkBuilder()
    steps = builder.add_single(Fill(INPUT, DType.FLOAT32, 0, (1.0,)), builder.constant(torch.tensor([5])))
    builder.output(
        "y", builder.add_single(ElementWise(ElementWiseOperation.SUM), steps, builder.constant(torch.rand(5)))
    )
    network = builder.build()
    contents = [
        network.weights[placed.layer.weights] for placed in network.layers if isinstance(placed.layer, Constant)
    ]
    places = [place for place, placed in enumerate(network.layers) if isinstance(placed.layer, Constant)]
    (size, five), (added, random) = sorted(zip(places, contents, strict=True), key=lambda pair: pair[1].numel())
    text, known, other = to_json(network), replace(network, weights={}), torch.rand(5)
    found, anew = with_weights(text, {size: five, added: other}, known), with_weights(text, {size: five, added: other})
    assert replace(found, weights={}) == replace(anew, weights={}) != known
    assert found.weights.keys() == anew.weights.keys()
    assert torch.equal(run(found, [])[0], torch.arange(5) + other)
    assert with_weights(text, {size: five, added: random}, known).layers == network.layers
    for wrong in ({size: torch.tensor([4])}, {size: five.float()}, {added: other[:4]}, {added: other.half()}):
        with pytest.raises(ArtifactError):
            with_weights(text, {size: five, added: other, **wrong}, known)
