"""Operators as values: names, arguments, aliasing and kernels, read from what torch keeps private."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx import Node

ATEN = torch.ops.aten
OF_SIZES = frozenset({"aten::sym_size", "aten::sym_stride", "aten::sym_numel", "aten::sym_storage_offset"})
"""Ops that read nothing of a tensor but its sizes and how it lies in memory, by ``schema_name``."""
INTEGERS = frozenset({torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8})
CAST: OpOverload = torch.ops.aten._to_copy.default  # noqa: SLF001 - its name is public, in spite of the underscore
"""The functional op that changes a dtype."""
REINTERPRET: OpOverload = ATEN.view.dtype
"""The view of the same memory in another dtype."""
UNSQUEEZE: OpOverload = ATEN.unsqueeze.default


def int32_pairs(tensor: torch.Tensor) -> torch.Tensor:
    """The memory of an int64 tensor as int32 ``[..., 2]``: of each element the low half, then the high one."""
    return tensor.unsqueeze(-1).view(torch.int32)


def pair_views(node: Any) -> tuple[Node, Node] | None:
    """The views by which a tensor enters as ``int32_pairs``, the last one first; ``None`` where it does not."""
    if not isinstance(node, Node) or node.target is not REINTERPRET or node.args[1:] != (torch.int32,):
        return None
    column = node.args[0]
    if not isinstance(column, Node) or column.target is not UNSQUEEZE or column.args[1:] != (-1,):
        return None
    return node, column


@dataclass(frozen=True, slots=True)
class OpArgument:
    """One argument of a schema; ``default`` is ``None`` also where there is no default."""

    name: str
    position: int
    default: object
    written: bool


@lru_cache(maxsize=4096)
def arguments_of(op: OpOverload) -> dict[str, OpArgument]:
    """Return an operator's arguments by name, in order."""
    return {
        argument.name: OpArgument(
            argument.name,
            position,
            argument.default_value if argument.has_default_value() else None,
            argument.alias_info is not None and argument.alias_info.is_write,
        )
        for position, argument in enumerate(op._schema.arguments)  # noqa: SLF001 - torch has no public accessor
    }


@lru_cache(maxsize=4096)
def shared_argument(op: OpOverload) -> OpArgument | None:
    """Return the argument whose memory the output is in by the schema's word, ``None`` where it has its own."""
    schema = op._schema  # noqa: SLF001 - torch has no public accessor
    returned: set[str] = set()
    for output in schema.returns:
        if output.alias_info is not None:
            # A list of views (``split``) has an annotation without a name: its argument then may be in any of them.
            returned |= output.alias_info.before_set | output.alias_info.after_set or {"*"}
    for argument in schema.arguments:
        aliased = argument.alias_info
        if aliased is not None and returned & (aliased.before_set | aliased.after_set):
            return arguments_of(op)[argument.name]
    return None


@lru_cache(maxsize=4096)
def written_arguments(op: OpOverload) -> tuple[OpArgument, ...]:
    """Return the arguments that an operator changes in place."""
    return tuple(argument for argument in arguments_of(op).values() if argument.written)


_VALUES = frozenset({"number", "Optional[number]", "Tensor", "Optional[Tensor]"})


@lru_cache(maxsize=4096)
def value_arguments(op: OpOverload) -> tuple[OpArgument, ...]:
    """Return the arguments that take values: tensors and the numbers in their place, not sizes, indices or dims."""
    schema = op._schema  # noqa: SLF001 - torch has no public accessor
    kinds = {argument.name: str(argument.type) for argument in schema.arguments}
    known = arguments_of(op)
    return tuple(known[name] for name, kind in kinds.items() if kind in _VALUES)


@lru_cache(maxsize=4096)
def schema_name(op: OpOverload) -> str:
    """Return an operator without its overload: ``aten::add_``."""
    return str(op._schema.name)  # noqa: SLF001 - torch has no public accessor


@lru_cache(maxsize=4096)
def short_name(op: OpOverload) -> str:
    """Return an operator without namespace, overload and in-place mark; ``__and__`` keeps its underscores."""
    name = schema_name(op).partition("::")[2]
    return name if name.endswith("__") else name.rstrip("_")


def target_name(target: object) -> str:
    """Return a target as one writes it: ``aten.add.Tensor``, ``operator.mul``, ``torch.sym_min``, ``cond``."""
    if isinstance(target, (OpOverload, HigherOrderOperator)):
        return str(target)
    if isinstance(target, (FunctionType, BuiltinFunctionType)):
        module = (target.__module__ or "").lstrip("_")
        return f"{module}.{target.__name__}" if module else target.__name__
    return str(target)


def given_to(node: Node, argument: OpArgument) -> object:
    """Return what a call has at an argument; ``None`` where it has nothing."""
    if argument.position < len(node.args):
        return node.args[argument.position]
    return node.kwargs.get(argument.name)


def named_arguments(node: Node, op: OpOverload) -> dict[str, Any]:
    """Return what a call of an operator has at each argument, by name and in order, defaults filled in."""
    return {
        known.name: node.args[known.position]
        if known.position < len(node.args)
        else node.kwargs.get(known.name, known.default)
        for known in arguments_of(op).values()
    }


def writes(node: Node) -> list[Node]:
    """Return the nodes whose memory a call changes in place."""
    op = operator_of(node)
    found: list[Node] = []
    for argument in () if op is None else written_arguments(op):
        given = given_to(node, argument)
        found += [item for item in (given if isinstance(given, (list, tuple)) else [given]) if isinstance(item, Node)]
    return found


def operator_of(node: Node) -> OpOverload | None:
    """Return the operator that a node calls, ``None`` where it calls none."""
    return node.target if isinstance(node.target, OpOverload) else None


def reads_sizes(node: Node) -> bool:
    """Whether a node asks a tensor for a size or stride, and nothing else of it."""
    op = operator_of(node)
    return op is not None and schema_name(op) in OF_SIZES


@lru_cache(maxsize=1)
def core_operators() -> tuple[OpOverload, ...]:
    """Return the ops of the core ATen set, by name: those that torch tags so."""
    found = []
    for full in torch._C._dispatch_get_all_op_names():  # noqa: SLF001 - torch.ops knows only what was asked for before
        namespace, _, rest = full.partition("::")
        name, _, overload = rest.partition(".")
        packet = getattr(torch.ops.aten, name, None) if namespace == "aten" else None
        op = None if packet is None else getattr(packet, overload or "default", None)
        if isinstance(op, OpOverload) and torch.Tag.core in op.tags:
            found.append(op)
    return tuple(sorted(found, key=target_name))


def registered_schema(name: str) -> str | None:
    """Return the schema of an op, as torch prints it, by its name as one writes it: ``aten.add.Tensor``.

    ``None`` where no such op is registered.
    """
    namespace, op, overload = name.split(".")
    found = getattr(getattr(getattr(torch.ops, namespace), op, None), overload, None)
    return str(found._schema) if isinstance(found, OpOverload) else None  # noqa: SLF001 - torch has no public accessor


_KEYS = {"cpu": "CPU", "cuda": "CUDA", "meta": "Meta"}


def has_kernel(op: OpOverload, device: str) -> bool:
    """Whether this torch can run an op on a type of device; of types that it was not asked about it is assumed."""
    key = _KEYS.get(device)
    asked = torch._C._dispatch_has_computed_kernel_for_dispatch_key  # noqa: SLF001 - torch has no public way to ask
    return key is None or bool(asked(op.name(), key))  # type: ignore[no-untyped-call]
