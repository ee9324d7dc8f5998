"""Sizes that need a tensor that the engine itself makes."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from tests.runtime.compiling import compiled


class Edges(nn.Module):
    """Edges without loops, as many as the data says, and one more for each node."""

    def forward(self, x: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
        rows = e[:, e[0] != e[1]]
        return rows + 1, torch.ones(rows.shape[1] + x.shape[0]) * 3


def test_a_size_of_what_data_decides_inside_and_of_an_input_outside() -> None:
    """Before the engine runs PyTorch knows the input's size alone; the sum is the engine's."""
    e = torch.tensor([[0, 1, 2, 2], [1, 1, 0, 2]])
    dims = ({0: Dim("nodes", min=1, max=31)}, {1: Dim("edges", min=1, max=101)})
    program = compiled(Edges(), (torch.randn(7, 3), e), dynamic_shapes=dims)
    calls = [str(node.target) for node in program.exported_program.graph.nodes if node.op == "call_function"]
    assert sum("execute_engine" in call for call in calls) == 1
    loops = torch.ones(2, 5, dtype=torch.int64)  # no edge is left
    for nodes, edges in ((7, e), (1, e[:, :1]), (31, loops), (2, torch.randint(0, 3, (2, 101)))):
        given = torch.randn(nodes, 3), edges
        torch.testing.assert_close(program(*given), Edges()(*given))


def test_a_size_by_a_factor_that_no_float_holds_is_rounded_as_the_program_rounds_it() -> None:
    """5 * 0.6 is 3.0; as a fraction the float 0.6 is a little less, and cut off 5 of it are 2."""

    class Smaller(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return nn.functional.interpolate(x.relu(), scale_factor=0.6, recompute_scale_factor=True)

    program = compiled(Smaller(), (torch.randn(2, 3, 8),), dynamic_shapes=({2: Dim("length", min=4, max=101)},))
    for length in (4, 5, 10, 15, 20, 35, 101):
        x = torch.randn(2, 3, length)
        torch.testing.assert_close(program(x), Smaller()(x))


def test_a_size_that_python_rounds_is_rounded_as_a_float() -> None:
    """10 * 1.7 is 17.0, and rounded down as a fraction 16; 10 * 0.35 is 3.5, 30 * 0.35 is 10.5."""

    class Rounded(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            n = x.shape[1]
            return nn.functional.pad(x, (0, math.floor(n * 1.7))), nn.functional.pad(x, (round(n * 0.35), 0))

    program = compiled(Rounded(), (torch.randn(2, 24),), dynamic_shapes=({1: Dim("n", min=4, max=130)},))
    for n in (4, 10, 20, 30, 50, 130):
        x = torch.randn(2, n)
        torch.testing.assert_close(program(x), Rounded()(x))


@pytest.mark.parametrize("pads", [False, True])
def test_an_engine_that_reads_a_size_by_such_a_factor_beside_what_it_is_made_of_takes_every_size(pads: bool) -> None:
    class Both(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            y = nn.functional.interpolate(x, scale_factor=0.6, recompute_scale_factor=True)
            if pads:
                return nn.functional.pad(y.sin(), (0, x.shape[2] - y.shape[2])) + x
            return y.sin().amax(2) + x.cos().amax(2)

    dynamic = ({2: Dim("length", min=5, max=100)},)  # both ends are rounded up
    program = compiled(Both(), (torch.randn(2, 3, 8),), dynamic_shapes=dynamic, keep=("aten.upsample_nearest1d.vec",))
    for length in (5, 6, 10, 15, 99, 100):
        x = torch.randn(2, 3, length)
        torch.testing.assert_close(program(x), Both()(x))


def test_a_float_of_a_size_outside_is_computed_inside_of_the_size() -> None:
    """As tables of positions divide by a quotient of sizes: what enters an engine as a number is an integer."""

    class Positions(nn.Module):
        def forward(self, x: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
            side = x.shape[0] // 2
            return (torch.arange(side) / (side / 4) * scale).sin().relu(), x.unique()

    dims = ({0: Dim("n", min=4, max=31)}, None)
    program = compiled(Positions(), (torch.ones(10), torch.ones(1)), dynamic_shapes=dims)
    for length in (4, 5, 18, 31):
        given = torch.ones(length), torch.full((1,), 0.7)
        torch.testing.assert_close(program(*given), Positions()(*given))
