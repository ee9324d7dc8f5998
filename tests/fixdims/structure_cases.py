"""Modules and declarations in every form that torch takes, for what reads and spells them."""

from __future__ import annotations

from collections import OrderedDict, deque, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import AdditionalInputs, Dim, ShapesCollection
from torch.utils import _pytree as pytree

from trtdiag.frontend.factory import Recipe

Pair = namedtuple("Pair", ["image", "mask"])  # noqa: PYI024  # the untyped form is what users have


@dataclass
class Sample:
    image: torch.Tensor
    boxes: list[torch.Tensor]


class Box:
    """A class registered by hand, with a dict below one of its children."""

    def __init__(self, corner: torch.Tensor, score: torch.Tensor) -> None:
        self.corner = corner
        self.score = score


pytree.register_dataclass(Sample)
pytree.register_pytree_node(
    Box,
    lambda box: ((box.corner, {"score": box.score}), None),
    lambda parts, _: Box(parts[0], parts[1]["score"]),
    flatten_with_keys_fn=lambda box: (
        ((pytree.GetAttrKey("corner"), box.corner), (pytree.GetAttrKey("rest"), {"score": box.score})),
        None,
    ),
    serialized_type_name="tests.fixdims.Box",
)


def total(*inputs: Any) -> torch.Tensor:
    return torch.stack([leaf.sum() for leaf in pytree.tree_leaves(inputs) if isinstance(leaf, torch.Tensor)]).sum()


class One(torch.nn.Module):
    def forward(self, x: Any) -> torch.Tensor:
        return total(x)


class Two(torch.nn.Module):
    def forward(self, x: Any, y: Any = None) -> torch.Tensor:
        return total(x, y)


class Rest(torch.nn.Module):
    def forward(self, x: Any, *rest: Any) -> torch.Tensor:
        return total(x, rest)


class Args(torch.nn.Module):
    def forward(self, *args: Any) -> torch.Tensor:
        return total(args)


class Times(torch.nn.Module):
    def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
        return x * n


class TimesEach(torch.nn.Module):
    def forward(self, x: list[Any]) -> torch.Tensor:
        return x[0] * x[1]


def t(*sizes: int) -> torch.Tensor:
    return torch.ones(sizes)


def _h() -> Any:
    return Dim("h", min=3, max=97)


def _shared() -> Recipe:
    h = _h()
    return Recipe(Two(), (t(7, 5), t(7, 3)), {}, {"x": {0: h}, "y": {0: h, 1: Dim("w")}})


def _derived() -> Recipe:
    h = _h()
    return Recipe(Two(), (t(7, 5), t(13, 48)), {}, ({0: h}, {0: 2 * h - 1, 1: 5 + 6 * (h + 1) - 5}))


def _phantom() -> Recipe:
    root = Dim("_h", min=2, max=40)
    return Recipe(Two(), (t(15, 5), t(7, 16)), {}, {"x": {0: 8 * root - 1}, "y": {1: 8 * root}})


def _collection() -> Recipe:
    x, inner = t(7, 5), t(3, 11)
    shapes = ShapesCollection()
    shapes[x] = (_h(), None)
    shapes[inner] = {1: Dim.DYNAMIC(min=2)}
    return Recipe(Two(), (x, {"a": [t(2), inner]}), {}, shapes)


def _collection_of_classes() -> Recipe:
    sample = Sample(t(7, 5), [t(3, 11)])
    shapes = ShapesCollection()
    shapes[sample.boxes[0]] = {1: _h()}
    return Recipe(Two(), (sample, Pair(t(2), t(3))), {}, shapes)


def _additional() -> Recipe:
    shapes = AdditionalInputs()
    shapes.add((t(9, 5), {"a": [t(2), t(3, 13)]}))
    return Recipe(Two(), (t(7, 5), {"a": [t(2), t(3, 11)]}), {}, shapes)


def _one(value: Any, spec: Any) -> Recipe:
    return Recipe(One(), (value,), {}, {"x": spec})


