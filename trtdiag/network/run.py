"""Runs a network with the layers' reference functions, and checks every result against what was inferred."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import torch

from trtdiag.errors import InternalError, UserError
from trtdiag.network.aliased_outputs import written_inputs
from trtdiag.network.layer import numbers
from trtdiag.network.layers.attention import KVCacheUpdate
from trtdiag.network.layers.constant import Constant
from trtdiag.network.network import Network, Placed
from trtdiag.network.symbol_values import bind, size_at
from trtdiag.network.tensor import Tensor
from trtdiag.symbolic import Range, Sym, free_symbols, holds, to_text

Observe = Callable[[Placed, tuple[torch.Tensor, ...]], None]
_Numbers: TypeAlias = tuple[tuple[int, ...], "list[int] | None"]

MOST_REMEMBERED = 256
"""Own choice: for inputs of other sizes than so many, shapes are computed from their expressions again."""


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
    return PreparedRun(network)(inputs, observe)


class PreparedRun:
    """Runs one network many times; several threads may call it.

    What follows from the network alone, and from sizes that were seen before, is found once.

    Args:
        network: It must not change.
        in_place: Write into the inputs whose memory outputs are, as engines of TensorRT do: these outputs are the
            given tensors.  Otherwise inputs stay as they are.
        later: Sizes that layers find whose range is looked at by who calls, when the network has run.
    """

    def __init__(self, network: Network, *, in_place: bool = False, later: Collection[str] = ()) -> None:
        self._network, self._later = network, frozenset(later)
        self._types = network.input_types
        wanted = {port.tensor for port in network.outputs}
        last = {number: index for index, placed in enumerate(network.layers) for number in placed.inputs}
        self._done = [
            [n for n in {*placed.inputs, *placed.outputs} - wanted if last.get(n, -1) <= index]
            for index, placed in enumerate(network.layers)
        ]
        self._written = written_inputs(network) if in_place else {}
        self._writing = {network.outputs[index].tensor for index in self._written}
        self._weights = {_storage(weight) for weight in network.weights.values()}
        self._seen: dict[Hashable, _Sizes] = {}

    def __call__(self, inputs: Sequence[torch.Tensor], observe: Observe | None = None) -> tuple[torch.Tensor, ...]:
        """As ``run``."""
        network = self._network
        _check_inputs(network, self._types, inputs)
        sizes = self._sizes(inputs)
        if network.counts:  # what is found below holds for this call alone
            sizes = _Sizes(dict(sizes.symbols))
        live = {port.tensor: tensor for port, tensor in zip(network.inputs, inputs, strict=True)}
        with torch.no_grad():
            for placed, done in zip(network.layers, self._done, strict=True):
                layer = placed.layer
                read = [live[number] for number in placed.inputs]
                if isinstance(layer, Constant):
                    read = [network.weights[layer.weights]]
                made = _computed(network, placed, read, in_place=placed.outputs[0] in self._writing)
                if network.counts:
                    _count(network, placed, made, sizes.symbols, self._later)
                for number, tensor in zip(placed.outputs, made, strict=True):
                    _check_result(network, placed, number, tensor, sizes)
                    live[number] = tensor
                if observe is not None:
                    observe(placed, made)
                for number in done:
                    live.pop(number, None)
        foreign = {_storage(tensor) for tensor in inputs} | self._weights
        outputs = enumerate(live[port.tensor] for port in network.outputs)
        return tuple(
            tensor.clone() if _storage(tensor) in foreign and index not in self._written else tensor
            for index, tensor in outputs
        )

    def _sizes(self, inputs: Sequence[torch.Tensor]) -> _Sizes:
        shapes = tuple(tuple(tensor.shape) for tensor in inputs)
        elements = tuple(
            None if known.values is None else tuple(numbers(tensor))
            for known, tensor in zip(self._types, inputs, strict=True)
        )
        key = (shapes, elements)
        found = self._seen.get(key)
        if found is None:
            found = _Sizes(bind(self._network, shapes, elements))
            if len(self._seen) < MOST_REMEMBERED:
                self._seen[key] = found
        return found


@dataclass
class _Sizes:
    """The symbols' values, and shape and elements of each tensor that was checked for them."""

    symbols: dict[str, int]
    found: dict[int, _Numbers] = field(default_factory=dict)

    def of(self, number: int, inferred: Tensor) -> _Numbers:
        """What the tensor of this id must have."""
        known = self.found.get(number)
        if known is None:
            shape = tuple(size_at(size, self.symbols) for size in inferred.shape)
            values = None if inferred.values is None else [size_at(value, self.symbols) for value in inferred.values]
            known = self.found[number] = (shape, values)
        return known


