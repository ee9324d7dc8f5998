"""Every kind of source, told apart by itself."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export, save

import trtdiag
from tests.fixdims import small_models as models
from trtdiag.errors import CaptureError, DimsError
from trtdiag.fixdims.fix import Outcome
from trtdiag.fixdims.run import fix_dims

NAIVE = {"x": {2: Dim("h", min=16, max=640), 3: Dim("w", min=16, max=641)}}
TEXT = (
    "Constraints violated (h)!\n  - Not all values of h = L['x'].size()[2] in the specified range 16 <= h <= 640 "
    "satisfy the generated guard (L['x'].size()[2] % 8) == 0\n"
)


def build() -> tuple[nn.Module, tuple[Any, ...], dict[str, Any], Any]:
    return models.Unshuffle(), (torch.randn(1, 3, 64, 64),), {}, NAIVE


class Pairs(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(-1, 2, 3).relu()


def build_rows() -> tuple[nn.Module, tuple[Any, ...], dict[str, Any], Any]:
    return Pairs(), (torch.randn(4, 3),), {}, {"x": {0: Dim("b", min=2, max=41)}}


def as_auto() -> ExportedProgram:
    spec = {"x": {2: Dim.AUTO(min=16, max=640), 3: Dim.AUTO(min=16, max=641)}}
    return export(models.Unshuffle(), (torch.randn(1, 3, 64, 64),), dynamic_shapes=spec)


def saved(tmp_path: Path, name: str = "model.pt2") -> Path:
    path = tmp_path / name
    with path.open("wb") as file:
        save(as_auto(), file)
    return path


@pytest.mark.slow  # the quick run has one source of each kind in tests/frontend/test_capture_program.py
def test_a_factory_a_tuple_a_module_and_a_callable_give_the_same() -> None:
    model, args, kwargs, spec = build_rows()
    fixes = [
        fix_dims("tests.fixdims.test_fix_dims_sources:build_rows"),
        fix_dims((model, args, kwargs, spec)),
        fix_dims(model, args, kwargs, dynamic_shapes=spec),
        fix_dims(build_rows),
    ]
    assert {fix.code for fix in fixes} == {fixes[0].code}
    assert [fix.source for fix in fixes] == ["factory", "live", "live", "factory"]
    assert "b = 2 * _b" in fixes[0].code
    assert all(fix.confirmation.exported for fix in fixes)


# The name of a file changes nothing.
@pytest.mark.slow  # quick: tests/examples corrects a U-Net; saved programs are corrected in test_saved_arguments.py
@pytest.mark.parametrize("name", ["model.pt2", pytest.param("model.ep", marks=pytest.mark.slow)])
def test_a_file_is_exported_again_with_corrected_dims(tmp_path: Path, name: str) -> None:
    path = saved(tmp_path, name)
    before = path.read_bytes()
    fix = fix_dims(path)
    assert fix.source == "file"
    assert fix.outcome is Outcome.CHANGED
    assert fix.confirmation.exported
    assert fix.proven
    assert path.read_bytes() == before
    program = fix.program.module()
    for height, width in ((16, 16), (640, 640), (88, 104)):
        assert program(torch.randn(1, 3, height, width)).shape == (1, 192, height // 8, width // 8)
    with pytest.raises(Exception, match="16"):  # torch's own range check; its class differs between versions
        program(torch.randn(1, 3, 8, 16))


def test_a_program_without_an_upper_bound_is_asked_for_one_and_none_is_invented() -> None:
    exported = export(nn.ReLU(), (torch.randn(3, 4),), dynamic_shapes=({0: Dim.AUTO},))
    fix = fix_dims(exported)
    assert fix.outcome is Outcome.CHANGED
    (change,) = fix.changes
    assert change.kind == "bound"
    assert change.why[0].by == "TensorRT"
    assert "max=" not in fix.code.partition("#")[0]
    assert "# give it max=" in fix.code


class AfterAQuarter(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[x.shape[0] // 4 :]


def test_a_program_that_takes_what_it_was_asked_is_the_answer_itself() -> None:
    """It was exported again with Dims in place of its hints, which torch refuses: --apply saved nothing."""
    exported = export(AfterAQuarter(), (torch.randn(7, 4),), dynamic_shapes=({0: Dim.DYNAMIC(min=2, max=13)},))
    fix = fix_dims(exported)
    assert fix.outcome is Outcome.UNCHANGED
    assert fix.proven
    assert fix.program is exported


def test_a_text_needs_no_model() -> None:
    fix = fix_dims(TEXT)
    assert fix.source == "text"
    assert fix.confirmation.exported is None
    assert "8 * _h" in fix.code
    with pytest.raises(DimsError, match="no program"):
        _ = fix.program


def test_a_log_file_is_told_from_a_program(tmp_path: Path) -> None:
    for name in ("error.log", "error.pt2"):
        path = tmp_path / name
        path.write_text(TEXT)
        assert fix_dims(path).source == "text"
    path.write_bytes(b"\xef\xbb\xbf" + TEXT.encode())
    assert fix_dims(path).source == "text"
    path.write_bytes(TEXT.encode("utf-16"))
    assert fix_dims(path).source == "text"


def test_what_is_no_source_is_refused_with_a_way_out(tmp_path: Path) -> None:
    binary = tmp_path / "model.onnx"
    binary.write_bytes(b"\x08\x00\x12\x00" * 99)
    cut = tmp_path / "cut.pt2"
    with zipfile.ZipFile(cut, "w") as archive:
        archive.writestr("model/models/model.json", "{}" * 99)
    cut.write_bytes(cut.read_bytes()[:150])
    empty = tmp_path / "empty.pt2"
    empty.touch()
    for source, words in (
        (empty, "empty.pt2 is empty"),
        ("resnet18", "there is no file or folder resnet18"),
        (nn.ReLU(), "module alone"),
        (5, "no dims to fix"),
        (binary, "neither a program nor a text"),
        (cut, "cut.pt2 is cut off"),
        (tmp_path / "missing.pt2", "missing.pt2"),
        ("tests.fixdims.test_fix_dims_sources:missing", "missing"),
    ):
        with pytest.raises(CaptureError, match=words) as caught:
            fix_dims(source)
        assert caught.value.fix


def test_the_front_door_has_it() -> None:
    assert trtdiag.fix_dims is fix_dims
