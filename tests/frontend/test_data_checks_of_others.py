"""What is advised where code of others decides by data: nn.Transformer by its masks, a library by counts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from traceback import FrameSummary
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

import trtdiag
from trtdiag.frontend.data_dependent.example_values import made_at
from trtdiag.frontend.data_dependent.torch_checks import needed_checks


class Masked(nn.Module):
    """An encoder whose mask is an input, as in a language model."""

    def __init__(self, **given: bool) -> None:
        super().__init__()
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 1, 4), 1, enable_nested_tensor=False)
        self.given = given

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.encoder(x, mask, **self.given)


class Translated(nn.Module):
    """A whole transformer with a mask of its target."""

    def __init__(self, asked: str) -> None:
        super().__init__()
        self.both = nn.Transformer(4, 1, 1, 1, 4)
        self.asked = asked

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.both(x, x, **{self.asked: mask})


CAUSAL = nn.Transformer.generate_square_subsequent_mask(6)
ROWS = Dim("rows", min=2, max=20)


@pytest.mark.parametrize(
    ("model", "mask", "line"),
    [
        (Masked(), CAUSAL, "is_causal=True"),
        (Masked(), torch.zeros(6, 6), "is_causal=False"),
        (Translated("src_mask"), CAUSAL, "src_is_causal=True"),
        (Translated("tgt_mask"), CAUSAL, "tgt_is_causal=True"),
    ],
    ids=["causal", "any", "source", "target"],
)
def test_a_transformer_that_looks_into_its_mask_is_told_whether_it_is_causal(
    model: nn.Module, mask: Tensor, line: str
) -> None:
    shapes = ({0: ROWS}, {0: ROWS, 1: ROWS})
    found = needed_checks(model.eval(), (torch.randn(6, 2, 4), mask), None, shapes)
    assert found.passed
    assert [check.code.partition("  #")[0] for check in found.checks] == [line]


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.slow  # torch's own behaviour; quick: that this is advised
def test_a_transformer_that_is_told_exports(causal: bool) -> None:
    model, shapes = Masked(is_causal=causal).eval(), ({0: ROWS}, {0: ROWS, 1: ROWS})
    program = torch.export.export(model, (torch.randn(6, 2, 4), CAUSAL), dynamic_shapes=shapes).module()
    given = torch.randn(9, 2, 4), nn.Transformer.generate_square_subsequent_mask(9)
    torch.testing.assert_close(program(*given), model(*given))


def test_a_branch_on_data_that_is_assumed_bounds_no_size() -> None:
    """Of a mask for 7 rows that repeats the one for 6 the program says what its data are, and nothing of 7."""
    shapes = {"x": {0: ROWS}, "mask": {0: ROWS, 1: ROWS}}
    fix = trtdiag.fix_dims(Masked().eval(), (torch.randn(6, 2, 4), CAUSAL), dynamic_shapes=shapes)
    assert [check.code.partition("  #")[0] for check in fix.checks] == ["is_causal=True"]
    assert fix.changes == ()


COUNTING = """
import torch


def many(x):
    return (x > 0).nonzero().numel() > 12


def pooled(x, index, dim_size=None):
    dim_size = int(index.max()) + 1 if dim_size is None else dim_size
    return x.new_zeros(dim_size).index_add(0, index, x)


def numbers(x):
    if torch.compiler.is_exporting():
        raise TypeError(f"no numbers of {x.shape[0]} rows that are exported")
    return x
