"""Ops that return what others write into their arguments: ``add.Tensor`` for ``add_.Tensor`` and ``add.out``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch._ops import OpOverload

from trtdiag.graph.operators import schema_name, written_arguments


@dataclass(frozen=True)
class FunctionalVariant:
    """What stands in the place of an op that writes.

    Attributes:
        op: It returns, in their order, what the other writes.
        outputs: The arguments that the other has for its results alone (``out``); none of an in-place op.
    """

    op: OpOverload
    outputs: tuple[str, ...] = ()


@lru_cache(maxsize=4096)
def functional_variant(op: OpOverload) -> FunctionalVariant | None:
    """The functional variant of an op that writes, ``None`` where there is none."""
    namespace, _, name = schema_name(op).partition("::")
    outputs = tuple(argument.name for argument in written_arguments(op))
    packet = getattr(getattr(torch.ops, namespace), name.removesuffix("_"), None)
    if packet is None:
        return None
    if name.endswith("_"):
        variant = getattr(packet, op._overloadname, None)
        # The tensor itself may be called ``self`` in one and ``input`` in the other.
        # ``pow.Scalar`` takes a number first, where ``pow_.Scalar`` takes one second.
        if isinstance(variant, OpOverload) and not variant._schema.is_mutable and _of_a_tensor(variant):
            return FunctionalVariant(variant) if _names(op)[1:] == _names(variant)[1:] else None
        # ``bernoulli_.float`` is ``bernoulli.p``, and ``normal_`` has a packet of its own.
        others = [packet, getattr(getattr(torch.ops, namespace), f"{name}functional", None)]
        return next((found for one in others if one is not None and (found := _of_arguments(one, op))), None)
    if not outputs or not _returns_them(op, outputs):
        return None
    given = [one for one in arguments_with_types(op) if one[0] not in outputs]
    for overload in packet.overloads():
        variant = getattr(packet, overload)
        same = not variant._schema.is_mutable and arguments_with_types(variant) == given
        if same and len(variant._schema.returns) == len(outputs):
            return FunctionalVariant(variant, outputs)
    return None


def _of_arguments(packet: Any, op: OpOverload) -> FunctionalVariant | None:
    """The overload that takes what ``op`` takes, and writes nothing."""
    for overload in packet.overloads():
        variant = getattr(packet, overload)
        if not variant._schema.is_mutable and arguments_with_types(variant) == arguments_with_types(op):
            return FunctionalVariant(variant)
    return None


def _returns_them(op: OpOverload, outputs: tuple[str, ...]) -> bool:
    """Whether an op has arguments for its results alone, and returns these in their order."""
    schema = op._schema
    given = [argument for argument in schema.arguments if argument.name in outputs]
    if len(schema.returns) != len(given) or not all(argument.kwarg_only for argument in given):
        return False
    pairs = zip(schema.returns, given, strict=True)
    return all(
        one.alias_info is not None
        and argument.alias_info is not None
        and one.alias_info.before_set == argument.alias_info.before_set
        for one, argument in pairs
    )


def _of_a_tensor(op: OpOverload) -> bool:
    return bool(op._schema.arguments) and str(op._schema.arguments[0].type) == "Tensor"


def _names(op: OpOverload) -> list[str]:
    return [argument.name for argument in op._schema.arguments]


def arguments_with_types(op: OpOverload) -> list[tuple[str, str]]:
    """The names of an op's arguments, and their types as the schema has them."""
    return [(argument.name, str(argument.type)) for argument in op._schema.arguments]
