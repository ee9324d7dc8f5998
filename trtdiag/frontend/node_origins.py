"""Where each op comes from: module path and source stack, nested subgraphs included."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from torch.fx import GraphModule, Node

from trtdiag.frontend.program import OpOrigin
from trtdiag.graph.node_kinds import walk
from trtdiag.graph.source import NO_STACK, Stack, parse_stack

_SELF = re.compile(r"L\['self'\]|L__self__|\b__self__\b")
_INDEX = re.compile(r"\[['\"]?([^\]'\"]+)['\"]?\]")


def op_origins(graph_module: GraphModule) -> dict[str, OpOrigin]:
    """Each node's origin by name; nodes of a nested subgraph under ``<attribute>.<node>``."""
    others = ("placeholder", "output", "get_attr")
    return {each.name: origin_of(each.node) for each in walk(graph_module) if each.node.op not in others}


def origin_of(node: Node) -> OpOrigin:
    """One node's origin; a node without metadata has an empty path and no stack."""
    path, kind = _module(node.meta.get("nn_module_stack"))
    trace = node.meta.get("stack_trace")
    return OpOrigin(path, kind, parse_stack(trace) if isinstance(trace, str) else NO_STACK)


def stack_of(origins: Mapping[str, OpOrigin], node: str) -> Stack:
    """The source lines of a node by its name; none where its origin is not known."""
    return origins[node].stack if node in origins else NO_STACK


def _module(stack: Any) -> tuple[str, str]:
    if not stack:
        return "", ""
    path, kind = list(stack.values())[-1]
    return clean_path(str(path)), kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"


def clean_path(path: str) -> str:
    """``L['self'].layers[0].attn`` and ``L__self__.layers.0.attn`` as ``layers.0.attn``."""
    if "empty_nn_module_stack" in path:
        return ""
    plain = _INDEX.sub(r".\1", _SELF.sub("", path))
    return plain.replace("._modules.", ".").replace("slice(None, ", "").strip(".")
