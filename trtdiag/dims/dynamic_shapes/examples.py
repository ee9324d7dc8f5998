"""Example inputs of other sizes, made of the values of the given ones."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from trtdiag.frontend.dim_sites import split_site
from trtdiag.frontend.input_tree import map_inputs

_REST = re.compile(r"(?P<top>\w+)(?P<below>\[\d+\].*)")


def resized(
    args: Sequence[Any], kwargs: Mapping[str, Any], names: Sequence[str], sizes: Mapping[str, int]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """``(args, kwargs)`` with other sizes at the given sites; the given tensors are left as they are.

    Values are repeated or cut along a dim, so that they stay what the model expects (token ids, masks); a dim of no
    values gives zeros.  A site that is no dim (``n``) is an integer input and gets the number.

    Args:
        args: Positional inputs.
        kwargs: Keyword inputs.
        names: As of ``Recipe.parameter_names``.
        sizes: Size by site: ``x.shape[2]``, ``batch['image'][0].shape[3]``.

    Raises:
        KeyError: A site is none of these inputs.
    """
    wanted: dict[str, dict[int, int]] = {}
    numbers: dict[str, int] = {}
    sites: dict[str, str] = {}
    for site, size in sizes.items():
        text, dim = split_site(site)
        name = _starred(text, names)
        sites[name] = site
        if dim is None:
            numbers[name] = size
        else:
            wanted.setdefault(name, {})[dim] = size

    def change(name: str, value: Any) -> Any:
        if name in wanted and isinstance(value, torch.Tensor):
            sites.pop(name)
            return _tensor(value, wanted[name])
        if name in numbers and type(value) is int:
            sites.pop(name)
            return numbers[name]
        return value

    changed = map_inputs(args, kwargs, names, change)
    if sites:
        raise KeyError(next(iter(sites.values())))
    return changed


def _starred(name: str, names: Sequence[str]) -> str:
    """``rest[0]['q']`` as ``*[0]['q']`` where ``rest`` is no parameter with a name of its own."""
    match = _REST.fullmatch(name)
    if match is None or "*" not in names or match["top"] in names:
        return name
    return f"*{match['below']}"


def _tensor(tensor: torch.Tensor, sizes: Mapping[int, int]) -> torch.Tensor:
    changed = tensor.detach()
    for dim, size in sizes.items():
        if dim >= changed.dim():
            raise KeyError(f"dim {dim} of a tensor of {changed.dim()} dims")
        old = changed.shape[dim]
        if old == size:
            continue
        if old == 0:
            shape = [size if index == dim else other for index, other in enumerate(changed.shape)]
            changed = torch.zeros(shape, dtype=changed.dtype, device=changed.device)
        else:
            changed = changed.index_select(dim, torch.arange(size, device=changed.device) % old)
    if changed.shape == tensor.shape:
        return tensor
    return _laid_out(changed, tensor).requires_grad_(tensor.requires_grad)


def _laid_out(changed: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """``changed`` with its dims in memory in the order of ``like``."""
    if like.layout is not torch.strided or like.is_contiguous():
        return changed
    for rank, form in ((4, torch.channels_last), (5, torch.channels_last_3d)):
        if like.dim() == rank and like.is_contiguous(memory_format=form):
            return changed.contiguous(memory_format=form)
    strides = like.stride()
    if 0 in strides:  # expanded: its values lie in no order of their own
        return changed.contiguous()
    order = sorted(range(like.dim()), key=lambda dim: (-strides[dim], dim))
    permuted = changed.permute(order).contiguous()
    back = [order.index(dim) for dim in range(like.dim())]
    return permuted.permute(back)
