"""A plan laid into the nested form of ``dynamic_shapes``: containers as torch wants them, leaves as plain values."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torch.utils import _pytree as pytree

from trtdiag.dims.dynamic_shapes.asked import DimReader, Structure, hint_kind
from trtdiag.dims.dynamic_shapes.fits import written_children
from trtdiag.dims.plan import DimDef, Leaf, LeafKind
from trtdiag.frontend.dim_sites import split_site
from trtdiag.frontend.input_tree import Node
from trtdiag.symbolic.ranges import Range

_LONGEST_LIST = 1000  # a larger index is a key
STATIC_HINT = Leaf(LeafKind.STATIC)  # without a value: written ``Dim.STATIC``


def laid(structure: Structure, leaves: Mapping[str, Leaf], asked: Mapping[str, Leaf]) -> Any:
    """The user's structure with ``leaves`` in it; dims that are not in it keep what was asked.

    Containers become what torch compares them with: an entry that is missing is added, one too many is left out,
    ``None`` for a container becomes the container.
    """
    written = structure.written
    if not leaves and not written and not isinstance(written, (Mapping, list, tuple)):
        return written
    if not leaves and not written:
        return type(written)() if type(written) in (dict, list, tuple) else {}
    return _Laying(leaves, asked).container(structure.inputs, written)


class _Laying:
    def __init__(self, leaves: Mapping[str, Leaf], asked: Mapping[str, Leaf]) -> None:
        self._leaves = leaves
        self._asked = asked

    def container(self, node: Node, spec: Any) -> Any:
        if node.form is None:
            return self._integer(node, spec) if node.sizes is None else self._tensor(node.name, len(node.sizes), spec)
        parts = [
            self.container(child, entry)
            for child, entry in zip(node.children, written_children(node, spec), strict=True)
        ]
        form = node.form
        if not node.name and isinstance(spec, (list, tuple)):
            form = list if isinstance(spec, list) else tuple
        if form is dict:
            made = dict(zip(node.keys, parts, strict=True))
            order = [key for key in spec if key in made] if isinstance(spec, Mapping) else []
            return {key: made[key] for key in (*order, *made)}
        if hasattr(form, "_fields"):
            return form(*parts)
        return form(parts)

    def _integer(self, node: Node, spec: Any) -> Leaf | None:
        leaf = self._leaves.get(node.name, self._asked.get(node.name))
        if leaf is None or leaf.kind is LeafKind.STATIC:  # torch takes no int for an integer input
            return STATIC_HINT if hint_kind(spec) == "STATIC" and leaf is not None else None
        return leaf

    def _tensor(self, name: str, rank: int, spec: Any) -> Any:
        if isinstance(spec, (list, tuple)):
            kept = [self._dim(f"{name}.shape[{index}]", entry) for index, entry in enumerate(spec)]
            return kept if isinstance(spec, list) else tuple(kept)
        made: dict[int, Leaf | None] = {}
        keys = list(spec) if isinstance(spec, Mapping) else []
        for key in keys:
            leaf = self._dim(f"{name}.shape[{key % rank}]", spec[key])
            # torch reads a hint at a negative index without complaint, and leaves the dim static.
            hint = leaf is not None and leaf.kind in (LeafKind.AUTO, LeafKind.DYNAMIC)
            made[key % rank if hint else key] = leaf
        there = {key % rank for key in keys}
        for index in range(rank):
            leaf = self._leaves.get(f"{name}.shape[{index}]")
            if index not in there and leaf is not None:
                made[index] = leaf
        return made if made or isinstance(spec, Mapping) else None

    def _dim(self, site: str, entry: Any) -> Leaf | None:
        asked = self._asked.get(site)
        leaf = self._leaves.get(site, asked)
        if leaf == asked and hint_kind(entry) == "STATIC":
            return STATIC_HINT
        return leaf


def laid_by_path(inputs: Sequence[tuple[str, int | None]], leaves: Mapping[str, Leaf]) -> Any:
    """``leaves`` in dicts, lists and tuples made from the names of the inputs (``batch['image'][0]``).

    An index is taken for one into a list; the entries that no input is known for are ``None``.  ``args[0]`` at the
    top is an entry of the tuple of ``*args``.  A name that is no path, or that would stand in the place of another,
    is one key.
    """
    by_dim = {split_site(site): leaf for site, leaf in leaves.items()}
    grown = _Growing()
    paths = {tuple(path_of(name)) for name, _ in inputs}
    for name, _ in inputs:
        keys = path_of(name)
        dims = {dim: leaf for (owner, dim), leaf in by_dim.items() if owner == name and dim is not None}
        entry: Any = dict(sorted(dims.items())) or by_dim.get((name, None))
        if any(tuple(keys[:length]) in paths for length in range(1, len(keys))):
            keys = [name]
        below = grown
        for key in keys[:-1]:
            below = below.setdefault(key, _Growing())
        below[keys[-1]] = entry
    return {key: _grown(part, top=key) for key, part in grown.items()}


class _Growing(dict[Any, Any]):
    """A container that is still growing, told apart from what stands for one input."""


class _Attribute(str):
    """A field's name in a path, told apart from a key."""

    __slots__ = ()


