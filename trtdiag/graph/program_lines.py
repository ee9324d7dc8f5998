"""A program as lines of text, one a node: equal for exports of one model, whatever its weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Node

from trtdiag.graph.operators import OpOverload, named_arguments, target_name

_OF_THE_STATE = (InputKind.PARAMETER, InputKind.BUFFER)


def program_lines(exported: ExportedProgram, digest: Callable[[torch.Tensor], str]) -> tuple[str, ...]:
    """A line for each node of a program.

    Nodes are numbered, and sizes that vary are said by their range, so that names which torch made up do not count.

    Args:
        exported: The program.
        digest: Says the content of a tensor that belongs to no state: a lifted constant, a buffer that is not saved.
    """
    specs = {spec.arg.name: spec for spec in exported.graph_signature.input_specs if hasattr(spec.arg, "name")}
    ranges = {symbol: f"{known.lower}..{known.upper}" for symbol, known in exported.range_constraints.items()}
    numbers: dict[Node, int] = {}
    lines = []
    for node in exported.graph.nodes:
        numbers[node] = len(numbers)
        spec = specs.get(node.name) if node.op == "placeholder" else None
        if spec is not None and spec.kind in _OF_THE_STATE and spec.target in exported.state_dict:
            said = f"{spec.kind.name.lower()} {spec.target}"
        elif spec is not None and spec.target is not None:
            held = exported.constants.get(spec.target)
            said = f"constant {digest(held)[:16]}" if isinstance(held, torch.Tensor) else f"constant {spec.target}"
        elif node.op == "placeholder":
            said = "input"
        else:
            args = _arguments(node, numbers)
            said = f"{target_name(node.target) if node.op == 'call_function' else node.op}({', '.join(args)})"
        # Of what is returned each value was said where it is made, and a saved program says it again or not.
        lines.append(said if node.op == "output" else f"{said} -> {_value(node.meta.get('val'), ranges)}")
    return tuple(lines)


def _arguments(node: Node, numbers: dict[Node, int]) -> list[str]:
    if isinstance(node.target, OpOverload):  # a saved program may leave defaults out
        return [_said(value, numbers) for value in named_arguments(node, node.target).values()]
    return [*(_said(each, numbers) for each in node.args), *(_said(each, numbers) for each in node.kwargs.values())]


def _said(value: Any, numbers: dict[Node, int]) -> str:
    if isinstance(value, Node):
        return f"%{numbers[value]}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_said(each, numbers) for each in value)}]"
    return str(value)


def _value(value: Any, ranges: Mapping[Any, str]) -> str:
    if isinstance(value, torch.Tensor):
        sizes = ", ".join(_size(size, ranges) for size in value.shape)
        return f"{str(value.dtype).removeprefix('torch.')}[{sizes}]"
    if isinstance(value, (list, tuple)):
        return f"({', '.join(_value(each, ranges) for each in value)})"
    return type(value).__name__


def _size(size: Any, ranges: Mapping[Any, str]) -> str:
    return str(size) if isinstance(size, int) else ranges.get(size.node.expr, "?")
