"""Nested arguments and results as flat lists, by torch's own rules, which it keeps private."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

TreeSpec = pytree.TreeSpec


def leaves_of(tree: Any) -> list[Any]:
    """The leaves in order."""
    return pytree.tree_leaves(tree)


def flattened(tree: Any) -> tuple[list[Any], TreeSpec]:
    """The leaves in order, and what rebuilds the tree."""
    return pytree.tree_flatten(tree)


def rebuilt(leaves: list[Any], spec: TreeSpec) -> Any:
    """The tree of ``flattened`` with other leaves."""
    return pytree.tree_unflatten(leaves, spec)


def tensors_changed(change: Callable[[torch.Tensor], torch.Tensor], tree: Any) -> Any:
    """The tree with its tensors changed and all else as it is."""
    return pytree.tree_map_only(torch.Tensor, change, tree)


def named_leaves(tree: Any) -> tuple[list[tuple[str, Any]], TreeSpec]:
    """The leaves with their place in words (``['boxes'][0]``, empty for a tree that is a leaf)."""
    found, spec = pytree.tree_flatten_with_path(tree)
    return [(pytree.keystr(path), leaf) for path, leaf in found], spec
