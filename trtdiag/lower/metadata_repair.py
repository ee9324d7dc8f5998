"""Gives suspect nodes a right value, by fake propagation in a copy of the graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from trtdiag.graph.fake_values import fake_mode_of
from trtdiag.graph.recurrent import is_recurrent, recurrent_value
from trtdiag.lower.autocast import under_autocast
from trtdiag.lower.concrete_values import spell
from trtdiag.lower.graph_copy import brought_tensors, copied
from trtdiag.lower.metadata_recheck import Suspect
from trtdiag.lower.nested_calls import Modes
from trtdiag.wording import first_line


def repaired_copy(
    graph_module: GraphModule, suspects: Sequence[Suspect], exported: ExportedProgram, modes: Modes | None = None
) -> tuple[GraphModule, dict[str, str], dict[str, str]]:
    """A copy whose suspect nodes are recomputed in graph order, under autocast as ``modes`` say it is around the graph.

    Returns:
        The copy, the recomputed value's text by node name, and the reason by name of those that stay without one.
    """
    mode = fake_mode_of(graph_module.graph)
    names = {suspect.node.name for suspect in suspects}
    fresh = copied(graph_module)
    done: dict[str, str] = {}
    failed: dict[str, str] = {}
    tensors = brought_tensors(exported)
    for node in under_autocast(fresh.graph, modes or {}):
        if node.name not in names:
            continue
        node.meta.pop("val", None)
        node.meta.pop("tensor_meta", None)
        try:
            node.meta["val"] = _value(node, mode, tensors)
        except Exception as error:  # a fake kernel may raise anything; the reason is reported
            failed[node.name] = first_line(error)
        else:
            done[node.name] = spell(node.meta["val"])
    return fresh, done, failed


def _value(node: Node, mode: FakeTensorMode, tensors: Mapping[str, Any]) -> Any:
    if node.op == "placeholder":
        tensor = tensors.get(node.name)
        if not isinstance(tensor, torch.Tensor):
            raise ValueError("it is an input, and nothing else records its size")
        return mode.from_tensor(tensor, static_shapes=True)
    if node.op != "call_function":
        raise ValueError(f"a {node.op} node cannot be recomputed")
    lost = [source.name for source in node.all_input_nodes if "val" not in source.meta]
    if lost:
        raise ValueError(f"its input {lost[0]} has no value")
    args, kwargs = map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
    env = mode.shape_env
    with torch.no_grad(), mode:
        if isinstance(node.target, OpOverload) and is_recurrent(node.target):
            made: Callable[..., Any] = recurrent_value  # the kernel refuses sizes that are symbols
            return made(*args, **kwargs)
        if env is None:
            return node.target(*args, **kwargs)  # type: ignore[operator]  # a call_function's target is callable
        pending = list(env.pending_fresh_unbacked_symbols)
        with env.suppress_guards():
            value = node.target(*args, **kwargs)  # type: ignore[operator]  # as above
        if len(env.pending_fresh_unbacked_symbols) > len(pending):
            env.pending_fresh_unbacked_symbols[:] = pending
            raise ValueError("its size depends on data, and the symbol that stood for it is lost")
        return value
