"""Whether the parts of a tensor that are used as indices make up the whole tensor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

from torch.fx import Node

from trtdiag.dtypes.call import Scope
from trtdiag.graph.operators import operator_of, short_name
from trtdiag.grouping import grouped

Use = TypeVar("Use")

_SPLITS = frozenset({"split", "split_with_sizes", "chunk", "tensor_split", "unsafe_split"})


def covering_uses(node: Node, found: Mapping[Node, Use], scope: Scope) -> list[Use]:
    """Return the uses of a tensor's parts where those parts hold all of its values; empty where they do not.

    Parts are rows and stretches along one dim of a fixed size: ``x[:, 0]`` to ``x[:, n-1]``, ``x.unbind(1)``,
    ``x.split(2)``, ``x[:4]`` and ``x[4:]``.

    Args:
        node: The tensor.
        found: What is known of the parts.
        scope: Sizes of the tensor and its parts.
    """
    sizes = scope.tensors(node)
    if len(sizes) != 1:
        return []
    lengths = [dim.range.single for dim in sizes[0].dims]
    parts = _parts(node, lengths, scope)
    for dim, known in grouped((dim, (stretch, found[part])) for dim, stretch, part in parts if part in found).items():
        length = lengths[dim]
        if length and len({index for stretch, _ in known for index in stretch} & set(range(length))) == length:
            return [use for _, use in known]
    return []


def _parts(node: Node, lengths: list[int | None], scope: Scope) -> Iterator[tuple[int, range, Node]]:
    """Yield each part with its dim and the indices it holds along it; only dims of a fixed size have parts."""
    for user in node.users:
        op = operator_of(user)
        if op is None or not user.args or user.args[0] is not node:
            continue
        name = short_name(op)
        if name == "unbind":
            dim = _dim(user, 1, lengths)
            if dim is not None:
                yield from ((dim, range(index, index + 1), element) for index, element in _elements(user))
        elif name in _SPLITS:
            yield from _stretches(user, _dim(user, 2, lengths), scope)
        elif name in ("select", "slice"):
            dim = _dim(user, 1, lengths)
            length = lengths[dim] if dim is not None else None
            if dim is None or length is None:
                continue
            stretch = _selected(user, length) if name == "select" else _sliced(user, length)
            if stretch is not None:
                yield dim, stretch, user


def _dim(user: Node, position: int, lengths: list[int | None]) -> int | None:
    dim = user.args[position] if position < len(user.args) else user.kwargs.get("dim", 0)
    if not isinstance(dim, int) or not -len(lengths) <= dim < len(lengths):
        return None
    return dim % len(lengths)


def _elements(user: Node) -> list[tuple[int, Node]]:
    return [
        (element.args[1], element)
        for element in user.users
        if len(element.args) == 2 and isinstance(element.args[1], int) and operator_of(element) is None
    ]


def _stretches(user: Node, dim: int | None, scope: Scope) -> Iterator[tuple[int, range, Node]]:
    pieces = scope.tensors(user)
    if dim is None:
        return
    starts, start = [], 0
    for piece in pieces:
        length = piece.dims[dim].range.single
        if length is None:
            return
        starts.append(range(start, start + length))
        start += length
    yield from ((dim, starts[index], element) for index, element in _elements(user) if 0 <= index < len(starts))


def _selected(user: Node, length: int) -> range | None:
    index = user.args[2] if len(user.args) > 2 else user.kwargs.get("index")
    if not isinstance(index, int) or not -length <= index < length:
        return None
    return range(index % length, index % length + 1)


def _sliced(user: Node, length: int) -> range | None:
    bounds = [user.args[at] if at < len(user.args) else None for at in (2, 3, 4)]
    if user.kwargs or not all(bound is None or isinstance(bound, int) for bound in bounds):
        return None
    start, end, step = (bound if isinstance(bound, int) else None for bound in bounds)
    return range(length)[slice(start, end, step)]
