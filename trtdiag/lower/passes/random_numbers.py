"""Random ops taken apart: what is drawn, which hangs on sizes alone, and what is computed with it, which engines take.

The drawing op is the program's own, or one that draws the same, on a tensor of the same sizes: with one seed the
numbers are those of the original.  PyTorch runs it before the engine.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from itertools import permutations
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node

from trtdiag.graph.limit import DRAWN
from trtdiag.graph.operators import ATEN, named_arguments, operator_of, schema_name
from trtdiag.graph.values import is_row_major
from trtdiag.lower.attention_dropout import with_dropout_apart
from trtdiag.lower.decomposable import draws
from trtdiag.lower.draft import Draft, insert_call
from trtdiag.lower.template import written_size
from trtdiag.lower.view_inverses import sizes_of

_FEW_DIMS = 3
_KEEPS_ORDER = "what it draws hangs on its input, so that it and the random ops after it are drawn where they stand"
# Their tensor says how many numbers are drawn, and nothing else.
_OF_SIZES = frozenset(
    {
        *("aten::rand_like", "aten::randn_like", "aten::randint_like", "aten::uniform", "aten::exponential"),
        *("aten::normal_functional", "aten::geometric", "aten::log_normal", "aten::cauchy", "aten::random"),
    }
)


def draw_outside(draft: Draft) -> int:
    """Take random ops apart, in the order of the graph, up to the first whose numbers hang on data."""
    if not draft.random_outside:
        return 0
    count = 0
    for node in list(draft.graph.nodes):
        op = operator_of(node)
        if op is None or torch.Tag.nondeterministic_seeded not in op.tags or not _draws(node, op):
            continue
        if not any(isinstance(source.meta.get("val"), torch.Tensor) for source in node.all_input_nodes):
            node.meta[DRAWN] = True  # of sizes as it is
        else:
            split = _SPLITS.get(schema_name(op)) or (_of_sizes if schema_name(op) in _OF_SIZES else None)
            if split is None or not split(draft, node, op):
                draft.limit(node, _KEEPS_ORDER)
                return count
        count += 1
    return count


def _draws(node: Node, op: OpOverload) -> bool:
    drops_nothing = schema_name(op) in _DROPOUTS and named_arguments(node, op).get("p") == 0.0
    return draws(node, op) and not drops_nothing


def _of_sizes(draft: Draft, node: Node, op: OpOverload) -> bool:
    """The op itself, on a tensor that says the sizes."""
    del op
    like = _like(draft, node, None)
    if like is None:
        return False
    node.args = (like, *node.args[1:])
    node.meta[DRAWN] = True
    return True


def _bernoulli(draft: Draft, node: Node, op: OpOverload) -> bool:
    """With a number for all, that of sizes; else a uniform number below each chance, which is how a CPU draws it."""
    if op is ATEN.bernoulli.p:
        return _of_sizes(draft, node, op)
    chance = node.args[0]
    assert isinstance(chance, Node)
    like = _like(draft, node, None)
    val = node.meta["val"]
    if op is not ATEN.bernoulli.default or like is None or val.device.type != "cpu":
        return False
    with draft.graph.inserting_before(node):
        drawn = _drawn(draft, ATEN.rand_like.default, (like,), node, "drawn")
        below = insert_call(draft.graph, ATEN.lt.Tensor, (drawn, chance), _val(draft, torch.bool, val), node, "below")
        made = insert_call(draft.graph, ATEN._to_copy.default, (below,), val, node, "chosen", {"dtype": val.dtype})
    _replace(draft, node, made)
    return True


def _dropout(draft: Draft, node: Node, op: OpOverload) -> bool:
    """What is dropped of ones, and the product with it."""
    x = node.args[0]
    assert isinstance(x, Node)
    ones = _like(draft, node, 1.0)
    if ones is None:
        return False
    with draft.graph.inserting_before(node):
        drawn = _drawn(draft, op, (ones, *node.args[1:]), node, "drawn", dict(node.kwargs))
        if op is not ATEN.native_dropout.default:
            _replace(draft, node, insert_call(draft.graph, ATEN.mul.Tensor, (x, drawn), node.meta["val"], node, "kept"))
            return True
        vals = node.meta["val"]
        noise, mask = (
            insert_call(draft.graph, operator.getitem, (drawn, index), vals[index], node, f"drawn_{index}")
            for index in (0, 1)
        )
        made = insert_call(draft.graph, ATEN.mul.Tensor, (x, noise), vals[0], node, "kept")
    for user in list(node.users):
        if user.target is operator.getitem:
            user.replace_all_uses_with(mask if user.args[1] else made)
            draft.graph.erase_node(user)
    if not node.users:
        draft.graph.erase_node(node)
    return True


def _multinomial(draft: Draft, node: Node, op: OpOverload) -> bool:
    """The greatest of the chances, each over an exponential number of its own, as PyTorch's kernels draw them."""
    named = named_arguments(node, op)
    chances, samples = named["self"], named["num_samples"]
    if not isinstance(samples, int) or (named["replacement"] and samples != 1):
        return False
    like = _like(draft, node, None, chances)
    if like is None:
        return False
    val, places = chances.meta["val"], node.meta["val"]
    with draft.graph.inserting_before(node):
        drawn = _drawn(draft, ATEN.exponential.default, (like, 1.0), node, "drawn")
        ratio = insert_call(draft.graph, ATEN.div.Tensor, (chances, drawn), val, node, "ratio")
        if samples == 1:
            made = insert_call(draft.graph, ATEN.argmax.default, (ratio, -1, True), places, node, "greatest")
        else:
            with draft.mode:
                found = list(ATEN.topk.default(val, samples))
            top = insert_call(draft.graph, ATEN.topk.default, (ratio, samples), found, node, "first")
            made = insert_call(draft.graph, operator.getitem, (top, 1), places, node, "places")
    _replace(draft, node, made)
    return True