def path_of(name: str) -> list[Any]:
    """``batch['image'][0].mask`` as ``["batch", "image", 0, "mask"]``; a text that is no path is one key."""
    try:
        tree = ast.parse(name, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return [name]
    keys: list[Any] = []
    while isinstance(tree, (ast.Subscript, ast.Attribute)):
        if isinstance(tree, ast.Attribute):
            keys.append(_Attribute(tree.attr))
            tree = tree.value
            continue
        if not isinstance(tree.slice, ast.Constant) or not isinstance(tree.slice.value, (str, int)):
            return [name]
        keys.append(tree.slice.value)
        tree = tree.value
    return [tree.id, *reversed(keys)] if isinstance(tree, ast.Name) else [name]


def _grown(part: Any, top: Any = None) -> Any:
    if not isinstance(part, _Growing):
        return part
    keys = list(part)
    if all(isinstance(key, int) for key in keys) and max(keys) < _LONGEST_LIST:
        listed = [_grown(part[index]) if index in part else None for index in range(max(keys) + 1)]
        return tuple(listed) if top == "args" else listed
    if all(isinstance(key, _Attribute) for key in keys):  # a registered class stands as the list of its fields
        return [_grown(part[key]) for key in keys]
    return {str(key) if isinstance(key, _Attribute) else key: _grown(part[key]) for key in keys}


def as_written(spec: Any, reader: DimReader) -> Any:
    """A ``dynamic_shapes`` just as it was written, right or wrong, with plain values for its entries."""
    if spec is None or isinstance(spec, Leaf):
        return spec
    if isinstance(spec, Mapping):
        return {key: as_written(entry, reader) for key, entry in spec.items()}
    if isinstance(spec, tuple) and hasattr(spec, "_fields"):
        return type(spec)(*[as_written(entry, reader) for entry in spec])
    if isinstance(spec, (list, tuple, deque)):
        entries = [as_written(entry, reader) for entry in spec]
        return tuple(entries) if isinstance(spec, tuple) else deque(entries) if isinstance(spec, deque) else entries
    return STATIC_HINT if hint_kind(spec) == "STATIC" else reader.leaf(spec, None)


def leaves_in(value: Any) -> list[Leaf]:
    """Every leaf of a nested form, in order."""
    return [part for part in pytree.tree_leaves(value) if isinstance(part, Leaf)]


def is_integer(site: str) -> bool:
    """Whether a site is an integer input, and no dim of a tensor."""
    return split_site(site)[1] is None


def hints_for_integers(leaves: Mapping[str, Leaf], defs: Iterable[DimDef]) -> dict[str, Leaf]:
    """``leaves`` with ``Dim.DYNAMIC`` of the same range where a Dim stands for an integer: torch takes none there."""
    ranges = {definition.name: definition.range for definition in defs}
    return {
        site: Leaf(LeafKind.DYNAMIC, range=range_of(leaf, ranges[leaf.root]))
        if leaf.kind is LeafKind.DIM and is_integer(site) and leaf.root in ranges
        else leaf
        for site, leaf in leaves.items()
    }


def range_of(leaf: Leaf, root: Range) -> Range:
    """The sizes that a DIM leaf takes when its root has the range ``root``."""
    return Range(root.min or 0, root.max).scaled(leaf.scale, leaf.offset)
