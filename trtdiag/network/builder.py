"""Writes a network, layer by layer, and refuses a wrong one at the layer that makes it wrong."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod

import torch

from trtdiag.errors import InternalError
from trtdiag.network.dtype import INDICES, QUANTIZED, DType
from trtdiag.network.facts import ShapeConstraints, free_symbols_of
from trtdiag.network.layer import Layer, LayerError, require, require_dtype, require_rank
from trtdiag.network.layers.constant import Constant
from trtdiag.network.network import Network, Origin, Placed, Port
from trtdiag.network.symbol_values import unbound
from trtdiag.network.tensor import MOST_VALUES, Tensor, shape_of
from trtdiag.network.value import Arithmetic, Value
from trtdiag.network.weights import WeightKeys
from trtdiag.symbolic import Condition, Expr, Range, as_expr, to_text

_BUILDER = Origin("network", "builder")


class NetworkBuilder:
    """A network being written.

    Attributes:
        arithmetic: Writes the layers of operators between values; set by who writes with these.

    Args:
        ranges: The range of each symbol that sizes of inputs are made of.
        given: What is known of them beyond that: guards that hold for every input.
        definitions: What symbols stand for that name a size which no input gives otherwise: proofs look through them,
            and they may name symbols that no input gives.  Those need a range in ``ranges`` too.
        keys: Where the keys of weights are remembered; shared between builders, each weight is hashed once.
        facts: The first three as they were worked out before.
    """

    arithmetic: Arithmetic

    def __init__(
        self,
        ranges: Mapping[str, Range] | None = None,
        given: Sequence[Condition] = (),
        definitions: Mapping[str, Expr] | None = None,
        *,
        keys: WeightKeys | None = None,
        facts: ShapeConstraints | None = None,
    ) -> None:
        self.facts = ShapeConstraints(ranges or {}, given, definitions) if facts is None else facts
        self._keys = keys if keys is not None else WeightKeys()
        self._tensors: list[Tensor] = []
        self._inputs: list[Port] = []
        self._outputs: list[Port] = []
        self._layers: list[Placed] = []
        self._makers: dict[int, Placed] = {}
        self._weights: dict[str, torch.Tensor] = {}
        self._constants: dict[tuple[str, DType, Hashable], Value] = {}
        self._recipes: dict[int, Hashable] = {}
        self._origin: Origin | None = None

    @property
    def inputs(self) -> tuple[Port, ...]:
        """The inputs so far."""
        return tuple(self._inputs)

    def producer(self, number: int) -> Placed | None:
        """The layer that made the tensor of an id; ``None`` for an input."""
        return self._makers.get(number)

    def value(self, number: int) -> Value:
        """The tensor of an id."""
        return Value(self, number, self._tensors[number])

    def weight(self, layer: Constant) -> torch.Tensor:
        """The content of a constant."""
        return self._weights[layer.weights]

    @contextmanager
    def at(self, origin: Origin) -> Iterator[None]:
        """All layers added inside come from ``origin``; a layer with impossible attributes is reported with it."""
        before, self._origin = self._origin, origin
        try:
            yield
        except LayerError as error:
            raise _refused("a layer", origin, (), str(error)) from error
        finally:
            self._origin = before

    def input(
        self, name: str, dtype: DType, shape: Sequence[Expr | int], values: Sequence[Expr | int] | None = None
    ) -> Value:
        """A new input; it may come after layers, in the network it stands before them.

        Args:
            name: Of no other input.
            dtype: Its dtype.
            shape: Its sizes: numbers, or expressions over symbols with a range.
            values: Its elements, where it holds sizes: integers without dims or in one dim.  Symbols are read off
                them as off sizes.
        """
        known = None if values is None else shape_of(values)
        tensor = Tensor(dtype, shape_of(shape), known)
        try:
            require(all(port.name != name for port in self._inputs), "there is an input of that name")
            for size in tensor.shape:
                require(not self.facts.never_at_least(size, 0), f"{to_text(size)} is negative")
            if known is not None:
                require_dtype(tensor, INDICES, "an input that holds sizes")
                require_rank(tensor, (0, 1), "an input that holds sizes")
                require(len(known) <= MOST_VALUES, f"{len(known)} sizes are more than {MOST_VALUES}")
                fills = tensor.static_shape is not None and prod(tensor.static_shape) == len(known)
                require(fills, f"{len(known)} values do not fill {tensor}")
        except LayerError as error:
            raise _refused(f"the input {name!r}", _BUILDER, (tensor,), str(error)) from error
        value = self._new(tensor)
        self._inputs.append(Port(name, value.id))
        return value

    def constant(
        self,
        weight: torch.Tensor,
        origin: Origin | None = None,
        dtype: DType | None = None,
        *,
        recipe: Hashable = None,
    ) -> Value:
        """The tensor as a constant; one layer for all constants of equal content, dtype, shape and recipe.

        The weight is not copied, so it must not change.  Values of small integer and bool tensors are known.
        ``dtype`` is said for a quantized one, which the dtype of the weight holds; ``recipe`` where the keys know
        none.
        """
        dtype = DType.of(weight.dtype) if dtype is None else dtype
        if dtype is None or dtype.torch is not weight.dtype:
            why = f"networks have no {weight.dtype}" if dtype is None else f"{weight.dtype} does not hold {dtype.value}"
            raise _refused("Constant", origin or self._origin or _BUILDER, (), why)
        given, weight = weight, weight.detach()
        key = self._keys.of(given)
        recipe = self._keys.recipe(given) if recipe is None else recipe
        place = key, dtype, recipe
        if place not in self._constants:
            self._weights[key] = weight
            layer = Constant(key, dtype, tuple(weight.shape))
            self._constants[place] = self.add(layer, origin=origin)[0]
            if recipe is not None:
                self._recipes[self._constants[place].id] = recipe
        return self._constants[place]

    def add(self, layer: Layer, *inputs: Value, origin: Origin | None = None) -> tuple[Value, ...]:
        """The outputs of a new layer.

        Raises:
            InternalError: ``wrong-layer`` where the layer does not take these inputs; names layer, op and line.
        """
        source = origin or self._origin or _BUILDER
        tensors = tuple(value.tensor for value in inputs)
        try:
            require(all(value.builder is self for value in inputs), "an input is of another network")
            few, most = layer.fewest_inputs, layer.most_inputs
            fits = len(inputs) >= few and (most is None or len(inputs) <= most)
            require(fits, f"it takes {few} to {'any number of' if most is None else most} inputs, not {len(inputs)}")
            if layer.takes is not None:
                require_dtype(tensors[0], layer.takes)
            made = layer.infer(tensors, self.facts)
            if isinstance(layer, Constant):
                made = (self._with_values(layer, made[0]),)
        except LayerError as error:
            raise _refused(layer.kind, source, tensors, str(error), layer) from error
        outputs = tuple(self._new(tensor) for tensor in made)
        ids = tuple(value.id for value in inputs)
        placed = Placed(layer, ids, tuple(value.id for value in outputs), source)
        self._layers.append(placed)
        self._makers.update(dict.fromkeys(placed.outputs, placed))
        return outputs

    def add_single(self, layer: Layer, *inputs: Value, origin: Origin | None = None) -> Value:
        """The output of a new layer that has one."""
        (output,) = self.add(layer, *inputs, origin=origin)
        return output

    def output(self, name: str, value: Value) -> None:
        """Make ``value`` the next output."""
        if value.builder is not self or any(port.name == name for port in self._outputs):
            why = "there is an output of that name" if value.builder is self else "it is of another network"
            raise _refused(f"the output {name!r}", _BUILDER, (value.tensor,), why)
        self._outputs.append(Port(name, value.id))

    def build(self) -> Network:
        """The network, without the layers that no output needs.

        Raises:
            InternalError: ``wrong-layer`` where a symbol cannot be read off the inputs, or has no range.
        """
        missing = ", ".join(unbound([self._tensors[port.tensor] for port in self._inputs]))
        if missing:
            raise _refused("the network", _BUILDER, (), f"no input has a size or element that gives {missing}")
        return self._numbered(tuple(self._behind({port.tensor for port in self._outputs})))

    def made_for(self, values: Iterable[Value]) -> Iterator[tuple[Placed, Tensor]]:
        """Every tensor that a layer makes on the way to ``values``, with its layer, in order."""
        for placed in self._behind({value.id for value in values}):
            for number in placed.outputs:
                yield placed, self._tensors[number]

    def _behind(self, needed: set[int]) -> list[Placed]:
        """The layers that these tensors need, in order."""
        kept: list[Placed] = []
        for placed in reversed(self._layers):
            if needed.intersection(placed.outputs):
                needed.update(placed.inputs)
                kept.append(placed)
        return kept[::-1]

    def _numbered(self, layers: tuple[Placed, ...]) -> Network:
        """The network of these layers, its tensors numbered without gaps."""
        old = [port.tensor for port in self._inputs] + [number for placed in layers for number in placed.outputs]
        new = {number: index for index, number in enumerate(old)}
        placed = tuple(
            Placed(p.layer, tuple(new[i] for i in p.inputs), tuple(new[o] for o in p.outputs), p.origin) for p in layers
        )
        weights = {p.layer.weights: self._weights[p.layer.weights] for p in placed if isinstance(p.layer, Constant)}
        tensors = tuple(self._tensors[number] for number in old)
        own = free_symbols_of([expr for tensor in tensors for expr in (*tensor.shape, *(tensor.values or ()))])
        symbols, given, definitions = self.facts.about(own)
        return Network(
            tuple(Port(port.name, new[port.tensor]) for port in self._inputs),
            placed,
            tuple(Port(port.name, new[port.tensor]) for port in self._outputs),
            tensors,
            weights,
            {name: self.facts.ranges.get(name, Range(0, None)) for name in sorted(symbols)},
            given,
            definitions,
            {new[number]: recipe for number, recipe in self._recipes.items() if number in new},
        )

    def _with_values(self, layer: Constant, tensor: Tensor) -> Tensor:
        weight = self._weights.get(layer.weights)
        require(weight is not None, f"there are no weights {layer.weights}")
        assert weight is not None
        fits = weight.dtype is layer.dtype.torch and tuple(weight.shape) == layer.shape
        require(fits, f"the weights are {weight.dtype} of shape {tuple(weight.shape)}")
        if layer.dtype.is_float or layer.dtype in QUANTIZED or weight.numel() > MOST_VALUES:
            return tensor
        return Tensor(tensor.dtype, tensor.shape, tuple(as_expr(int(v)) for v in weight.reshape(-1).tolist()))

    def _new(self, tensor: Tensor) -> Value:
        self._tensors.append(tensor)
        return Value(self, len(self._tensors) - 1, tensor)


def _refused(
    what: str, origin: Origin, inputs: Sequence[Tensor], why: str, layer: Layer | None = None
) -> InternalError:
    seen = f"; inputs: {', '.join(map(str, inputs))}" if inputs else ""
    return InternalError(
        f"{what} for {origin} does not fit into the network",
        because=why + seen + (f"; layer: {layer}" if layer is not None else ""),
        fix="report it with the model; leaving the op to PyTorch avoids it",
        reference="wrong-layer",
    )
