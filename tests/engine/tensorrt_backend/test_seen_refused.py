"""Calls that TensorRT 8.6.0 refused on an H200, as they are written since."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from standin import ContractError, TensorRT
from written import write

from tests.convert.op_check import Outcome, check_op
from trtdiag.network import DType, Network, NetworkBuilder
from trtdiag.network.layers.constant import Constant
from trtdiag.network.layers.reduce import TopK, TopKOperation
from trtdiag.network.missing_features import lacks
from trtdiag.targets import get_target

ATEN = torch.ops.aten
VECTOR, MASK, FLAG = torch.randn(5), torch.randn(1, 3, 3) > 0, torch.tensor(True)
# Op, arguments, keywords.
CALLS: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any]]] = {
    "softmax": (ATEN.softmax.int, (VECTOR, 0), {}),
    "_softmax": (ATEN._softmax.default, (VECTOR, -1, False), {}),
    "half_softmax": (ATEN.softmax.int, (VECTOR.half(), 0), {}),
    "softmax_of_a_scalar": (ATEN.softmax.int, (VECTOR[0], 0), {}),
    "pad": (ATEN.pad.default, (MASK, (2, 2)), {}),
    "pad_with_true": (ATEN.constant_pad_nd.default, (MASK, [2, 1], True), {}),
    "pad_circular": (ATEN._pad_circular.default, (MASK, (2, 2)), {}),
    "repeat": (ATEN.repeat.default, (MASK, [2, 1, 3]), {}),
    "roll": (ATEN.roll.default, (MASK, [1], [2]), {}),
    **{name: (getattr(ATEN, name).Scalar, (FLAG, 2), {}) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    "lt_of_bools": (ATEN.lt.Scalar, (MASK, 1), {}),
    "linspace": (ATEN.linspace.default, (-2.0, -3, 0), {"dtype": torch.float32}),
    "linspace_of_integers": (ATEN.linspace.default, (-2.0, -3, 0), {"dtype": torch.int64}),
    "tril_indices": (ATEN.tril_indices.default, (0, 0), {}),
    "median": (ATEN.median.default, (torch.tensor(1.5).half(),), {}),
    "max": (ATEN.max.dim, (VECTOR.half(), 0), {}),
    "argmax": (ATEN.argmax.default, (VECTOR.half(),), {}),
}


def _checked(name: str, dynamic: bool) -> tuple[Outcome, list[Network]]:
    op, args, kwargs = CALLS[name]
    networks: list[Network] = []
    found = check_op(
        op, args, kwargs, dynamic=dynamic, target="8.6", also=lambda converted, _: networks.append(converted.network)
    )
    return found, networks


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", CALLS)
def test_a_call_is_written_for_86(name: str, dynamic: bool) -> None:
    found, networks = _checked(name, dynamic)
    assert not found.limits
    (network,) = networks
    target = get_target("8.6")
    for placed in network.layers:
        assert lacks(target, placed.layer, [network.tensors[number] for number in placed.inputs]) is None, placed
    assert {tensor.dtype.value for tensor in network.tensors} <= target.dtypes
    write(network, "8.6")


@pytest.mark.parametrize("version", ["10.16", "11.4"])
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_a_softmax_of_one_dim_gets_another(version: str, dynamic: bool) -> None:
    """The builders of 10.16 and 11.4 say "at least 2 dimensions are required for input", as that of 8.6."""
    found = check_op(ATEN.softmax.int, (VECTOR, 0), {}, dynamic=dynamic, target=version).converted
    assert found is not None
    for placed in found.network.layers:
        if placed.layer.kind == "SoftMax":
            assert found.network.tensors[placed.inputs[0]].rank == 2


@pytest.mark.parametrize("half", [False, True])
def test_a_group_norm_with_its_moments_is_written_of_them(half: bool) -> None:
    """Beside them 8.6.0 has no kernel for a Normalization in float16."""
    dtype = torch.float16 if half else torch.float32
    x, scale, shift = (torch.randn(*size, dtype=dtype) for size in ((2, 6, 5), (6,), (6,)))
    kinds = {}
    for read in ((0,), (0, 1, 2)):
        networks: list[Network] = []
        found = check_op(
            ATEN.native_group_norm.default,
            (x, scale, shift, 2, 6, 5, 2, 0.5),
            target="8.6",
            read=read,
            also=lambda converted, _, networks=networks: networks.append(converted.network),
        )
        assert not found.limits
        kinds[read] = {placed.layer.kind for placed in networks[0].layers}
    assert "Normalization" in kinds[0,]
    assert "Normalization" not in kinds[0, 1, 2]


def test_a_number_beyond_int32_stays_with_pytorch() -> None:
    found = check_op(ATEN.lt.Scalar, (MASK, 2**40), target="8.6")
    assert {limit.code for limit in found.limits.values()} == {"number-range"}


@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.INT32, DType.BOOL])
@pytest.mark.parametrize("version", ["8.6", "10.16", "11.4"])
def test_a_constant_without_elements_has_no_memory(version: str, dtype: DType) -> None:
    builder = NetworkBuilder()
    builder.output("y", builder.constant(torch.empty(0, 3, dtype=dtype.torch)))
    network = builder.build()
    assert isinstance(network.layers[0].layer, Constant)
    trt, emission = write(network, version)
    (weights,) = (made.given[0][1] for made in trt.of("IConstantLayer"))
    assert weights.given[0] == (emission.dialect.dtype(dtype),)


def test_the_stand_in_refuses_the_address_of_nothing() -> None:
    trt = TensorRT("8.6")
    definition = trt.Builder(trt.Logger()).create_network(1)
    with pytest.raises(ContractError, match="!weights"):
        definition.add_constant((0, 3), trt.Weights(torch.empty(0, 3).numpy()))


@pytest.mark.parametrize("shape", [(5,), (3, 5)], ids=["vector", "matrix"])
def test_indices_are_not_held_to_float16(shape: tuple[int, ...]) -> None:
    """What is made of a TopK's indices is neither computed in float16 nor given as it; its values are both."""
    builder = NetworkBuilder()
    x = builder.input("x", DType.FLOAT16, shape)
    values, indices = builder.add(TopK(TopKOperation.MAX, 2, len(shape) - 1, DType.INT32), x)
    builder.output("values", values)
    builder.output("indices", indices)
    trt, emission = write(builder.build(), "8.6")
    (topk,) = trt.of("ITopKLayer")
    half = emission.dialect.dtype(DType.FLOAT16)
    assert topk.seen["precision"] is half
    assert [args for name, args, _ in topk.calls if name == "set_output_type"] == [(0, half)]
    read = {number: topk.get_output(number) for number in range(2)}
    behind = [[one for one in trt.of("IShuffleLayer") if one.given[0][0] is read[number]] for number in range(2)]
    assert [len(found) for found in behind] == ([1, 1] if len(shape) == 1 else [0, 0])
    for shuffle in behind[0]:
        assert shuffle.seen["precision"] is half
    for shuffle in behind[1]:
        assert "precision" not in shuffle.seen
        assert not [args for name, args, _ in shuffle.calls if name == "set_output_type"]
