"""Where quantizers go."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

from tests.calibration.programs import folded_of, net
from tests.harness.rows import each
from trtdiag.calibration.placement import places_of
from trtdiag.graph.user_entries import Entries


class Rows(nn.Module):
    """One call, with weights."""

    def __init__(self, call: Callable[..., torch.Tensor], *weights: torch.Tensor) -> None:
        super().__init__()
        self.call = call
        self.weights = nn.ParameterList(nn.Parameter(weight) for weight in weights)

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.call(*inputs, *self.weights)


def placed(module: nn.Module, *inputs: torch.Tensor, keep: tuple[str, ...] = ()) -> list[tuple[object, ...]]:
    source = folded_of(module, *inputs)
    found = places_of(source.draft.graph, source.constants, Entries(keep))
    return [(place.op, place.inputs, place.weight, place.axis) for place in found.ops]


r = torch.randn
IMAGE, ROWS = r(2, 4, 5, 7), r(3, 5, 4)
CONV, LINEAR = "aten.conv2d.default", "aten.linear.default"
CASES = {
    "a convolution": (F.conv2d, (IMAGE,), (r(6, 4, 3, 3),), [(CONV, (0,), 1, 0)]),
    "by group": (lambda x, w: F.conv2d(x, w, groups=4), (IMAGE,), (r(4, 1, 3, 3),), [(CONV, (0,), 1, 0)]),
    "padded by a word": (
        lambda x, w: F.conv2d(x, w, padding="same"),
        (IMAGE,),
        (r(6, 4, 3, 3),),
        [("aten.conv2d.padding", (0,), 1, 0)],
    ),
    "3-d": (F.conv3d, (r(1, 2, 4, 4, 4),), (r(3, 2, 2, 2, 2),), [("aten.conv3d.default", (0,), 1, 0)]),
    # TensorRT has no 1-d convolution: a reshape stands between the weight and the layer.
    "1-d": (F.conv1d, (r(1, 2, 9),), (r(3, 2, 3),), []),
    "transposed": (F.conv_transpose2d, (IMAGE,), (r(4, 6, 3, 3),), []),
    "a computed kernel": (lambda x, w: F.conv2d(x, x[:1, :, :2, :2] * w), (IMAGE,), (r(1),), []),
    "linear": (F.linear, (ROWS,), (r(6, 4), r(6)), [(LINEAR, (0,), 1, 0)]),
    "a weight that is transposed first": (
        lambda x, w: torch.addmm(r(6), x, w.t()),
        (r(3, 4),),
        (r(6, 4),),
        [("aten.addmm.default", (1,), 2, 1)],
    ),
    "addmm with a factor": (lambda x, w: torch.addmm(r(6), x, w, beta=2), (r(3, 4),), (r(4, 6),), []),
    "matmul": (torch.matmul, (ROWS,), (r(4, 6),), [("aten.matmul.default", (0,), 1, 1)]),
    "mm": (torch.mm, (r(3, 4),), (r(4, 6),), [("aten.mm.default", (0,), 1, 1)]),
    "a batch of weights": (torch.matmul, (ROWS,), (r(3, 4, 6),), []),
    "two computed matrices": (lambda x: torch.matmul(x, x.transpose(1, 2)), (ROWS,), (), []),
    "attention": (lambda x: F.scaled_dot_product_attention(x, x, x), (ROWS,), (), []),
    "a product of constants": (lambda x, a, b: x + a @ b, (r(3, 6),), (r(3, 4), r(4, 6)), []),
    "a sum behind a convolution": (
        lambda x, w: F.conv2d(x, w, padding=1) + x,
        (IMAGE,),
        (r(4, 4, 3, 3),),
        [(CONV, (0,), 1, 0), ("aten.add.Tensor", (1,), None, 0)],
    ),
    "the sum of both orders": (
        lambda x, w: x + F.conv2d(x, w, padding=1),
        (IMAGE,),
        (r(4, 4, 3, 3),),
        [(CONV, (0,), 1, 0), ("aten.add.Tensor", (0,), None, 0)],
    ),
    "a sum that broadcasts": (
        lambda x, w: F.conv2d(x, w, padding=1) + x[:1],
        (IMAGE,),
        (r(4, 4, 3, 3),),
        [(CONV, (0,), 1, 0)],
    ),
    "a convolution that others read, too": (
        lambda x, w: (y := F.conv2d(x, w, padding=1)) + x + y.mean(),
        (IMAGE,),
        (r(4, 4, 3, 3),),
        [(CONV, (0,), 1, 0)],
    ),
    # Its residual stream has outliers, and engines add it behind the product anyway.
    "a sum behind a linear": (lambda x, w: F.linear(x, w) + x, (ROWS,), (r(4, 4),), [(LINEAR, (0,), 1, 0)]),
    "a sum with a factor": (
        lambda x, w: torch.add(F.conv2d(x, w, padding=1), x, alpha=2),
        (IMAGE,),
        (r(4, 4, 3, 3),),
        [(CONV, (0,), 1, 0)],
    ),
}


@each("name", CASES)
def test_what_is_quantized(name: str) -> None:
    call, inputs, weights, expected = CASES[name]
    assert placed(Rows(call, *weights), *inputs) == expected


def test_a_residual_network() -> None:
    found = placed(net(), r(1, 3, 17, 13))
    convolution, add = (CONV, (0,), 1, 0), ("aten.add_.Tensor", (1,), None, 0)
    assert found == [
        *[convolution] * 3,
        add,
        *[convolution] * 3,
        add,
        (LINEAR, (0,), 1, 0),
    ]


def test_what_the_user_keeps() -> None:
    source = folded_of(net(), r(1, 3, 17, 13))
    entries = Entries(("first.c2", "aten.linear", "nosuch"))
    found = places_of(source.draft.graph, source.constants, entries)
    # Without its convolution the sum of the first block is not quantized either.
    assert [place.module for place in found.ops] == [
        "stem",
        "first.c1",
        "second.c1",
        "second.c2",
        "second.branch",
        "second",
    ]
    assert found.kept == 2
    assert entries.unused == ("nosuch",)


def test_half_precision_programs() -> None:
    module = Rows(F.linear, r(6, 4)).to(torch.bfloat16)
    assert placed(module, ROWS.to(torch.bfloat16)) == [(LINEAR, (0,), 1, 0)]
