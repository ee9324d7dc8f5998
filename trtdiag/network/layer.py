"""What every layer kind is: attributes, a rule from input types to output types, and a reference function."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

import torch

from trtdiag.network.dtype import DType
from trtdiag.network.facts import ShapeConstraints
from trtdiag.network.tensor import Tensor
from trtdiag.shapes.op_call import Shape
from trtdiag.shapes.shape_constraints import Demand
from trtdiag.symbolic import Expr, to_text


class LayerError(ValueError):
    """A layer has impossible attributes or inputs.  The builder adds the op and its line (see ``builder``)."""


class Given(Enum):
    """In the place of an attribute: the value is not known here, the next input of the layer brings it."""

    INPUT = "input"


INPUT = Given.INPUT

Sizes = tuple[int, ...] | Given


@dataclass(frozen=True)
class Layer(ABC):
    """The attributes of one layer, named and specified after TensorRT's layer of the same kind.

    A kind consists of its fields and three methods: ``__post_init__`` refuses impossible attributes, ``infer`` refuses
    impossible inputs and states the outputs, ``reference`` computes them; ``takes`` names the dtypes of the first
    input.  Types are strong: nothing is promoted, and dims broadcast only where one is 1.  Attributes that are
    ``INPUT`` come as further inputs, in the order of the fields.  Axes count from 0.
    """

    fewest_inputs: ClassVar[int] = 1
    most_inputs: ClassVar[int | None] = 1
    """``None``: any number."""
    takes: ClassVar[frozenset[DType] | None] = None
    """The dtypes of the first input; ``None`` where ``infer`` says them."""
    labels: ClassVar[frozenset[str]] = frozenset()
    """Fields that only name something: two layers that differ in them alone compute the same."""

    def __init_subclass__(
        cls, inputs: int | tuple[int, int | None] | None = None, takes: frozenset[DType] | None = None
    ) -> None:
        if inputs is not None:
            cls.fewest_inputs, cls.most_inputs = inputs if isinstance(inputs, tuple) else (inputs, inputs)
        cls.takes = takes or cls.takes

    @property
    def kind(self) -> str:
        """The name of the kind."""
        return type(self).__name__

    def born(self, inputs: Sequence[Tensor]) -> Mapping[str, Expr]:
        """The symbols that the data decides and only sizes of the outputs give, each with the most that it can be."""
        del inputs
        return {}

    @abstractmethod
    def infer(self, inputs: Sequence[Tensor], facts: ShapeConstraints) -> tuple[Tensor, ...]:
        """The outputs for ``inputs``, whose number and whose first dtype (``takes``) are right.

        Raises:
            LayerError: The layer does not take them.
        """

    @abstractmethod
    def reference(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The outputs, computed with PyTorch to TensorRT's semantics; inputs are never changed."""


def require(condition: bool, why: str) -> None:
    """Raise ``LayerError`` unless ``condition``."""
    if not condition:
        raise LayerError(why)


def require_dtype(tensor: Tensor, dtypes: Collection[DType], role: str = "the input") -> None:
    """Refuse a tensor of another dtype."""
    if tensor.dtype not in dtypes:
        names = ", ".join(sorted(dtype.value for dtype in dtypes))
        raise LayerError(f"{role} is {tensor.dtype.value}; it must be one of {names}")


def require_same_dtype(inputs: Sequence[Tensor]) -> None:
    """Refuse inputs of different dtypes: nothing is promoted."""
    kinds = {tensor.dtype.value: None for tensor in inputs}
    require(len(kinds) == 1, f"the inputs are {' and '.join(kinds)}; they must have one dtype")


def require_axes(axes: Sequence[int], rank: int) -> None:
    """Refuse axes that repeat or lie outside a tensor of ``rank``."""
    require(len(set(axes)) == len(axes), f"the axes {tuple(axes)} repeat")
    require(all(0 <= axis < rank for axis in axes), f"the axes {tuple(axes)} are not all in 0..{rank - 1}")


def require_rank(tensor: Tensor, ranks: Collection[int], role: str = "the input") -> None:
    """Refuse a tensor of another rank."""
    expected = " or ".join(map(str, ranks))
    require(tensor.rank in ranks, f"{role} has rank {tensor.rank}; it must be {expected}")


def require_equal(facts: ShapeConstraints, left: Expr, right: Expr, what: str) -> None:
    """Refuse sizes that are not proven to be the same."""
    require(facts.equal(left, right), f"{what}: {to_text(left)} and {to_text(right)} are not proven to be equal")


def require_fitting(facts: ShapeConstraints, demands: Iterable[Demand]) -> None:
    """Refuse sizes that are not proven to stand to each other as an operation asks."""
    for demand in demands:
        left, right = to_text(demand.left), to_text(demand.right)
        require(facts.fulfils(demand), f"{demand.what}: {left} and {right} are not proven to be {demand.ask.value}")


def broadcast(inputs: Sequence[Tensor], facts: ShapeConstraints) -> Shape:
    """The common shape of inputs of equal rank, where dims of size 1 repeat."""
    ranks = {tensor.rank for tensor in inputs}
    require(len(ranks) == 1, f"the inputs have ranks {sorted(ranks)}; they must be the same")
    shape = inputs[0].shape
    for tensor in inputs[1:]:
        sizes = [facts.broadcast(left, right) for left, right in zip(shape, tensor.shape, strict=True)]
        for axis, size in enumerate(sizes):
            if size is None:
                left, right = to_text(shape[axis]), to_text(tensor.shape[axis])
                raise LayerError(f"dim {axis}: {left} and {right} are neither proven to be equal, nor is one of them 1")
        shape = tuple(size for size in sizes if size is not None)
    return shape


def given_values(tensor: Tensor, role: str) -> tuple[Expr, ...]:
    """The values of a one-dimensional shape tensor.

    Raises:
        LayerError: It is none, or its values do not follow from sizes and constants.
    """
    require_dtype(tensor, (DType.INT32, DType.INT64), role)
    require_rank(tensor, (1,), role)
    if tensor.values is None:
        raise LayerError(f"{role} does not follow from the sizes of the network's inputs and from constants")
    return tensor.values


def given_scalar(tensor: Tensor, role: str) -> Expr:
    """The value of a shape tensor without dims.

    Raises:
        LayerError: It is none, or its value does not follow from sizes and constants.
    """
    require_dtype(tensor, (DType.INT32, DType.INT64), role)
    require_rank(tensor, (0,), role)
    if tensor.values is None:
        raise LayerError(f"{role} does not follow from sizes and constants")
    return tensor.values[0]


def refuse_negative(indices: torch.Tensor, what: str = "index") -> None:
    """Refuse indices below 0 when the network runs: PyTorch would count them from the end."""
    if indices.numel() and indices.min() < 0:
        raise IndexError(f"the {what} {int(indices.min())} is negative")


def numbers(tensor: torch.Tensor) -> tuple[int, ...]:
    """The elements of a shape tensor when the network runs."""
    return tuple(int(value) for value in tensor.reshape(-1).tolist())
