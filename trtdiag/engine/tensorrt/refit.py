"""Other weights for an engine of TensorRT, by its Refitter; each weight is known by the number of its constant.

Constants of floats are named when the network is written, so that an engine tells which it has (``Emission``).  From 10
on only these may change (``REFIT_INDIVIDUAL``), so that only these are left out where an engine is written without
weights.  8.6 has no such engines: there they are zeros.  Either kind is compressed: the code of its kernels repeats.
Source: nvinfer1::IRefitter, nvinfer1::BuilderFlag, nvinfer1::ISerializationConfig, TensorRT 8.6 and 10.16.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch

from trtdiag.engine.tensorrt.api_versions import Dialect
from trtdiag.engine.tensorrt.log import last_lines, logger_of
from trtdiag.errors import ArtifactError
from trtdiag.files.packed_bytes import PackedError, packed, unpacked
from trtdiag.network import DType, Network
from trtdiag.network.dtype import QUANTIZED
from trtdiag.network.layers.constant import Constant
from trtdiag.network.layers.shuffle import Shuffle

_PACKED = b"trtdiag engine packed\n"
_ZEROS = b"trtdiag engine of zeros\n"
"""What compressed engines begin with; the second of those in earlier files."""
_MOST_CODE, _MOST_COPIES = 1 << 32, 16
"""Own choice: no engine has more bytes beside its weights, nor these more often."""

Named = tuple[torch.Tensor, DType]
"""The elements of a constant and the dtype that TensorRT knows it by."""


def named_constants(network: Network) -> dict[int, Named]:
    """The constants that an engine may take anew: of floats and quantized, by the tensor that layers read.

    One whose dims are only moved is that of the moved dims, as it is written.
    """
    known: dict[int, Named] = {}
    read: set[int] = {port.tensor for port in network.outputs}
    for placed in network.layers:
        value = _known(network, placed.layer, placed.inputs, known)
        if value is None:
            read.update(placed.inputs)
        else:
            known[placed.outputs[0]] = value
    return {
        number: (value, dtype)
        for number, (value, dtype) in known.items()
        if number in read and value.numel() and (dtype.is_float or dtype in QUANTIZED)
    }


def _known(network: Network, layer: Any, inputs: tuple[int, ...], known: Mapping[int, Named]) -> Named | None:
    if isinstance(layer, Constant):
        return network.weights[layer.weights], layer.dtype
    if isinstance(layer, Shuffle) and len(inputs) == 1 and inputs[0] in known:
        value, dtype = known[inputs[0]]
        return layer.reference(value)[0], dtype
    return None


def allow_refit(dialect: Dialect, config: Any) -> None:
    """Let a configuration build engines whose named weights may change."""
    flags = dialect.trt.BuilderFlag
    config.set_flag(flags.REFIT_INDIVIDUAL if _marks(dialect) else flags.REFIT)


def name_weights(dialect: Dialect, definition: Any, named: Mapping[int, Any]) -> Iterator[int]:
    """Name the weights of a network that is written, and give those that TensorRT does not take."""
    for number, weights in named.items():
        name = str(number)
        taken = definition.set_weights_name(weights, name)
        if not taken or (_marks(dialect) and not definition.mark_weights_refittable(name)):
            yield number


def _marks(dialect: Dialect) -> bool:
    return "REFIT_INDIVIDUAL" in dialect.trt.BuilderFlag.__members__


def refitted(dialect: Dialect, engine: Any, network: Network) -> bytearray:
    """The bytes of an engine with the weights of a network; the engine has them from now on, too.

    Args:
        dialect: The TensorRT that it was built by.
        engine: It, deserialised.
        network: What it was built from, with the new weights.

    Raises:
        ArtifactError: ``not-refittable``; ``refit-refused`` where TensorRT does not take a weight.
    """
    if not engine.refittable:
        raise ArtifactError(
            "an engine cannot take other weights",
            because="it was not built refittable",
            fix="compile it with --refittable (refittable=True)",
            reference="not-refittable",
        )
    constants = named_constants(network)
    logger = logger_of(dialect.trt)
    with logger.listeners.listening() as lines:
        refitter = dialect.trt.Refitter(engine, logger)
        has = set(refitter.get_all_weights())
        lost = [number for number in constants if str(number) not in has]
        if lost:
            raise _refused(f"it does not have the weights of {_places(network, lost)} as they were given")
        alive: list[object] = []
        for number, (value, dtype) in constants.items():
            weights, owner = dialect.weights(value, dtype)
            alive += (weights, owner)
            if not refitter.set_named_weights(str(number), weights):
                raise _refused(f"it refuses the weights of {_places(network, [number])}: {last_lines(lines)}")
        missing = refitter.get_missing_weights()
        if missing or not refitter.refit_cuda_engine():
            raise _refused(f"it misses {', '.join(missing)}" if missing else last_lines(lines))
        return _serialised(dialect, engine, weights=True)


def leaves_weights_out(engine: Any) -> bool:
    """Whether TensorRT itself writes an engine without weights; 8.6 writes one of zeros."""
    return hasattr(engine, "create_serialization_config")


def without_weights(dialect: Dialect, engine: Any, network: Network) -> bytearray:
    """The bytes of an engine without its named weights; raises as ``refitted``, which gives it some again."""
    if leaves_weights_out(engine):
        return _serialised(dialect, engine, weights=False)
    return refitted(dialect, engine, _of_zeros(network))


def packed_engine(plan: bytes | bytearray) -> bytes:
    """The bytes of an engine without weights, compressed; ``unpacked_engine`` reads them."""
    return _PACKED + packed(plan)


def unpacked_engine(blob: bytes | memoryview, network: Network) -> bytes | memoryview:
    """The bytes of an engine, which may be a compressed one.

    Args:
        blob: It.
        network: What it was built from.

    Raises:
        ArtifactError: ``engine-damaged``.
    """
    head = next((each for each in (_PACKED, _ZEROS) if bytes(blob[: len(each)]) == each), None)
    if head is None:
        return blob
    weights = sum(weight.nbytes for weight in network.weights.values())
    try:
        return unpacked(bytes(blob[len(head) :]), _MOST_CODE + _MOST_COPIES * weights)
    except PackedError as error:
        raise ArtifactError(
            "an engine without weights cannot be read",
            because=str(error),
            fix="copy the file again from where it was saved, or compile the program again",
            reference="engine-damaged",
        ) from error


def _serialised(dialect: Dialect, engine: Any, *, weights: bool) -> bytearray:
    """What TensorRT writes, as a buffer that a program keeps without another copy (``engine_tensor``)."""
    if not leaves_weights_out(engine):
        return bytearray(engine.serialize())
    flags, config = dialect.trt.SerializationFlag, engine.create_serialization_config()
    if weights:
        config.clear_flag(flags.EXCLUDE_WEIGHTS)
    else:
        config.set_flag(flags.EXCLUDE_WEIGHTS)
    if "INCLUDE_REFIT" in flags.__members__:  # else it takes weights this once
        config.set_flag(flags.INCLUDE_REFIT)
    return bytearray(engine.serialize_with_config(config))


def _of_zeros(network: Network) -> Network:
    """The network with zeros in the place of its named constants' weights."""
    kinds = {placed.layer.weights: placed.layer for placed in network.layers if isinstance(placed.layer, Constant)}
    weights = {
        key: torch.zeros_like(weight) if kinds[key].dtype.is_float or kinds[key].dtype in QUANTIZED else weight
        for key, weight in network.weights.items()
    }
    return replace(network, weights=weights)


def _places(network: Network, numbers: list[int]) -> str:
    """The ops whose layers read constants, in words."""
    found = [placed.origin for placed in network.layers if set(placed.inputs) & set(numbers)]
    return ", ".join(dict.fromkeys(map(str, found[:4]))) or "an output"


def _refused(why: str) -> ArtifactError:
    return ArtifactError(
        "TensorRT does not give an engine other weights",
        because=why,
        fix="compile the program with the new weights",
        reference="refit-refused",
    )
