"""What is read off the source of a line: that it only refuses, of a file and of nothing else in its place; a loop."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

import trtdiag
from tests.harness.rows import each
from tests.whole_file_kinds import NOT_FILES
from trtdiag.fixdims.several_programs.seeds import only_refuses
from trtdiag.graph.source import Frame

SOURCE = """def forward(x):
    if x.shape[0] > 3:
        raise ValueError("too many")
    assert x.shape[1] > 1
    if x.shape[2] > 3:
        x = x * 2
    return x
"""


@pytest.mark.parametrize(("line", "refuses"), [(1, False), (2, True), (4, True), (5, False), (99, False)])
def test_conditions_that_raise(line: int, refuses: bool, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(SOURCE)
    assert only_refuses(Frame(str(tmp_path / "model.py"), line)) is refuses


@pytest.mark.parametrize("kind", NOT_FILES)
def test_a_place_that_is_no_file_is_not_read(kind: str, tmp_path: Path) -> None:
    """A saved program says what it likes of where its lines are: a named pipe would be waited for without end."""
    place = tmp_path / "model.py"
    NOT_FILES[kind](place)
    assert not only_refuses(Frame(str(place), 2))


@pytest.mark.parametrize("name", ["absent.py", "<ipython-input-1>", "nul\0.py", "n" * 5000, ""])
def test_names_that_lead_nowhere(name: str) -> None:
    assert not only_refuses(Frame(name, 1))


class GoneThrough(nn.Module):
    """Each row by itself: in a comprehension, and in a loop."""

    def __init__(self, listed: bool) -> None:
        super().__init__()
        self.listed = listed

    def forward(self, x: Tensor) -> Tensor:
        if self.listed:
            rows = [
                row.softmax(0)
                for row in x  # the export names the line on which the list begins
            ]
            return torch.stack(rows)
        total = x.new_zeros(4)
        for row in x:
            total = total + row
        return total


@each("listed", [True, False])
def test_a_loop_over_a_tensor_is_no_recurrent_layer(listed: bool) -> None:
    dims = {"x": {0: Dim("n", min=2, max=8)}}
    (change,) = trtdiag.fix_dims(GoneThrough(listed), (torch.rand(3, 4),), dynamic_shapes=dims).changes
    assert change.model_change is not None
    assert change.model_change.text.startswith("write the Python loop over n at ")
