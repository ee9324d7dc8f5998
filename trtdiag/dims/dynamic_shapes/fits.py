"""Whether a written ``dynamic_shapes`` can stand beside the inputs at all."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, NoReturn

from trtdiag.errors import DimsError
from trtdiag.frontend.input_tree import KEYWORDS, REST, Node
from trtdiag.wording import one_of_type, shown


def written_children(node: Node, spec: Any) -> list[Any]:
    """What is written for each child of a container, ``None`` where nothing is.

    Forms that torch refuses but that leave no doubt are read: a list for a tuple, the entries of ``*args`` or
    ``**kwargs`` not wrapped in one of their own, an input that is left out.

    Raises:
        DimsError: Something is written for what is not there, or in a form that says nothing.
    """
    if spec is None:
        return [None] * len(node.children)
    if isinstance(spec, Mapping):
        if node.form is not dict:
            if len(node.children) != 1:
                _refuse(node, f"a dict stands for a {_word(node)} of {len(node.children)} inputs", "write a sequence")
            return [spec]
        return _by_key(node, spec)
    if not isinstance(spec, (list, tuple, deque)):
        _refuse(node, f"{shown(spec)} stands for a {_word(node)}", "write one entry for each input in it")
    if node.form is dict and node.name:
        _refuse(node, f"{one_of_type(spec)} stands for a dict", f"write a dict with the keys {list(node.keys)}")
    listed = _nested_rest(node, list(spec))
    if any(_says_something(entry) for entry in listed[len(node.children) :]):
        _refuse(node, f"{len(listed)} entries stand for {len(node.children)} inputs", "write one entry for each")
    return (listed + [None] * len(node.children))[: len(node.children)]


def written_dims(node: Node, spec: Any) -> dict[int, Any]:
    """What is written for each dim of one tensor, negative indices counted from the end.

    Raises:
        DimsError: It is no dict by index and no sequence of the tensor's rank.
    """
    rank = len(node.sizes or ())
    if spec is None:
        return {}
    if isinstance(spec, (list, tuple)):
        if len(spec) != rank:
            _refuse(node, f"{len(spec)} entries stand for the {rank} dims of a tensor", "write one for each dim")
        return dict(enumerate(spec))
    if not isinstance(spec, Mapping):
        _refuse(
            node,
            f"{shown(spec)} stands for a tensor of {rank} dims",
            f"write {{0: {shown(spec)}}}, by the index of the dim",
        )
    found: dict[int, Any] = {}
    for index, entry in spec.items():
        if not isinstance(index, int) or not -rank <= index < rank:
            _refuse(node, f"{shown(index)} is no dim of a tensor of {rank} dims", "write the index of the dim")
        found[index % rank] = entry
    return found


def _by_key(node: Node, spec: Mapping[Any, Any]) -> list[Any]:
    entries: list[Any] = []
    used = set(node.keys)
    for key, child in zip(node.keys, node.children, strict=True):
        if child.gathers == KEYWORDS and key not in spec:
            entries.append({name: spec[name] for name in child.keys if name in spec})
            used |= set(child.keys)
        else:
            entries.append(spec.get(key))
    for key, entry in spec.items():
        if key not in used and _says_something(entry):
            _refuse(node, f"{shown(key)} is none of {list(node.keys)}", "use the names of the inputs that are given")
    return entries


def _nested_rest(node: Node, listed: list[Any]) -> list[Any]:
    """Entries of ``*args`` that stand on their own, put into one: that is where torch looks for them."""
    place = next((index for index, child in enumerate(node.children) if child.gathers == REST), None)
    if place is None or node.name:
        return listed
    count = len(node.children[place].children)
    if count > 1 and len(listed) == len(node.children) - 1 + count:
        return [*listed[:place], listed[place : place + count], *listed[place + count :]]
    return listed


def _says_something(spec: Any) -> bool:
    if isinstance(spec, Mapping):
        return any(_says_something(entry) for entry in spec.values())
    if isinstance(spec, (list, tuple, deque)):
        return any(_says_something(entry) for entry in spec)
    return spec is not None


def _word(node: Node) -> str:
    return "dict" if node.form is dict else "list" if node.form is list else "tuple"


def _refuse(node: Node, because: str, fix: str) -> NoReturn:
    where = f"for {node.name}" if node.name else "at its top"
    raise DimsError(
        f"dynamic_shapes does not fit the inputs {where}",
        because=because,
        fix=fix,
        reference="dynamic-shapes-do-not-fit",
    )
