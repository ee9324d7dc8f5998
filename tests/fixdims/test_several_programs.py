"""Several programs that together take more than one declaration says: each runs at every size that is sent to it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

import trtdiag
from tests.fixdims.small_models import EvenRows, Ordered, PositionTable
from trtdiag.cli.main import main
from trtdiag.errors import ArtifactError, DimsError, ShapeOutOfRangeError, UserError
from trtdiag.fixdims.fix import Fix
from trtdiag.fixdims.programs import routing_code

torch.manual_seed(0)


class WideRows(nn.Module):
    """Takes every other column of wide rows."""

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] > 24:
            return x[:, ::2].relu()
        return x * 2


class Cropped(nn.Module):
    """Leaves out what is left of threes: a slice that takes all is no copy, and one that does not has gaps."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, : x.shape[1] // 3 * 3] * 2


@torch.library.custom_op("trtdiag_tests::narrow_rows", mutates_args=())
def narrow_rows(x: Tensor) -> Tensor:
    """As kernels that have a limit of their own, which shapes alone do not show."""
    if x.shape[1] > 24:
        raise RuntimeError("at most 24 columns")
    return x * 2


@narrow_rows.register_fake
def _narrow_rows_shape(x: Tensor) -> Tensor:
    return torch.empty_like(x)


class NarrowKernel(nn.Module):
    """Goes another way with wide rows, where its op takes none of them."""

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] > 24:
            return narrow_rows(x).relu()
        return narrow_rows(x)


