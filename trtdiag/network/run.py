"""Runs a network with the layers' reference functions, and checks every result against what was inferred."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch

from trtdiag.errors import InternalError, UserError
from trtdiag.network.binding import bind, size_at
from trtdiag.network.layer import numbers
from trtdiag.network.layers.constant import Constant
from trtdiag.network.network import Network, Placed
from trtdiag.network.tensor import Tensor

Observe = Callable[[Placed, tuple[torch.Tensor, ...]], None]


def run(network: Network, inputs: Sequence[torch.Tensor], observe: Observe | None = None) -> tuple[torch.Tensor, ...]:
    """The outputs for ``inputs``, in order, on the CPU.

    Args:
        network: Run layer by layer; a tensor is freed after the last layer that reads it.
        inputs: In the order of ``network.inputs``, of exactly their dtypes.
        observe: Called with each layer and its outputs, in order.  What is kept from there is not freed.

    Raises:
        UserError: ``network-input`` where the inputs differ in number or dtype.
        UserError: ``layer-failed`` where a layer cannot take the values, such as an index outside; names op and line.
        ShapeOutOfRangeError: Where their shapes, or the sizes that they hold, are outside what it was written for.
        InternalError: ``wrong-inference`` where a layer's result has another dtype or shape than was inferred.
    """
    _check_inputs(network, inputs)
    symbols = bind(network, [tuple(tensor.shape) for tensor in inputs], _known_elements(network, inputs))
    live = {port.tensor: tensor for port, tensor in zip(network.inputs, inputs, strict=True)}
    last = {number: index for index, placed in enumerate(network.layers) for number in placed.inputs}
    wanted = {port.tensor for port in network.outputs}
    with torch.no_grad():
        for index, placed in enumerate(network.layers):
            layer = placed.layer
            read = [live[number] for number in placed.inputs]
            if isinstance(layer, Constant):
                read = [network.weights[layer.weights]]
            made = _computed(network, placed, read)
            for number, tensor in zip(placed.outputs, made, strict=True):
                _check_result(network, placed, network.tensors[number], tensor, symbols)
                live[number] = tensor
            if observe is not None:
                observe(placed, made)
            for number in {*placed.inputs, *placed.outputs} - wanted:
                if last.get(number, -1) <= index:
                    live.pop(number, None)
    foreign = {_storage(tensor) for tensor in (*inputs, *network.weights.values())}
    outputs = (live[port.tensor] for port in network.outputs)
    return tuple(tensor.clone() if _storage(tensor) in foreign else tensor for tensor in outputs)


def _known_elements(network: Network, inputs: Sequence[torch.Tensor]) -> list[list[int] | None]:
    """The elements of each input that holds sizes."""
    pairs = zip(network.input_types, inputs, strict=True)
    return [None if known.values is None else list(numbers(tensor)) for known, tensor in pairs]


def _storage(tensor: torch.Tensor) -> int:
    """Where the elements lie: an output in the place of an input or weight would change it when it is changed."""
    return tensor.untyped_storage().data_ptr()


def intermediate(network: Network, inputs: Sequence[torch.Tensor]) -> dict[int, torch.Tensor]:
    """The value of every tensor by its id, inputs and constants included: what bisection compares."""
    found = {port.tensor: tensor for port, tensor in zip(network.inputs, inputs, strict=True)}
    run(network, inputs, lambda placed, made: found.update(zip(placed.outputs, made, strict=True)))
    return found


def _computed(network: Network, placed: Placed, read: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    try:
        return placed.layer.reference(*read)
    except (IndexError, RuntimeError, ZeroDivisionError) as error:
        raise UserError(
            f"{network.describe(placed)} cannot be computed for these inputs",
            because=str(error),
            fix="look at the values of the inputs: an index or slice that depends on them may lie outside",
            reference="layer-failed",
        ) from error


def _check_inputs(network: Network, inputs: Sequence[torch.Tensor]) -> None:
    if len(inputs) != len(network.inputs):
        raise _wrong_input(f"there are {len(inputs)} inputs", f"the network has {len(network.inputs)}")
    for port, tensor, actual in zip(network.inputs, network.input_types, inputs, strict=True):
        if actual.dtype is not tensor.dtype.torch:
            raise _wrong_input(f"input {port.name!r} is {actual.dtype}", f"the network takes {tensor.dtype.torch}")


def _wrong_input(message: str, because: str) -> UserError:
    return UserError(message, because=because, fix="give the inputs that were compiled for", reference="network-input")


def _check_result(
    network: Network, placed: Placed, inferred: Tensor, actual: torch.Tensor, symbols: Mapping[str, int]
) -> None:
    shape = tuple(size_at(size, symbols) for size in inferred.shape)
    same = actual.dtype is inferred.dtype.torch and tuple(actual.shape) == shape
    if same and inferred.values is not None:
        same = [size_at(value, symbols) for value in inferred.values] == [int(v) for v in actual.reshape(-1).tolist()]
    if not same:
        raise InternalError(
            f"{network.describe(placed)} gave another result than was inferred",
            because=f"inferred {inferred} (here {shape}), got {actual.dtype} of shape {tuple(actual.shape)}",
            fix="report it with the model",
            reference="wrong-inference",
        )
