"""Slices and selections after lowering: indices from 0 to the size, for every size that the ranges allow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, export
from torch.fx import Node

from tests.lower.agreement import assert_same, lowered_of, user_outputs
from trtdiag.lower.lowered_facts import Lowered

Cut = Callable[[Tensor], Any]
LENGTH = 257  # a prime inside 200 to 400

CUTS: dict[str, Cut] = {
    "last": lambda x: x[-1],
    "last three": lambda x: x[-3:],
    "all but the ends": lambda x: x[2:-2],
    "every third from the fifth": lambda x: x[5::3],
    "up to a half": lambda x: x[: x.shape[0] // 2],
    "from a half": lambda x: x[x.shape[0] // 2 :],
    "the last half": lambda x: x[-(x.shape[0] // 2) :],
    "between a third and a half": lambda x: x[x.shape[0] // 3 : x.shape[0] // 2],
    "narrow": lambda x: x.narrow(0, x.shape[0] - 7, 5),
    "narrow from the end": lambda x: x.narrow(0, -7, 5),
    "beyond the end": lambda x: x[: x.shape[0] + 9],
    "select by a size": lambda x: x.select(0, x.shape[0] - 2),
    "nothing": lambda x: x[4:4],
    "written": lambda x: torch.slice_scatter(x, x[:3] * 2, 0, -3),
    "one written": lambda x: torch.select_scatter(x, x[0] * 2, 0, -2),
    "static, clamped": lambda x: x[:, -9:99],
    "static, backwards": lambda x: x[:, 3:1],
}


class Call(nn.Module):
    def __init__(self, cut: Cut) -> None:
        super().__init__()
        self.cut = cut

    def forward(self, x: Tensor) -> Tensor | list[Tensor]:
        found = self.cut(x)
        return found + 0 if isinstance(found, Tensor) else [each + 0 for each in found]


def lowered_cut(cut: Cut, low: int = 200, high: int = 400) -> Lowered:
    exported = export(
        Call(cut),
        (torch.randn(LENGTH, 5),),
        dynamic_shapes=({0: Dim("n", min=low, max=high)},),
        # torch's interval arithmetic cannot see that n - n//2 is never 1, and would refuse the range.
        prefer_deferred_runtime_asserts_over_guards=True,
    )
    return lowered_of(exported)[1]


def indices(lowered: Lowered) -> list[object]:
    found: list[object] = []
    for node in lowered.graph_module.graph.nodes:
        name = str(node.target)
        if name.startswith(("aten.slice", "aten.select", "aten.narrow")):
            given = [arg for arg in node.args if not (isinstance(arg, Node) and isinstance(arg.meta["val"], Tensor))]
            found.extend(given[1:3] if "slice" in name else given[1:2])
    return found


def test_indices_lie_inside_for_every_size() -> None:
    lowered = lowered_cut(lambda x: [cut(x) for cut in CUTS.values()])
    assert lowered.limits == ()
    for length in (200, 201, LENGTH, 399, 400):
        x = torch.randn(length, 5)
        assert_same(user_outputs(lowered, [x]), [cut(x) for cut in CUTS.values()])
        run = torch.fx.Interpreter(lowered.graph_module)
        run.garbage_collect_values = False
        run.run(*lowered.arguments([x]))
        for index in indices(lowered):
            value = run.env[index] if isinstance(index, Node) else index
            assert isinstance(value, int)
            assert 0 <= value <= length


def test_a_slice_of_all_is_no_op() -> None:
    lowered = lowered_cut(lambda x: x[:][0:, :9].exp())
    assert [str(n.target) for n in lowered.graph_module.graph.nodes if n.op == "call_function"] == [
        "aten.exp.default",
        "aten.add.Tensor",
    ]


def test_an_end_that_some_sizes_do_not_reach_is_the_smaller_of_both() -> None:
    # torch records for which sizes a slice is clamped, so it takes a size from data to have both.
    class Clamps(nn.Module):
        def forward(self, x: Tensor, n: Tensor) -> Tensor:
            count = n.item()
            torch._check(count >= 0)
            torch._check(count <= 9)
            y = torch.ones(count, 5)  # type: ignore[call-overload]  # a size when traced
            return torch.ops.aten.slice.Tensor(y, 0, 0, 4) + x[0]

    exported = export(Clamps(), (torch.randn(2, 5), torch.tensor(6)))
    _, lowered = lowered_of(exported)
    (cut,) = (n for n in lowered.graph_module.graph.nodes if n.target is torch.ops.aten.slice.Tensor)
    assert cut.args[3].target is torch.sym_min
    for count in (0, 3, 4, 9):
        x = torch.randn(2, 5)
        assert_same(user_outputs(lowered, [x, torch.tensor(count)]), [torch.ones(min(count, 4), 5) + x[0]])


def test_sizes_of_one_tensor_are_asked_for_once() -> None:
    lowered = lowered_cut(lambda x: x[-3:] + x[-4:-1] + x[-5:-2])
    asked = [n for n in lowered.graph_module.graph.nodes if n.target is torch.ops.aten.sym_size.int]
    assert len(asked) == 1