class Groups(nn.Module):
    """Needs a number of pixels that 4 divides: two sizes together."""

    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(1, x.shape[1] * x.shape[2] // 4, 4) + 1


def even() -> tuple[Any, ...]:
    return EvenRows(), (torch.rand(2, 16),), {}, {"x": {1: Dim("n", min=5, max=40)}}


def wide() -> tuple[Any, ...]:
    return WideRows(), (torch.rand(2, 12),), {}, {"x": {1: Dim("w", min=2, max=61)}}


def groups() -> tuple[Any, ...]:
    dims = {1: Dim("h", min=2, max=24), 2: Dim("w", min=2, max=24)}
    return Groups(), (torch.rand(1, 8, 8),), {}, {"x": dims}


def table() -> tuple[Any, ...]:
    dims = {2: Dim("h", min=28, max=420), 3: Dim("w", min=28, max=420)}
    return PositionTable(), (torch.rand(1, 3, 224, 224),), {}, {"x": dims}


def sizes_of(fix: Fix) -> Iterator[dict[str, int]]:
    assert fix.several is not None
    ranges = [range(each.range.min or 0, (each.range.max or 0) + 1) for each in fix.several.coordinates]
    names = [each.name for each in fix.several.coordinates]
    for values in product(*ranges):
        yield dict(zip(names, values, strict=True))


def works(module: nn.Module, x: Tensor) -> Tensor | None:
    try:
        answer: Tensor = module(x)
    except (RuntimeError, ValueError):
        return None
    return answer


def assert_routed_sizes_run(
    fix: Fix, module: nn.Module, shaped: Callable[..., Tensor], programs: list[ExportedProgram]
) -> tuple[int, int]:
    """Every size goes to a program that gives what the module gives; how many go to one, and how many work at all."""
    assert fix.several is not None
    runnable = [program.module() for program in programs]
    routed = working = 0
    for sizes in sizes_of(fix):
        x = shaped(*sizes.values())
        expected = works(module, x)
        working += expected is not None
        index = fix.several.program_for(sizes)
        if index is None:
            continue
        routed += 1
        assert expected is not None, f"{sizes} is sent to program {index + 1}, and the model refuses it"
        assert torch.equal(runnable[index](x), expected), sizes
    return routed, working


@pytest.fixture(scope="module")
def wide_fix() -> Fix:
    return trtdiag.fix_dims(wide(), programs=3)


def test_a_branch_on_a_size_becomes_two_programs(wide_fix: Fix) -> None:
    assert [program.takes_text() for program in wide_fix.programs] == ["2 <= w <= 24", "25 <= w <= 61"]
    assert wide_fix.several is not None
    assert wide_fix.several.kept == (60, 60)
    assert all(program.exported and program.proof.proven and program.ran for program in wide_fix.programs)
    assert wide_fix.programs[0].plan == wide_fix.plan
    module = wide()[0]
    programs = [program.program for program in wide_fix.programs]
    assert assert_routed_sizes_run(wide_fix, module, lambda w: torch.rand(2, w), programs) == (60, 60)


def test_examples_of_further_programs_keep_the_sizes_that_decide_nothing() -> None:
    """Sizes that chance drew made tensors of many GB, of each of which one was copied for an export."""
    source = WideRows(), (torch.rand(2, 12, 1, 5),), {}, {"x": [Dim.AUTO] * 4}
    fix = trtdiag.fix_dims(source, programs=2)
    assert fix.programs[1].args is not None
    rows, columns, *others = fix.programs[1].args[0].shape
    assert columns > 24
    assert (rows, *others) == (2, 2, 5)  # a hint takes no 1


def test_lines_of_python_send_sizes_to_files(wide_fix: Fix) -> None:
    assert wide_fix.several is not None
    names: dict[str, Any] = {}
    exec(routing_code(wide_fix.several, ["a.ep", "b.ep"]), names)
    assert [names["program_for"](w) for w in (2, 24, 25, 61)] == ["a.ep", "a.ep", "b.ep", "b.ep"]
    for outside in (1, 62):
        with pytest.raises(ValueError, match=f"no program takes w = {outside}"):
            names["program_for"](outside)


def test_programs_are_saved_with_a_table(wide_fix: Fix, tmp_path: Path) -> None:
    saved = trtdiag.save_programs(wide_fix, tmp_path / "fixed.ep")
    assert [path.name for path in saved] == ["fixed.ep", "fixed-2.ep", "fixed.programs.json"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in saved)
    place = saved[-1]
    for width, name in ((2, "fixed.ep"), (24, "fixed.ep"), (25, "fixed-2.ep"), (61, "fixed-2.ep")):
        file = trtdiag.program_for(place, w=width)
        assert file == tmp_path / name
        x = torch.rand(2, width)
        assert torch.equal(torch.export.load(file).module()(x), WideRows()(x))
    with pytest.raises(ShapeOutOfRangeError, match="no program takes w = 62"):
        trtdiag.program_for(place, w=62)
    with pytest.raises(UserError, match="do not name a program"):
        trtdiag.program_for(place, h=5)
    place.write_text(place.read_text().replace("w <= 24", "w <= q"))
    with pytest.raises(ArtifactError, match="no table of programs"):
        trtdiag.program_for(place, w=5)


def test_a_foreign_file_is_not_written_over(wide_fix: Fix, tmp_path: Path) -> None:
    (tmp_path / "fixed-2.ep").write_text("mine")
    with pytest.raises(UserError, match="exists"):
        trtdiag.save_programs(wide_fix, tmp_path / "fixed.ep")
    assert [path.name for path in tmp_path.iterdir()] == ["fixed-2.ep"]
    (tmp_path / "fixed-2.ep").unlink()
    trtdiag.save_programs(wide_fix, tmp_path / "fixed.ep")
    trtdiag.save_programs(wide_fix, tmp_path / "fixed.ep")  # its own files are replaced


@pytest.mark.slow  # quick: other ways are named where nothing is exported
def test_without_exports_an_offer_is_made() -> None:
    fix = trtdiag.fix_dims(even())
    assert fix.several is not None
    assert not fix.several.searched
    assert [program.exported for program in fix.programs] == [True, None, None, None]
    assert {program.takes_text().rpartition(" ")[2] for program in fix.programs} == {"0", "5", "6", "7"}
    assert fix.several.kept == (20, 36)  # n % 8 in {0, 5..7} of 5..40
    with pytest.raises(DimsError, match="was not exported"):
        _ = fix.programs[1].program
    assert "4 programs would together keep 20 of 36 values of n: --programs 4" in " ".join(str(fix).split())


@pytest.mark.slow  # quick: a branch on a size becomes two programs, above
def test_other_ways_are_named_where_nothing_is_exported() -> None:
    fix = trtdiag.fix_dims(wide())
    assert fix.several is not None
    assert len(fix.programs) == 1
    (note,) = fix.several.notes
    assert note.startswith("sizes with w >= 25 go another way in the model (")
    assert note.endswith("): no export went there")


class Thinned(nn.Module):
    """Every other row of one input beside all of another, where torch does not work out the second by itself."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x[::2] + y


def test_a_size_that_torch_did_not_work_out_is_offered_to_be_left_to_it_no_more() -> None:
    dims = ({0: Dim("n", min=3, max=24)}, {0: Dim("m", min=2, max=12)})
    fix = trtdiag.fix_dims(Thinned(), (torch.rand(9), torch.rand(5)), dynamic_shapes=dims)
    odd, even = fix.programs
    assert "Dim.AUTO" not in even.code
    assert (odd.takes_text(), even.takes_text()) == ("2 <= m <= 12 and 2*m == n + 1", "2 <= m <= 12 and 2*m == n")


def cropped() -> tuple[Any, ...]:
    return Cropped(), (torch.rand(2, 12),), {}, {"x": {1: Dim("n", min=2, max=31)}}


@pytest.mark.slow  # quick: a branch on a size becomes two programs
def test_the_way_of_a_slice_that_leaves_out_a_rest_is_named() -> None:
    fix = trtdiag.fix_dims(cropped())
    assert fix.several is not None
    assert fix.several.notes[0].startswith("sizes with n != 3*(n // 3) go another way in the model (")


@pytest.mark.slow  # quick: that way is named
def test_a_slice_becomes_three_programs() -> None:
    fix = trtdiag.fix_dims(cropped(), programs=4)
    shaped = partial(torch.rand, 2)
    assert assert_routed_sizes_run(fix, Cropped(), shaped, [each.program for each in fix.programs]) == (30, 30)


@pytest.mark.slow  # quick: a branch on a size becomes two programs
def test_one_program_is_as_before() -> None:
    assert trtdiag.fix_dims(wide(), programs=1).several is None
    with pytest.raises(DimsError, match="from 1 to 16 can"):
        trtdiag.fix_dims(wide(), programs=17)


@pytest.mark.slow  # quick: a branch on a size becomes two programs; what has none is looked at here alone
def test_nothing_is_offered_where_all_sizes_are_kept() -> None:
    fix = trtdiag.fix_dims((nn.ReLU(), (torch.rand(3, 4),), {}, ({0: Dim("b", min=1, max=7)},)), programs=4)
    assert fix.several is None


@pytest.mark.slow  # about 10 exports each
@pytest.mark.parametrize(
    ("made", "shaped", "most", "least"),
    [
        (even, lambda n: torch.rand(2, n), 4, 1.0),
        (groups, lambda h, w: torch.rand(1, h, w), 6, 0.95),
    ],
    ids=["residues", "coupled"],
)
def test_few_programs_take_what_works(
    made: Callable[[], Any], shaped: Callable[..., Tensor], most: int, least: float
) -> None:
    fix = trtdiag.fix_dims(made(), programs=most)
    assert fix.several is not None
    programs = [program.program for program in fix.programs]
    routed, working = assert_routed_sizes_run(fix, made()[0], shaped, programs)
    assert fix.several.kept is not None
    assert routed == fix.several.kept[0]
    assert routed >= least * working
    assert fix.programs[0].kept is not None
    assert routed > fix.programs[0].kept[0]


@pytest.mark.slow  # about 12 exports
def test_branches_on_two_sizes(tmp_path: Path) -> None:
    answer, output = tmp_path / "answer.json", tmp_path / "table.ep"
    with pytest.raises(SystemExit) as ended:
        main(
            [
                *("fix-dims", "tests.fixdims.test_several_programs:table", "-q"),
                *("--programs", "5", "--apply", "-o", str(output), "--json", str(answer)),
            ]
        )
    assert ended.value.code in (0, None)
    several = json.loads(answer.read_text())["several"]
    assert several["searched"] is True
    assert several["kept"]["kept"] == several["kept"]["of"] == 393**2
    loaded: dict[Path, Any] = {}
    module = table()[0]
    for height, width in product((28, 97, 223, 224, 237, 238, 419, 420), repeat=2):
        file = trtdiag.program_for(tmp_path / "table.programs.json", h=height, w=width)
        runnable = loaded.setdefault(file, torch.export.load(file).module())
        x = torch.rand(1, 3, height, width)
        assert runnable(x).shape == module(x).shape  # the weights of the two are not the same
    assert len(loaded) == len(several["programs"])


@pytest.mark.slow  # quick: an offer of programs in test_sizes_in_order.py; here how much they take
def test_sizes_that_are_in_order_are_covered_by_large_rectangles() -> None:
    """Each was looked for next to the example, where four corners in a row took 621 of 2,080."""
    dims = ({0: Dim("n", min=1, max=64)}, {0: Dim("m", min=1, max=64)})
    fix = trtdiag.fix_dims((Ordered(), (torch.rand(6), torch.rand(8)), {}, dims))
    assert fix.several is not None
    assert fix.several.kept is not None
    assert 64 * 65 // 4 < fix.several.kept[0] <= 64 * 65 // 2


class SixesOfLong(nn.Module):
    """Long rows go another way, which needs a multiple of 6."""

    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(-1, 6).relu() if x.shape[0] > 50 else x * 2


@pytest.mark.slow  # the quick run has multiples in test_choose_cases.py, and two programs above
def test_the_other_way_may_need_multiples() -> None:
    source = SixesOfLong(), (torch.rand(12),), {}, {"x": {0: Dim("n", min=2, max=200)}}
    fix = trtdiag.fix_dims(source, programs=2)
    assert fix.several is not None
    assert [program.takes_text() for program in fix.programs] == ["2 <= n <= 50", "54 <= n <= 198 and n % 6 == 0"]
    assert fix.several.kept == (49 + 25, 199)
    programs = [program.program for program in fix.programs]
    assert_routed_sizes_run(fix, SixesOfLong(), lambda n: torch.rand(n), programs)


@pytest.mark.slow  # quick: examples of one program are moved in test_fix_dims_examples.py
def test_an_example_at_the_first_steps_of_a_dim_is_moved() -> None:
    # n = 15 is 8*_n + 7 with _n = 1, which torch takes for a constant: all but one of the values were lost.
    source = EvenRows(), (torch.rand(2, 15),), {}, {"x": {1: Dim("n", min=5, max=64)}}
    fix = trtdiag.fix_dims(source, programs=1)
    assert fix.changes[0].kept == (8, 60)
    assert fix.confirmation.exported


@pytest.mark.slow  # five exports
def test_apply_says_which_file_takes_what(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "fixed.ep"
    with pytest.raises(SystemExit) as ended:
        main(["fix-dims", "tests.fixdims.test_several_programs:wide", "--apply", "-o", str(output)])
    assert ended.value.code in (0, None)
    shown = capsys.readouterr().out
    assert "2 programs together keep 60 of 60 values of w" in " ".join(shown.split())
    assert "if 25 <= w <= 61:\n        return 'fixed-2.ep'" in shown
    (tmp_path / "other-2.ep").write_text("mine")
    with pytest.raises(SystemExit) as refused:
        main(["fix-dims", "tests.fixdims.test_several_programs:wide", "--apply", "-o", str(tmp_path / "other.ep")])
    assert refused.value.code == 2
    assert (tmp_path / "other-2.ep").read_text() == "mine"


def test_a_run_that_is_stopped_between_its_files_is_known_and_done_again(
    wide_fix: Fix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each file is whole, the table sends no sizes to a mixture of old and new ones, and the next run mends it."""
    trtdiag.save_programs(wide_fix, tmp_path / "fixed.ep")
    names = sorted(path.name for path in tmp_path.iterdir())
    real, put = os.replace, []

    def stop_at_third(unfinished: Path, target: Path) -> None:
        put.append(target.name)
        if len(put) == 3:  # the table, the first program, the second
            raise KeyboardInterrupt
        real(unfinished, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", stop_at_third)
        with pytest.raises(KeyboardInterrupt):
            trtdiag.save_programs(wide_fix, tmp_path / "fixed.ep")
    assert put == ["fixed.programs.json", "fixed.ep", "fixed-2.ep"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    for program in tmp_path.glob("*.ep"):
        torch.export.load(program)
    with pytest.raises(ArtifactError, match="no table of programs") as caught:
        trtdiag.program_for(tmp_path / "fixed.programs.json", w=5)
    assert "stopped half-way" in caught.value.because
    trtdiag.save_programs(wide_fix, tmp_path / "fixed.ep")
    assert "programs" in json.loads((tmp_path / "fixed.programs.json").read_text())


@pytest.mark.slow  # the quick run has offers that are made and not made, above
def test_a_program_that_fails_at_its_own_example_is_not_offered() -> None:
    """It was saved beside the first, with a word that it fails."""
    fix = trtdiag.fix_dims(
        NarrowKernel(), (torch.rand(2, 12),), dynamic_shapes={"x": {1: Dim("w", min=2, max=61)}}, programs=4
    )
    assert fix.proven
    assert fix.programs == ()
    fix.program.module()(torch.rand(2, 24))
