"""Large engines: where their bytes are while they are made, compared, saved, loaded and called; no copy is made."""

from __future__ import annotations

import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim, ExportedProgram

import trtdiag
from trtdiag.engine import engine_bytes, reference
from trtdiag.errors import ArtifactError
from trtdiag.files.memory_map import MappedFile, file_at
from trtdiag.frontend.archive import write
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.runtime.engine_cache import CACHE
from trtdiag.runtime.engine_nodes import engine_nodes

pytestmark = pytest.mark.skipif(os.name != "posix", reason="files are not mapped on Windows")
WIDE = 1031
X = torch.linspace(-1, 1, 3 * 521).reshape(3, 521)


class Tail(nn.Module):
    """A weight of 2 MiB in the engine, one of 1 MiB that stays with PyTorch, and a small one."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(521, WIDE)
        self.register_buffer("table", torch.randn(WIDE, 257))
        self.register_buffer("shift", torch.tensor([0.5]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.first(x)).sin() + self.shift
        return torch.histc(y, 5) + torch.linalg.matrix_norm(self.table)  # neither has a converter


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_bytes, "IN_FILE_BYTES", 1 << 20)


@pytest.fixture(scope="module")
def exported() -> ExportedProgram:
    torch.manual_seed(2)
    batch = Dim("batch", min=1, max=4)
    return torch.export.export(Tail().eval().requires_grad_(False), (X,), dynamic_shapes=({0: batch},))


def compiled(source: Any, **options: Any) -> CompiledProgram:
    return trtdiag.compile(source, backend="reference", min_segment_ops=1, **options)


def file_of(tensor: torch.Tensor) -> MappedFile | None:
    found = file_at(tensor.untyped_storage().data_ptr())
    return None if found is None else found[0]


def engine_of(program: CompiledProgram) -> torch.Tensor:
    engines = sorted(engine_nodes(program.exported_program), key=lambda node: node.engine.numel())
    return engines[-1].engine


@pytest.fixture
def runners(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The networks of the engines that a comparison loads."""
    CACHE._slots.clear()  # other tests have the same engines
    seen: list[Any] = []
    load = reference._Reference.load

    def loaded(self: Any, blob: Any, manifest: Any) -> Any:
        made = load(self, blob, manifest)
        seen.append(made._run._network)
        return made

    monkeypatch.setattr(reference._Reference, "load", loaded)
    return seen


def test_a_comparison_shares_the_weights_of_a_live_program_and_calls_do_not(
    exported: ExportedProgram, runners: list[Any]
) -> None:
    program = compiled(exported)
    own = exported.state_dict["first.weight"]
    assert own.data_ptr() in {weight.data_ptr() for each in runners for weight in each.weights.values()}
    assert file_of(engine_of(program)) is not None
    runners.clear()
    expected = program(X)
    (again,) = runners  # the other engine is small, in memory, and loaded still
    assert own.data_ptr() not in {weight.data_ptr() for weight in again.weights.values()}
    before = own.clone()
    with torch.no_grad():
        own.zero_()
    try:
        assert torch.equal(program(X), expected)
    finally:
        with torch.no_grad():
            own.copy_(before)


def test_engines_are_in_memory_where_no_file_can_be_had(
    exported: ExportedProgram, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    program = compiled(exported, verify=False)
    assert file_of(engine_of(program)) is None
    torch.testing.assert_close(program(X), exported.module()(X))


def test_an_engine_in_a_file_is_kept_in_a_cache_and_found(exported: ExportedProgram, tmp_path: Path) -> None:
    first, again = (compiled(exported, verify=False, engine_cache=str(tmp_path)) for _ in range(2))
    assert first.manifests == again.manifests
    assert file_of(engine_of(first)) is not file_of(engine_of(again)) is not None
    assert torch.equal(engine_of(first), engine_of(again))


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        names = {name.partition("/")[2]: name for name in archive.namelist()}
        return {short: archive.read(name) for short, name in names.items() if "serialization_id" not in short}


@pytest.mark.parametrize("as_torch", [False, True])
def test_a_file_has_what_torch_would_have_written(
    exported: ExportedProgram, tmp_path: Path, as_torch: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = compiled(exported, verify=False)
    path, other = tmp_path / "ours.pt2", tmp_path / "torch.pt2"
    copies: list[int] = []
    package = torch.export.pt2_archive._package
    raw = package._get_raw_tensor_bytes

    def copied(tensor: torch.Tensor) -> bytes:
        copies.append(tensor.nbytes)
        return raw(tensor)

    if as_torch:  # what another torch says of weights is not known here
        monkeypatch.setattr(write, "_placed", lambda *_: None)
    monkeypatch.setattr(package, "_get_raw_tensor_bytes", copied)
    trtdiag.save(program, path)
    assert (max(copies) >= 1 << 20) is as_torch
    ours = members(path)
    told = {"trtdiag.json": ours["extra/trtdiag.json"].decode()}
    torch.export.save(program.exported_program, other, extra_files=told)
    assert ours == members(other)
    assert torch.equal(torch.export.load(path).module()(X), program(X))


@pytest.fixture
def path(exported: ExportedProgram, tmp_path: Path) -> Path:
    place = tmp_path / "compiled.pt2"
    trtdiag.save(compiled(exported, verify=False), place)
    os.utime(place, ns=(1, 1))  # whatever writes to it from now on gives it another time
    return place


def test_a_loaded_program_is_the_file(path: Path, exported: ExportedProgram, runners: list[Any]) -> None:
    program = trtdiag.load(path)
    assert runners == []
    engine = engine_of(program)
    file = file_of(engine)
    assert file is not None
    assert file.file == str(path)
    torch.testing.assert_close(program(X), exported.module()(X))
    start, end = engine.data_ptr(), engine.data_ptr() + engine.numel()
    weights = [weight for each in runners for weight in each.weights.values() if weight.nbytes >= 1 << 20]
    assert weights
    assert all(start <= weight.data_ptr() < end for weight in weights)


@pytest.mark.parametrize("called", [pytest.param(False, marks=pytest.mark.slow), True])
@pytest.mark.parametrize(("size", "told"), [(50_000, "has 50,000 now"), (None, "written to")])
def test_a_file_that_was_changed_is_told_before_it_is_read(
    path: Path, called: bool, size: int | None, told: str
) -> None:
    program = trtdiag.load(path)
    if called:
        program(X)
    if size is None:
        with path.open("r+b") as file:
            file.write(b"x")
    else:
        os.truncate(path, size)
    with pytest.raises(ArtifactError) as caught:
        program(X)
    assert caught.value.reference == "file-changed"
    assert told in caught.value.because


def test_a_program_that_takes_the_place_of_a_loaded_one_does_no_harm(path: Path, exported: ExportedProgram) -> None:
    program = trtdiag.load(path)
    trtdiag.save(program, path)
    torch.testing.assert_close(program(X), exported.module()(X))
    torch.testing.assert_close(trtdiag.load(path)(X), exported.module()(X))


def test_an_engine_of_a_file_that_was_changed_is_loaded_anew_for_another_program(
    path: Path, exported: ExportedProgram, tmp_path: Path
) -> None:
    CACHE._slots.clear()
    other = tmp_path / "other.pt2"
    other.write_bytes(path.read_bytes())
    first, second = trtdiag.load(path), trtdiag.load(other)
    expected = first(X)
    os.truncate(path, 50_000)
    assert torch.equal(second(X), expected)
    with pytest.raises(ArtifactError):
        first(X)
