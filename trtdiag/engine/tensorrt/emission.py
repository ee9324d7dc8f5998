"""A typed network as TensorRT's network definition, layer by layer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import torch

from trtdiag.engine.tensorrt.api_versions import Dialect
from trtdiag.engine.tensorrt.engine_bindings import input_name, layer_name, output_name, tensor_name
from trtdiag.engine.tensorrt.int8_layers import Int8Layers
from trtdiag.engine.tensorrt.log import Lines
from trtdiag.engine.tensorrt.refusal import lacking, refused_layer
from trtdiag.errors import EngineBuildError
from trtdiag.network import DType, Layer, Network, Origin, Placed, Tensor
from trtdiag.network.layers import Constant, Identity, Shuffle
from trtdiag.network.missing_features import lacks
from trtdiag.symbolic import Num, to_text
from trtdiag.wording import first_line

Outputs = tuple[Any, ...]
"""The ``ITensor`` of each output of a layer."""
Emitter = Callable[["Step", Any], Outputs]
"""Writes one layer of the kind that it is registered for."""
_NOT_TAKEN = (TypeError, ValueError, RuntimeError)
"""What TensorRT's bindings raise for arguments that a layer does not take: more than 8 dims, say.

Source: python/src/infer of NVIDIA/TensorRT; what C++ throws becomes a RuntimeError (pybind11, "Exceptions")."""


@dataclass
class Emission:
    """A network definition being written.

    Attributes:
        dialect: The TensorRT that it is written for.
        network: What is written.
        definition: TensorRT's ``INetworkDefinition``.
        lines: What TensorRT says meanwhile.
        layers: Every TensorRT layer by its name, with the layer that it was written for.
        made: The outputs of every layer, in order.
        alive: What must live until the engine is built.
        inputs: The network's inputs.
        held: Layers that are held to their types, by name.
        refittable: The constants whose weights may change later, by number; none where none may.
        named: The weights of those that were written.
    """

    dialect: Dialect
    network: Network
    definition: Any
    lines: Lines
    layers: dict[str, Placed] = field(default_factory=dict)
    made: list[tuple[Placed, Outputs]] = field(default_factory=list)
    alive: list[object] = field(default_factory=list)
    inputs: list[Any] = field(default_factory=list)
    held: dict[str, Any] = field(default_factory=dict)
    refittable: Collection[int] = ()
    named: dict[int, Any] = field(default_factory=dict)
    _tensors: dict[int, Any] = field(default_factory=dict)
    _constants: dict[int, tuple[Placed, torch.Tensor]] = field(default_factory=dict)
    _used: Counter[tuple[str, str]] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.pinned = any(tensor.dtype is DType.FLOAT16 for tensor in self.network.tensors)
        self.int8 = Int8Layers(self.network)

    def write(self, emitters: Mapping[type[Layer], Emitter]) -> None:
        """Write inputs, layers and outputs.

        Raises:
            EngineBuildError: ``layer-refused``, ``layer-missing``, ``dtype-missing``.
        """
        for index, (port, tensor) in enumerate(zip(self.network.inputs, self.network.input_types, strict=True)):
            self._require_dtype(f"the input {port.name!r}", tensor.dtype)
            sizes = tuple(int(size.value) if isinstance(size, Num) else -1 for size in tensor.shape)
            made, why = self._input(input_name(index, port.name), self.dialect.dtype(tensor.dtype), sizes)
            if made is None:
                raise refused_layer(self.network, _edge("input", port.name, port.tensor), self.lines, why)
            for axis, size in enumerate(tensor.shape):
                if not isinstance(size, Num):  # dims of one name are of one size: TensorRT need not allow for others
                    made.set_dimension_name(axis, to_text(size))
            self.inputs.append(made)
            self._tensors[port.tensor] = made
        for placed in self.network.layers:
            for number in placed.outputs:
                self._require_dtype(self.network.describe(placed), self.network.tensors[number].dtype)
            if (known := self._known(placed)) is not None:  # written when a layer reads it as a tensor
                self._constants[placed.outputs[0]] = placed, known
                continue
            self._emit(placed, emitters)
        self._mark_outputs()

    def tensor(self, number: int) -> Any:
        """The ``ITensor`` of a tensor of the network."""
        if number not in self._tensors:
            self._tensors[number] = self.constant(*self._constants[number], number)
        return self._tensors[number]

    def weight(self, number: int) -> torch.Tensor | None:
        """The elements of a tensor that is a constant."""
        found = self._constants.get(number)
        return None if found is None else found[1]

    def _known(self, placed: Placed) -> torch.Tensor | None:
        """The elements that a layer gives whatever comes in: a constant, and one whose dims are moved."""
        layer = placed.layer
        if isinstance(layer, Constant):
            return self.network.weights[layer.weights]
        if isinstance(layer, Shuffle) and len(placed.inputs) == 1 and placed.inputs[0] in self._constants:
            return layer.reference(self._constants[placed.inputs[0]][1])[0]
        return None

    def weights(self, value: torch.Tensor, number: int, dtype: DType | None = None) -> Any:
        """TensorRT's weights; those that may change have memory of their own, for it names all uses of one memory."""
        if number in self.named:
            return self.named[number]
        changes = number in self.refittable
        weights, owner = self.dialect.weights(value.clone() if changes else value, dtype)
        self.alive.append(owner)
        if changes:
            self.named[number] = weights
        return weights

    def constant(self, placed: Placed, value: torch.Tensor, number: int = -1) -> Any:
        """A constant that belongs to a layer."""
        layer = placed.layer
        weights = self.weights(value, number, layer.dtype if isinstance(layer, Constant) else None)
        made = self.definition.add_constant(tuple(value.shape), weights)
        return self.adopt(placed, made, "Constant", pin=None)[0]

    def adopt(
        self, placed: Placed, made: Any, kind: str, pin: tuple[DType | None, tuple[DType, ...]] | None
    ) -> Outputs:
        """Name a layer that TensorRT made, hold it to its types, and give its outputs.

        Args:
            placed: What it was made for.
            made: It, or ``None`` where TensorRT refused.
            kind: For its name.
            pin: What it computes in and what its outputs are; ``None`` where that follows.

        Raises:
            EngineBuildError: ``layer-refused``.
        """
        if made is None:
            raise refused_layer(self.network, placed, self.lines)
        used = placed.origin.node, kind
        self._used[used] += 1
        made.name = layer_name(*used, self._used[used])
        # In brackets, since an engine's layer has what was told of all that it was fused from.
        self.dialect.tell_origin(made, f"[{placed.origin}]")
        self.layers[made.name] = placed
        if pin is not None and self.pinned and not self.int8.frees(placed, pin[0]):
            self.dialect.pin(made, *pin)
            self.held[made.name] = made
        outputs = tuple(made.get_output(index) for index in range(made.num_outputs))
        for index, output in enumerate(outputs):
            output.name = tensor_name(made.name, index)
        return outputs

    def _emit(self, placed: Placed, emitters: Mapping[type[Layer], Emitter]) -> None:
        target = self.dialect.target
        missing = lacks(target, placed.layer, [self.network.tensors[number] for number in placed.inputs])
        if missing is not None:
            raise lacking(self.network, placed, target, missing)
        try:
            outputs = emitters[type(placed.layer)](Step(self, placed), placed.layer)
        except _NOT_TAKEN as error:
            raise refused_layer(self.network, placed, self.lines, first_line(error)) from error
        self.made.append((placed, outputs))
        self._tensors.update(zip(placed.outputs, outputs, strict=True))

    def _input(self, name: str, dtype: Any, sizes: tuple[int, ...]) -> tuple[Any, str]:
        try:
            return self.definition.add_input(name, dtype, sizes), ""
        except _NOT_TAKEN as error:
            return None, first_line(error)

    def _mark_outputs(self) -> None:
        taken = {port.tensor for port in self.network.inputs}
        for index, (port, tensor) in enumerate(zip(self.network.outputs, self.network.output_types, strict=True)):
            made = self.tensor(port.tensor)
            if port.tensor in taken:
                edge = _edge("output", port.name, port.tensor)
                compute = tensor.dtype if tensor.dtype.is_float else None
                made = self.adopt(edge, self.definition.add_identity(made), "Identity", (compute, (tensor.dtype,)))[0]
            taken.add(port.tensor)
            made.name = output_name(index, port.name)
            self.definition.mark_output(made)
            self.dialect.type_output(made, tensor.dtype)

    def _require_dtype(self, what: str, dtype: DType) -> None:
        if dtype.value not in self.dialect.target.dtypes:
            target = self.dialect.target
            raise EngineBuildError(
                f"{target.name} has no {dtype.value}, which {what} has",
                because=f"the network was not written for {target.name}",
                fix=f"compile with target={target.version!r}",
                reference="dtype-missing",
            )