"""


def test_what_a_library_makes_and_where_it_stops_is_said_of_its_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "counting_library.py").write_text(COUNTING)
    monkeypatch.syspath_prepend(str(folder))
    import counting_library  # type: ignore[import-not-found]

    class Counting(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + 1 if counting_library.many(x) else x

    class Sorting(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return counting_library.numbers(x) * 2

    class Pooling(nn.Module):
        def __init__(self, count: int | None = None) -> None:
            super().__init__()
            self.count = count

        def forward(self, x: Tensor, index: Tensor) -> Tensor:
            return counting_library.pooled(x, index, self.count)

    args = torch.ones(3), torch.tensor([0, 2, 1])
    (check,) = needed_checks(Pooling(), args, None, None).checks
    assert check.code == "index.max().item()  # in place of int(index.max())"
    assert check.note.endswith("or call counting_library with the number, where it takes one (as dim_size)")
    assert needed_checks(Pooling(3), args, None, None).checks == ()
    (check,) = needed_checks(Counting(), (torch.ones(3, 5),), None, None).checks
    assert check.code == "torch._check(2*u0 > 12)  # u0: made at counting_library.py:6; give it a name there"
    fix = trtdiag.fix_dims(Sorting(), (torch.ones(3, 5),), dynamic_shapes=({0: Dim("n", min=2, max=9)},))
    assert any("counting_library.py:16: raise TypeError" in note for note in fix.notes)


def test_a_size_of_a_librarys_op_is_made_where_the_op_is_called() -> None:
    beside = Path(torch.__file__).parents[1]
    called = [
        "torch/export/_trace.py",
        "torchvision/ops/boxes.py",
        "torch/_ops.py",
        "torch/_subclasses/fake_tensor.py",
        "torchvision/_meta_registrations.py",
        "typing_extensions.py",
        "torch/_library/fake_impl.py",
    ]
    trace = SimpleNamespace(
        summary=lambda: [FrameSummary(str(beside / file), 7, "nms", line="nms()") for file in called]
    )
    made = made_at(SimpleNamespace(var_to_stack={"u0": trace}), "u0")  # type: ignore[arg-type]  # asked for this alone
    assert [frame.short for frame in made.frames] == ["torchvision/ops/boxes.py:7"]


class Padded(nn.Module):
    """Asks, as Reformer does, whether a mask has padding: the number of ones has no name, the sizes have."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.padded(mask, x.shape[0]) + x

    def padded(self, mask: Tensor, rows: int) -> Tensor:
        return mask * 2 if mask.sum().item() < rows * mask.shape[1] else mask


class Counted(nn.Module):
    """Asks it where the sizes have no name, either."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        places = x.shape[0] * mask.shape[1]
        return self.padded(mask, lambda: places) + x

    def padded(self, mask: Tensor, places: Callable[[], int]) -> Tensor:
        ones = mask.flatten()
        del mask
        return ones[:1] * 2 if ones.sum().item() < places() else ones[:1]


@pytest.mark.parametrize(
    ("model", "sizes"),
    [(Padded(), "mask.shape[1]*rows"), (Counted(), "mask.shape[1]*x.shape[0]")],
    ids=["named", "hidden"],
)
def test_a_value_without_a_name_is_compared_with_sizes_that_have_one(model: nn.Module, sizes: str) -> None:
    args = torch.ones(3, 5), torch.tensor([[1, 1, 0, 0, 0]] * 3)
    dims = {0: Dim("b", min=2, max=9), 1: Dim("t", min=2, max=9)}
    (check,) = needed_checks(model, args, None, {"x": dims, "mask": dims}).checks
    line, _, where = check.code.partition("  # ")
    assert line == f"torch._check(u0 < {sizes})"
    assert where.startswith("u0: made at test_data_checks_of_others.py")


class Chunked(nn.Module):
    """Counts chunks as Longformer and LED do: by a division that makes a tensor of the size."""

    def forward(self, x: Tensor) -> Tensor:
        length = x.size(0)
        y = x.new_ones(
            torch.div(x.size(0), (2 * 2), rounding_mode="trunc"),
            4,
        )
        z = x.new_ones(torch.div(length, 2, rounding_mode="trunc") - 1)
        return y + 1 if y.shape[0] > 3 and z.shape[0] > 4 else y


class ChunkedBySizes(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        length = x.size(0)
        y = x.new_ones(x.size(0) // (2 * 2), 4)
        z = x.new_ones(length // 2 - 1)
        return y + 1 if y.shape[0] > 3 and z.shape[0] > 4 else y


def test_a_size_that_torch_div_makes_a_tensor_of_is_said_to_be_divided_as_a_size() -> None:
    args, shapes = (torch.arange(24.0),), {"x": {0: Dim("n", min=16, max=36)}}
    checks = needed_checks(Chunked(), args, None, shapes).checks
    assert [check.code for check in checks] == [
        "x.size(0) // (2 * 2)  # in place of torch.div(x.size(0), 2 * 2, rounding_mode='trunc')",
        "length // 2  # in place of torch.div(length, 2, rounding_mode='trunc')",
    ]
    assert next(check.before.code for check in checks if check.before is not None) == "y = x.new_ones("
    assert not any(check.pins or check.tried for check in checks)
    program = torch.export.export(ChunkedBySizes(), args, dynamic_shapes=shapes)
    assert torch.equal(program.module()(*args), Chunked()(*args))
