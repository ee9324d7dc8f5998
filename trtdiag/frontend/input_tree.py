"""Example inputs as a tree: what contains what, in the form in which torch wants ``dynamic_shapes`` beside it."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from trtdiag.errors import CaptureError
from trtdiag.frontend.factory import Recipe

REST = "rest"
KEYWORDS = "keywords"


@dataclass(frozen=True)
class Node:
    """One input, or one container of inputs.

    Attributes:
        name: As the user writes it: ``x``, ``batch['image'][0]``, ``rest[0]``.
        form: What ``dynamic_shapes`` must be here: ``dict``, ``list``, ``tuple``, ``deque``, a named tuple's class;
            ``None`` for an input itself.
        keys: The keys of a ``dict`` form, in the order of the children.
        children: What it contains.
        sizes: Of a tensor: its sizes in the example.
        value: Of an integer: the example.
        gathers: ``REST`` for the node of ``*args``, ``KEYWORDS`` for that of ``**kwargs``, else empty.
    """

    name: str
    form: type | None
    keys: tuple[Any, ...] = ()
    children: tuple[Node, ...] = ()
    sizes: tuple[int, ...] | None = None
    value: int | None = None
    gathers: str = ""

    def filled(self, parts: Sequence[Any]) -> Any:
        """A container of this form with these parts."""
        if self.form is dict:
            return dict(zip(self.keys, parts, strict=True))
        assert self.form is not None
        return self.form(*parts) if hasattr(self.form, "_fields") else self.form(parts)

    def inputs(self) -> Iterator[Node]:
        """The inputs below, in order."""
        if self.form is None:
            yield self
        for child in self.children:
            yield from child.inputs()


def nested_inputs(recipe: Recipe) -> Node:
    """The inputs of a recipe by parameter name, in the order of the signature.

    Raises:
        CaptureError: ``forward`` does not take these inputs.
    """
    signature = inspect.signature(recipe.module.forward)
    try:
        bound = signature.bind(*recipe.args, **recipe.kwargs).arguments
    except TypeError as error:
        raise CaptureError(
            f"the forward of {type(recipe.module).__name__} does not take these inputs",
            because=f"{error}; its signature is {signature}",
            fix="give args and kwargs that the module can be called with",
            reference="inputs-do-not-fit-forward",
        ) from error
    children = [_parameter(name, value, signature.parameters[name].kind) for name, value in bound.items()]
    return Node("", dict, tuple(bound), tuple(children))


def _parameter(name: str, value: Any, kind: Any) -> Node:
    if kind is inspect.Parameter.VAR_KEYWORD:
        below = tuple(_node(key, child) for key, child in value.items())
        return Node(name, dict, tuple(value), below, gathers=KEYWORDS)
    if kind is inspect.Parameter.VAR_POSITIONAL:
        below = tuple(_node(f"{name}[{index}]", child) for index, child in enumerate(value))
        return Node(name, tuple, (), below, gathers=REST)
    return _node(name, value)


def _node(name: str, value: Any) -> Node:
    form = _form(value)
    if form is None:
        if isinstance(value, torch.Tensor):
            return Node(name, None, sizes=tuple(int(size) for size in value.shape))
        return Node(name, None, value=value if type(value) is int else None)
    # One level only: everything but the container itself counts as a leaf.
    pairs = pytree.tree_flatten_with_path(value, is_leaf=lambda part: part is not value)[0]
    keys = tuple(path[0].key for path, _ in pairs) if form is dict else ()  # type: ignore[attr-defined]
    return Node(name, form, keys, tuple(_node(name + pytree.keystr(path), child) for path, child in pairs))


def _form(value: Any) -> type | None:
    """What ``dynamic_shapes`` must be beside ``value``; classes registered by the user stand there as flattened."""
    kind = pytree._get_node_type(value)
    if kind not in pytree.SUPPORTED_NODES:
        return None
    if kind not in pytree.BUILTIN_TYPES:
        flattened = pytree.SUPPORTED_NODES[kind].flatten_fn(value)[0]
        return tuple if isinstance(flattened, tuple) else list
    if isinstance(value, Mapping):
        return dict
    return type(value) if isinstance(value, tuple) else deque if isinstance(value, deque) else list


def map_inputs(
    args: Sequence[Any], kwargs: Mapping[str, Any], names: Sequence[str], change: Callable[[str, Any], Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The same inputs with ``change(name, value)`` in place of each leaf; the containers are new.

    Args:
        args: Positional inputs.
        kwargs: Keyword inputs.
        names: As of ``Recipe.parameter_names``; those of ``*args`` are handed on as ``*[0]``, ``*[1]``, ...
        change: From a leaf to what takes its place.
    """
    tops: list[str] = []
    for name in names:
        tops.append(f"*[{sum(top.startswith('*') for top in tops)}]" if name == "*" else name)
    changed = [
        pytree.tree_map_with_path(lambda path, leaf, top=top: change(top + pytree.keystr(path), leaf), value)
        for top, value in zip(tops, [*args, *kwargs.values()], strict=True)
    ]
    return tuple(changed[: len(args)]), dict(zip(kwargs, changed[len(args) :], strict=True))