def _normal(draft: Draft, node: Node, op: OpOverload) -> bool:
    """Numbers around 0, times their deviation where it is a tensor, and the mean added."""
    named = named_arguments(node, op)
    mean, deviation = named["mean"], named["std"]
    sizes = [written_size(size) for size in node.meta["val"].shape]
    whole = [
        one
        for one in (mean, deviation)
        if isinstance(one, Node) and [written_size(size) for size in one.meta["val"].shape] == sizes
    ]
    like = _like(draft, node, None, whole[0]) if whole else None
    if like is None:
        return False
    val = node.meta["val"]
    with draft.graph.inserting_before(node):
        if isinstance(deviation, Node):
            drawn = _drawn(draft, ATEN.randn_like.default, (like,), node, "drawn")
            made = insert_call(draft.graph, ATEN.mul.Tensor, (drawn, deviation), val, node, "scaled")
        else:
            made = _drawn(draft, ATEN.normal_functional.default, (like, 0.0, deviation), node, "drawn")
        made = insert_call(draft.graph, ATEN.add.Tensor, (made, mean), val, node, "around")
    _replace(draft, node, made)
    return True


def _attention(draft: Draft, node: Node, op: OpOverload) -> bool:
    """Its products apart, and the dropout between them as any other."""
    dropout = with_dropout_apart(draft, node, op)
    return dropout is not None and _dropout(draft, dropout, ATEN.dropout.default)


_DROPOUTS = frozenset({"aten::dropout", "aten::feature_dropout", "aten::native_dropout"})
_SPLITS: dict[str, Callable[[Draft, Node, OpOverload], bool]] = {
    **dict.fromkeys(_DROPOUTS, _dropout),
    "aten::bernoulli": _bernoulli,
    "aten::multinomial": _multinomial,
    "aten::normal": _normal,
    "aten::scaled_dot_product_attention": _attention,
}


def _like(draft: Draft, node: Node, fill: float | None, source: Any = None) -> Node | None:
    """A tensor of the form of the one that is drawn for; ``None`` where its order in memory, by which is drawn, is not.

    Args:
        draft: The graph.
        node: The op that draws.
        fill: What it holds; ``None``: anything.
        source: The tensor, where it is not the first argument.
    """
    x = node.args[0] if source is None else source
    val = x.meta.get("val") if isinstance(x, Node) else None
    if not isinstance(x, Node) or not isinstance(val, torch.Tensor):
        return None
    with draft.mode:
        order = next((one for one in _orders(val.dim()) if is_row_major(val.permute(one))), None)
        if order is None:
            return None
        there = torch.empty([val.shape[axis] for axis in order], dtype=val.dtype, device=val.device)
    with draft.graph.inserting_before(node):
        known = sizes_of(draft.graph, x, val)
        sizes = [known[axis] for axis in order]
        target, args = (ATEN.empty.memory_format, (sizes,)) if fill is None else (ATEN.full.default, (sizes, fill))
        kwargs = {"dtype": val.dtype, "device": val.device}
        made = _drawn(draft, target, args, node, "like", kwargs, there)
        if order == tuple(range(val.dim())):
            return made
        back = [order.index(axis) for axis in range(val.dim())]
        return _drawn(draft, ATEN.permute.default, (made, back), node, "like_turned")


def _orders(rank: int) -> Iterator[tuple[int, ...]]:
    """The orders of dims in memory that are looked for: as they are, channels last, and of few dims all."""
    yield tuple(range(rank))
    if rank > _FEW_DIMS:
        yield 0, *range(2, rank), 1
    else:
        yield from permutations(range(rank))


def _drawn(
    draft: Draft,
    target: OpOverload,
    args: tuple[Any, ...],
    node: Node,
    name: str,
    kwargs: dict[str, Any] | None = None,
    val: Any = None,
) -> Node:
    """A call that PyTorch makes before the engine."""
    if val is None:
        given = torch.fx.map_arg((args, kwargs or {}), lambda one: one.meta["val"])
        with torch.no_grad(), draft.mode:
            val = target(*given[0], **given[1])
        val = list(val) if isinstance(val, tuple) else val
    made = insert_call(draft.graph, target, args, val, node, name, kwargs or {})
    made.meta[DRAWN] = True
    return made


def _val(draft: Draft, dtype: torch.dtype, like: torch.Tensor) -> torch.Tensor:
    with draft.mode:
        return torch.empty(like.shape, dtype=dtype, device=like.device)


def _replace(draft: Draft, node: Node, made: Node) -> None:
    node.replace_all_uses_with(made)
    draft.graph.erase_node(node)
