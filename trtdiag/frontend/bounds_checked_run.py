"""Runs programs so that no kernel reaches beyond its tensors, whatever the program states of their sizes.

What a file states is checked when it is read, at the sizes of its example.  What its ops really give may be another
size, and at other sizes of the inputs anything: so calls of ops that take sizes on trust are checked again as they run.
"""

from __future__ import annotations

import linecache
import re
import sys
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from types import FrameType
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx import GraphModule, Node
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from trtdiag.errors import UserError
from trtdiag.frontend.node_origins import origin_of
from trtdiag.graph.kernel_bounds.check import reach_of_sizes, trusts_elements, trusts_sizes
from trtdiag.symbolic import ExpressionError, evaluate, from_sympy

_DECIDED_BY_DATA = frozenset({torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output})
_ASSIGNED = re.compile(r"\s*(\w+) = ")


class BeyondTensorsError(UserError):
    """A call that would read or write beyond its tensors; it was not made.

    Attributes:
        node: The node that called, where it is known.
        by_elements: Whether what a tensor holds, and not its sizes, leads beyond.
    """

    node: Node | None = None
    by_elements: bool = False


def trusted_calls_checked(module: torch.nn.Module | None) -> AbstractContextManager[object]:
    """Check the calls that take sizes on trust, while a program runs on tensors.

    Where it has no such call nothing is checked, and nothing is slower.  Instead of such a call that would reach beyond
    its tensors ``BeyondTensorsError`` is raised: its op, node, line, and the sizes.

    Args:
        module: The program's, which names the node and its line; ``None``: every call is asked.
    """
    return _Checking(module) if module is None or has_trusting_calls(module) else nullcontext()


def has_trusting_calls(module: torch.nn.Module) -> bool:
    """Whether a program, or a branch of it, calls an op that takes sizes on trust."""
    return any(_trusts(node) for graph in _graphs(module) for node in graph.graph.nodes)


def sizes_vary(module: torch.nn.Module) -> bool:
    """Whether the data may decide what ops trust: one call then tells nothing of another with inputs of these sizes."""
    return any(
        isinstance(node.target, HigherOrderOperator)
        or (isinstance(op := node.target, OpOverload) and (trusts_elements(op) or _DECIDED_BY_DATA & {*op.tags}))
        for graph in _graphs(module)
        for node in graph.graph.nodes
    )


def stated_too(error: BeyondTensorsError, numbers: Mapping[str, int]) -> bool:
    """Whether the graph states the same sizes for a call that would reach beyond its tensors: then it hides nothing.

    Args:
        error: The refused call.
        numbers: The sizes that it ran at, for each symbol of its program.
    """
    node = error.node
    if node is None or not isinstance(node.target, OpOverload):
        return False

    def at(value: Any) -> tuple[int, ...] | None:
        said = value.meta.get("val") if isinstance(value, Node) else None
        if not isinstance(said, torch.Tensor):
            return None
        try:
            return tuple(_number(size, numbers) for size in said.shape)
        except (KeyError, ExpressionError):  # the data decide it
            return None

    return bool(reach_of_sizes(node.target, node.args, node.kwargs, at))


def _number(size: Any, numbers: Mapping[str, int]) -> int:
    return int(evaluate(from_sympy(size.node.expr), numbers)) if isinstance(size, torch.SymInt) else int(size)


class _Checking(TorchFunctionMode):
    """Asks the rule before each call that a graph makes, those inside of branches and loops too."""

    def __init__(self, module: torch.nn.Module | None) -> None:
        super().__init__()
        self._module = module

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if isinstance(func, HigherOrderOperator):
            args, kwargs = pytree.tree_map(self._inside, (args, kwargs), is_leaf=_is_graph)
        elif isinstance(func, OpOverload) and (reach := reach_of_sizes(func, args, kwargs, _sizes)):
            error = _beyond(func, reach, self._module)
            args, kwargs = pytree.tree_map(_sizes_alone, (args, kwargs))
            error.by_elements = not reach_of_sizes(func, args, kwargs, _sizes)
            raise error
        return func(*args, **kwargs)

    def _inside(self, given: Any) -> Any:
        """A graph that a branch or loop runs, checked as well: the mode is off while the branch itself is called."""
        if not _is_graph(given):
            return given

        def checked(*args: Any, **kwargs: Any) -> Any:
            with self:
                return given(*args, **kwargs)

        return checked


def _trusts(node: Node) -> bool:
    return isinstance(node.target, OpOverload) and trusts_sizes(node.target)


def _is_graph(given: Any) -> bool:
    return isinstance(given, torch.nn.Module)


def _graphs(module: torch.nn.Module | None) -> Iterable[GraphModule]:
    return () if module is None else (each for each in module.modules() if isinstance(each, GraphModule))


def _sizes_alone(value: Any) -> Any:
    return value.to("meta") if isinstance(value, torch.Tensor) else value


def _sizes(value: Any) -> tuple[int, ...] | None:
    return tuple(value.shape) if isinstance(value, torch.Tensor) else None


def _beyond(op: OpOverload, reach: str, module: torch.nn.Module | None) -> BeyondTensorsError:
    name = _node_name()
    nodes = (node for graph in _graphs(module) for node in graph.graph.nodes if node.name == name)
    node = next((node for node in nodes if _trusts(node)), None)
    line = None if node is None else origin_of(node).stack.best
    place = (f" in the node {name}" if name else "") + (f" ({line})" if line is not None else "")
    error = BeyondTensorsError(
        f"{op} would reach beyond its tensors{place}",
        because=f"{reach}; PyTorch's kernel does not compare them, so it was not called",
        fix="where the program is a file, it was changed or is broken: export the model again and save it anew;"
        " otherwise the model does not take these sizes",
        reference="beyond-tensors",
    )
    error.node = node
    return error


def _node_name() -> str:
    """The node that is being run: by whoever runs node after node, or by the source that a graph was made into."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        node = frame.f_locals.get("n", frame.f_locals.get("node"))
        if isinstance(node, Node):
            return node.name
        if frame.f_code.co_filename.startswith("<eval_with_key>"):
            found = _ASSIGNED.match(linecache.getline(frame.f_code.co_filename, frame.f_lineno))
            return found[1] if found else ""
        frame = frame.f_back
    return ""