CASES: dict[str, Callable[[], Recipe]] = {
    "nothing": lambda: Recipe(One(), (t(7, 5),), {}, None),
    "empty dict": lambda: Recipe(One(), (t(7, 5),), {}, {}),
    "empty tuple": lambda: Recipe(One(), (t(7, 5),), {}, ()),
    "one input alone": lambda: Recipe(Two(), (t(7, 5), t(1, 2)), {}, {"x": {0: _h()}, "y": None}),
    "shared": _shared,
    "derived": _derived,
    "root of no input": _phantom,
    "negative index": lambda: _one(t(7, 5), {-2: _h(), -1: None}),
    "list of dims": lambda: _one(t(7, 5), [_h(), None]),
    "tuple of dims": lambda: _one(t(7, 5), (Dim.STATIC, _h())),
    "ints": lambda: _one(t(7, 5), {0: 7, 1: _h()}),
    "open ranges": lambda: Recipe(
        Two(), (t(7, 5), t(9)), {}, ({0: Dim("a"), 1: Dim("b", min=4)}, {0: Dim("c", max=9)})
    ),
    "hints": lambda: Recipe(
        Two(),
        (t(7, 5, 3, 2), t(11, 13)),
        {},
        {"x": (Dim.AUTO, Dim.DYNAMIC, Dim.STATIC, None), "y": {0: Dim.AUTO(min=2, max=97), 1: Dim.DYNAMIC(max=90)}},
    ),
    "list at the top": lambda: Recipe(Two(), (t(7, 5), t(1, 2)), {}, [{0: _h()}, None]),
    "keywords in another order": lambda: Recipe(Two(), (), {"y": t(7, 5), "x": t(11)}, {"y": {0: _h()}, "x": None}),
    "keywords by position": lambda: Recipe(Two(), (), {"y": t(7, 5), "x": t(11)}, (None, {0: _h()})),
    "nested": lambda: _one(
        {"image": [t(7, 5), (t(3), t(4, 11))], 3: t(2)}, {3: None, "image": [{0: _h()}, (None, [None, Dim.AUTO])]}
    ),
    "ordered dict": lambda: _one(OrderedDict(b=t(7), a=t(5)), OrderedDict(b={0: _h()}, a=None)),
    "named tuple": lambda: _one(Pair(t(7), [t(5)]), Pair({0: _h()}, [None])),
    "deque": lambda: _one(deque([t(7), t(5)]), deque([{0: _h()}, None])),
    "dataclass": lambda: _one(Sample(t(7), [t(5), t(3)]), [{0: _h()}, [None, [Dim.AUTO]]]),
    "registered class": lambda: _one([Box(t(7), t(5, 3))], [({0: _h()}, {"score": {1: Dim.DYNAMIC}})]),
    "return type": lambda: _one(torch.max(t(7, 5), 1), [{0: _h()}, None]),
    "no tensors": lambda: _one((t(7), 3, "s", None, 2.5, True), ({0: _h()}, None, None, None, None, None)),
    "args": lambda: Recipe(Args(), (t(7, 5), {"q": t(3)}), {}, (({0: _h()}, {"q": [Dim.AUTO]}),)),
    "args by name": lambda: Recipe(Args(), (t(7, 5),), {}, {"args": ([_h(), None],)}),
    "rest": lambda: Recipe(Rest(), (t(7), t(5), [t(3, 11)]), {}, {"x": None, "rest": (None, [{1: _h()}])}),
    "rest by position": lambda: Recipe(Rest(), (t(7), t(5), t(3)), {}, ({0: _h()}, ({0: Dim("k")}, None))),
    "integer": lambda: Recipe(Times(), (t(7, 5), 7), {}, {"x": {0: _h()}, "n": Dim.DYNAMIC}),
    "bounded integer": lambda: Recipe(Times(), (t(7, 5),), {"n": 7}, {"x": {0: _h()}, "n": Dim.DYNAMIC(min=2, max=9)}),
    "integer in a list": lambda: Recipe(TimesEach(), ([t(7, 5), 7],), {}, {"x": [{0: _h()}, Dim.AUTO]}),
    "collection": _collection,
    "collection of classes": _collection_of_classes,
    "additional inputs": _additional,
}