class Step:
    """One layer of the network at its place.

    Attributes:
        emission: What it is a step of.
        placed: The layer.
        dialect: The TensorRT that is written for.
        definition: The network definition to add layers to.
        count: How many inputs there are.
    """

    def __init__(self, emission: Emission, placed: Placed) -> None:
        self.emission, self.placed = emission, placed
        self.dialect, self.definition = emission.dialect, emission.definition
        self.count = len(placed.inputs)

    @property
    def tensors(self) -> list[Any]:
        """The ``ITensor`` of each input."""
        return [self.emission.tensor(number) for number in self.placed.inputs]

    def tensor(self, index: int) -> Any:
        """The ``ITensor`` of an input."""
        return self.emission.tensor(self.placed.inputs[index])

    def type(self, index: int) -> Tensor:
        """Dtype and shape of an input."""
        return self.emission.network.tensors[self.placed.inputs[index]]

    def made_type(self) -> Tensor:
        """Dtype and shape of the first output."""
        return self.emission.network.tensors[self.placed.outputs[0]]

    def weight(self, index: int) -> torch.Tensor | None:
        """The elements of an input that is a constant."""
        return self.emission.weight(self.placed.inputs[index])

    def weights(self, index: int) -> Any:
        """TensorRT's weights of an input that is a constant, and empty ones of one that is not."""
        if (value := self.weight(index)) is None:
            return self.dialect.trt.Weights(self.dialect.dtype(self.type(index).dtype))
        return self.emission.weights(value, self.placed.inputs[index])

    def constant(self, value: torch.Tensor) -> Any:
        """A further constant as an ``ITensor``."""
        return self.emission.constant(self.placed, value)

    def place(self, made: Any, *dtypes: DType, **attributes: object) -> Outputs:
        """The outputs of a layer that was added for this step.

        Args:
            made: The layer.
            dtypes: What its outputs are, and what it computes in, if not the step's: of the indices that a TopK gives,
                TensorRT 8.6.0 refuses a Shuffle that is held to float16 ("cannot use precision Half for layer that
                computes indices", seen on an H200).
            attributes: What the layer is told beside; of our enums TensorRT's members.
        """
        outputs = dtypes or tuple(self.emission.network.tensors[number].dtype for number in self.placed.outputs)
        read = () if dtypes else tuple(self.emission.network.tensors[number].dtype for number in self.placed.inputs)
        compute = next((dtype for dtype in (*outputs, *read) if dtype.is_float), None)
        return self._told(made, (compute, outputs), attributes)

    def place_untyped(self, made: Any, **attributes: object) -> Outputs:
        """The outputs of a layer whose types cannot be pinned, since its attributes say them."""
        return self._told(made, None, attributes)

    def _told(
        self, made: Any, pin: tuple[DType | None, tuple[DType, ...]] | None, attributes: Mapping[str, object]
    ) -> Outputs:
        outputs = self.emission.adopt(self.placed, made, self.placed.layer.kind, pin)
        for name, value in attributes.items():
            setattr(made, name, self.dialect.member(value) if isinstance(value, Enum) else value)
        return outputs

    def require(self, has: bool, what: str) -> None:
        """Refuse a layer that the version lacks.

        Raises:
            EngineBuildError: ``layer-missing``.
        """
        if not has:
            raise lacking(self.emission.network, self.placed, self.dialect.target, what)


def axes_mask(axes: tuple[int, ...]) -> int:
    """Axes as the bits of a number."""
    return sum(1 << axis for axis in axes)


def _edge(what: str, name: str, number: int) -> Placed:
    return Placed(Identity(), (number,), (), Origin(what, name))
