"""Takes masks of attention out that mask nothing, or what ``is_causal`` says: kernels that take a mask are slower ones.

transformers writes both kinds by counting places when a model is exported: ``arange(n) >= 0`` where no mask is given,
and ``keys <= queries`` where a query sees what is before it.
"""

from __future__ import annotations

from functools import cached_property

import torch
from torch.fx import Node

from trtdiag.graph.aliases import written_nodes
from trtdiag.graph.operators import ATEN, named_arguments, operator_of, short_name
from trtdiag.lower.draft import Draft

_ATTENTION = ATEN.scaled_dot_product_attention.default
_MASK, _CAUSAL = (3, "attn_mask"), (5, "is_causal")
"""Their places among the arguments."""
_SAME = frozenset({"to", "_to_copy", "clone", "contiguous", "alias", "expand", "detach"})
"""What leaves each element, or repeats it along dims."""
_RESHAPES = frozenset({"view", "reshape", "_unsafe_view"})
_INTEGERS = (torch.int64, torch.int32)
_ANDS = frozenset({"__and__", "bitwise_and", "logical_and"})
_AHEAD = {"le": 0, "less_equal": 0, "lt": 1, "less": 1}
"""Where the first number of a comparison is a place: by how much the second is ahead of it for it to be true."""
_TURNED = {"ge": "le", "greater_equal": "le", "gt": "lt", "greater": "lt"}


def take_masks_out(draft: Draft) -> int:
    """Call attention without masks that mask nothing, and causal in the place of masks that say so."""
    count, masks = 0, _Masks(draft)
    for node in draft.graph.nodes:
        if operator_of(node) is not _ATTENTION:
            continue
        given = named_arguments(node, _ATTENTION)
        mask = given["attn_mask"]
        if not isinstance(mask, Node) or mask.meta["val"].dtype is not torch.bool:
            continue
        causal = mask.name not in draft.true
        if causal and not masks.are_causal(mask, (given["query"], given["key"])):
            continue
        _give(node, *_MASK, None)
        if causal:
            _give(node, *_CAUSAL, True)
        count += 1
    return count


def _give(node: Node, place: int, name: str, value: bool | None) -> None:
    if place < len(node.args):
        node.update_arg(place, value)
    else:
        node.update_kwarg(name, value)


class _Masks:
    """What is known of the masks of a graph."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft

    @cached_property
    def _changed(self) -> set[Node]:
        """What is written in place, and so is not what its op says."""
        return written_nodes(self._draft.graph)

    def are_causal(self, mask: Node, ends: tuple[Node, Node]) -> bool:
        """Whether query ``i`` sees key ``j`` where ``j <= i``, and the mask has a row and a column for each."""
        most = [each.meta["val"].shape[-2] for each in ends]
        own = mask.meta["val"].shape[-2:]
        return not any(_stretches(*pair) for pair in zip(own, most, strict=True)) and self._is_causal(mask)

    def _is_causal(self, mask: Node) -> bool:
        op = operator_of(mask)
        if op is None or mask in self._changed:
            return False
        name, (first, *rest) = short_name(op), named_arguments(mask, op).values()
        if name in _SAME and isinstance(first, Node):
            before, after = (each.meta["val"].shape[-2:] for each in (first, mask))
            return not any(_stretches(*pair) for pair in zip(before, after, strict=False)) and self._is_causal(first)
        second = rest[0] if rest else None
        if not isinstance(first, Node) or not isinstance(second, Node):
            return False
        if name in _ANDS:
            left = [each for each in (first, second) if each.name not in self._draft.true]
            return len(left) == 1 and left[0].meta["val"].dtype is torch.bool and self._is_causal(left[0])
        if name in _TURNED:
            name, first, second = _TURNED[name], second, first
        keys, queries = self._counted(first), self._counted(second)
        if name not in _AHEAD or keys is None or queries is None:
            return False
        return (keys[0], queries[0]) == (-1, -2) and queries[1] - keys[1] == _AHEAD[name]

    def _counted(self, node: Node) -> tuple[int, int] | None:
        """Along which dim, from the last, integers count by one, and from where; they are the same along others.

        ``None`` where that is not known.
        """
        op, val = operator_of(node), node.meta.get("val")
        if op is None or node in self._changed or not isinstance(val, torch.Tensor) or val.dtype not in _INTEGERS:
            return None
        name, given = short_name(op), named_arguments(node, op)
        if name == "arange":
            start, step = given.get("start", 0), given.get("step", 1)
            return (-1, start) if isinstance(start, int) and step == 1 else None
        source = next(iter(given.values()))
        found = self._counted(source) if isinstance(source, Node) else None
        if found is None:
            return None
        axis, start = found
        if name in ("add", "sub") and isinstance(given["other"], int) and given.get("alpha", 1) == 1:
            return axis, start + (given["other"] if name == "add" else -given["other"])
        if name == "unsqueeze":
            place = given["dim"] if given["dim"] < 0 else given["dim"] - val.dim()
            return (axis, start) if place < axis else (axis - 1, start)
        if name in _RESHAPES:
            long = [place for place, size in enumerate(val.shape) if not isinstance(size, int) or size != 1]
            return (long[0] - val.dim(), start) if len(long) == 1 else None
        same = name in _SAME and not _stretches(source.meta["val"].shape[axis], val.shape[axis])
        return found if same else None


def _stretches(before: object, after: object) -> bool:
    """Whether one element along a dim is taken for several."""
    return isinstance(before, int) and before == 1 and not (isinstance(after, int) and after == 1)
