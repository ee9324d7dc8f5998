"""A graph of torch.compile, made ready to be traced again."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import guard_float
from torch.fx.node import map_arg

from trtdiag.frontend.rebuilt_program import copied_graph


def traceable_graph(graph_module: GraphModule) -> GraphModule:
    """A copy that gives the same when it is traced; ``graph_module`` stays as it is.

    Blocks of autocast really begin and end: tracing only notes the calls that torch.compile writes, so that ops inside
    would be traced in the dtypes of outside.  Floats of the model (``eps``), which enter as tensors where everything
    is dynamic, are numbers, and guards of torch.compile: an engine holds them as constants.
    """
    graph, copies = copied_graph(graph_module.graph)
    for old, new in copies.items():
        if old.target is torch.amp.autocast_mode._enter_autocast:
            new.target = _enter
        elif old.target is torch.amp.autocast_mode._exit_autocast:
            new.target = _exit
        elif _is_float_of_model(old):
            _put_number(new, guard_float(old.meta["example_value"]))
    made = GraphModule(graph_module, graph)
    made.meta.update(copy.copy(graph_module.meta))
    return made


def _put_number(node: Node, number: float) -> None:
    """Let whoever reads ``node`` read ``number``."""

    def put(argument: Node) -> Any:
        return number if argument is node else argument

    for user in list(node.users):
        user.args, user.kwargs = map_arg((user.args, user.kwargs), put)
    node.graph.erase_node(node)


def _enter(*arguments: Any) -> torch.amp.autocast_mode.autocast:
    """Begin a block of autocast, for real and in the trace."""
    device, dtype, enabled, cached = arguments
    mode = torch.amp.autocast_mode.autocast(device, dtype=dtype, enabled=enabled, cache_enabled=cached)
    mode.__enter__()  # type: ignore[no-untyped-call]
    return mode


def _exit(mode: torch.amp.autocast_mode.autocast) -> None:
    mode.__exit__(None, None, None)


def _is_float_of_model(node: Node) -> bool:
    if (
        node.op != "call_method"
        or node.target != "item"
        or not isinstance(node.meta.get("example_value"), torch.SymFloat)
    ):
        return False
    source = node.args[0]
    return isinstance(source, Node) and bool(getattr(source.meta.get("grapharg"), "pass_arg_as_tensor", False))