def _storage(tensor: torch.Tensor) -> int:
    """Where the elements lie: an output in the place of an input or weight would change it when it is changed."""
    return tensor.untyped_storage().data_ptr()


def _computed(
    network: Network, placed: Placed, read: Sequence[torch.Tensor], *, in_place: bool
) -> tuple[torch.Tensor, ...]:
    layer = placed.layer
    try:
        if in_place and isinstance(layer, KVCacheUpdate):
            return (layer.write(*read),)
        return layer.reference(*read)
    except (IndexError, RuntimeError, ZeroDivisionError) as error:
        raise UserError(
            f"{network.describe(placed)} cannot be computed for these inputs",
            because=str(error),
            fix="look at the values of the inputs: an index or slice that depends on them may lie outside",
            reference="layer-failed",
        ) from error


def _count(
    network: Network,
    placed: Placed,
    made: Sequence[torch.Tensor],
    symbols: dict[str, int],
    later: frozenset[str],
) -> None:
    """Enter the sizes that a layer has found; one that is known already must be the same."""
    born = placed.layer.born([network.tensors[number] for number in placed.inputs])
    for number, tensor in zip(placed.outputs, made, strict=True):
        for size, actual in zip(network.tensors[number].shape, tensor.shape, strict=True):
            if not isinstance(size, Sym) or size.name not in born:
                continue
            known = symbols.setdefault(size.name, actual)
            allowed = Range() if size.name in later else network.ranges.get(size.name, Range())
            if known != actual or actual not in allowed:
                raise _unlike(network, placed, actual, str(known) if known != actual else str(allowed))
            for condition in network.given:
                names = free_symbols(condition)
                if size.name in names and names <= symbols.keys() and not holds(condition, symbols):
                    raise _unlike(network, placed, actual, f"{size.name} where {to_text(condition)}")


def _unlike(network: Network, placed: Placed, actual: int, allowed: str) -> UserError:
    return UserError(
        f"{network.describe(placed)} finds {actual} elements, and the program allows {allowed}",
        because="how many there are depends on the values of the inputs, and the program asserts otherwise",
        fix="look at the values of the inputs, and at what the model asserts about this size",
        reference="layer-failed",
    )


def _check_inputs(network: Network, types: Sequence[Tensor], inputs: Sequence[torch.Tensor]) -> None:
    if len(inputs) != len(types):
        raise _wrong_input(f"there are {len(inputs)} inputs", f"the network has {len(types)}")
    for index, (tensor, actual) in enumerate(zip(types, inputs, strict=True)):
        if actual.dtype is not tensor.dtype.torch:
            name = network.inputs[index].name
            raise _wrong_input(f"input {name!r} is {actual.dtype}", f"the network takes {tensor.dtype.torch}")


def _wrong_input(message: str, because: str) -> UserError:
    return UserError(message, because=because, fix="give the inputs that were compiled for", reference="network-input")


def _check_result(network: Network, placed: Placed, number: int, actual: torch.Tensor, sizes: _Sizes) -> None:
    inferred = network.tensors[number]
    shape, values = sizes.of(number, inferred)
    same = actual.dtype is inferred.dtype.torch and tuple(actual.shape) == shape
    if same and values is not None:
        same = values == [int(v) for v in actual.reshape(-1).tolist()]
    if not same:
        raise InternalError(
            f"{network.describe(placed)} gave another result than was inferred",
            because=f"inferred {inferred} (here {shape}), got {actual.dtype} of shape {tuple(actual.shape)}",
            fix="report it with the model",
            reference="wrong-inference",
        )
