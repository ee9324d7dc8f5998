"""Large weights of a file: where they are, that an analysis reads none of them, and what is told of a changed file."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest
import torch
from torch import nn

import trtdiag
from trtdiag.errors import CaptureError
from trtdiag.files.memory_map import MappedFile, file_at
from trtdiag.frontend.archive.read import read_archive
from trtdiag.frontend.archive.zip_members import Container
from trtdiag.graph.inputs import held_tensors, mapped_files

pytestmark = pytest.mark.skipif(
    os.name != "posix", reason="files are read on Windows, where none that is mapped can go"
)
ROWS = 1031
"""Times 512 of bfloat16 just over the size from which on weights are mapped; a prime."""


class Mixed(nn.Module):
    """Large floats, as a parameter and as a view of a buffer, bytes and indices, and something small."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(512, ROWS, dtype=torch.bfloat16)
        self.register_buffer("rows", torch.randn(ROWS, 512).T)
        self.register_buffer("bytes", torch.randint(0, 255, (ROWS, 1024), dtype=torch.uint8))
        self.register_buffer("order", torch.randperm(ROWS * 128))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = self.linear(x)
        return y, y.float() @ self.rows.T, self.bytes.float().mean(1), self.order[:3] + 1


MAPPED = {"linear.weight", "rows", "bytes"}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mapped") / "mixed.pt2"
    torch.manual_seed(3)
    exported = torch.export.export(Mixed().eval().requires_grad_(False), (torch.randn(2, 512).bfloat16(),))
    torch.export.save(exported, path)
    return path


@pytest.fixture
def path(source: Path, tmp_path: Path) -> Path:
    """A file of a test's own."""
    copy = tmp_path / source.name
    copy.write_bytes(source.read_bytes())
    os.utime(copy, ns=(1, 1))  # whatever writes to it from now on gives it another time
    return copy


def test_large_floats_and_bytes_are_in_the_file_and_all_is_as_torch_reads_it(source: Path) -> None:
    found, expected = read_archive(source).exported, torch.export.load(source)
    inside = {name for name, held in found.state_dict.items() if file_at(held.untyped_storage().data_ptr())}
    assert inside == MAPPED
    assert len(mapped_files(held_tensors(found))) == 1
    for name, held in expected.state_dict.items():
        mine = found.state_dict[name]
        assert torch.equal(mine, held)
        assert (mine.stride(), type(mine)) == (held.stride(), type(held))
    x = torch.randn(2, 512).bfloat16()
    for one, other in zip(found.module()(x), expected.module()(x), strict=True):
        assert torch.equal(one, other)


def test_weights_can_be_written_to_and_the_file_stays(path: Path) -> None:
    before = path.read_bytes()
    found = read_archive(path).exported
    with torch.no_grad():
        found.state_dict["linear.weight"].zero_()
    assert not found.state_dict["linear.weight"].any()
    assert path.read_bytes() == before


def test_what_a_tool_has_packed_is_read(source: Path, tmp_path: Path) -> None:
    packed = tmp_path / "packed.pt2"
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    found = read_archive(packed).exported
    assert mapped_files(held_tensors(found)) == ()
    assert torch.equal(found.state_dict["rows"], torch.export.load(source).state_dict["rows"])


def _members(path: Path) -> dict[str, int]:
    """The place of each member's bytes that is larger than what is always read."""
    with zipfile.ZipFile(path) as archive:
        entries = [entry for entry in archive.infolist() if "/data/weights/weight_" in entry.filename]
    content = path.read_bytes()
    places = {}
    for entry in entries:
        header = content[entry.header_offset : entry.header_offset + 30]
        names = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
        places[entry.filename.partition("/")[2]] = entry.header_offset + 30 + names
    return places


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The members whose bytes are read, in part or whole."""
    seen: list[str] = []
    fill, verify = Container.read_into, Container.verify

    def filled(self: Container, name: str, target: memoryview) -> None:
        seen.append(name)
        fill(self, name, target)

    def verified(self: Container, name: str) -> None:
        seen.append(name)
        verify(self, name)

    monkeypatch.setattr(Container, "read_into", filled)
    monkeypatch.setattr(Container, "verify", verified)
    return seen


def _resident_kib(path: Path) -> int:
    """How much of a file this process has mapped and touched."""
    own, total = False, 0
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first = line.split(maxsplit=1)[0]
        if not first.endswith(":"):
            own = line.endswith(str(path))
        elif own and first == "Rss:":
            total += int(line.split()[1])
    return total


def test_an_analysis_reads_indices_and_what_is_small(path: Path, reads: list[str]) -> None:
    assert trtdiag.analyze(path).analysis.program.exported is not None
    weights = {name for name in reads if "weights/weight_" in name}
    assert len(weights) == len(_members(path)) - len(MAPPED)  # the bias and the indices
    reads.clear()
    read_archive(path)
    assert len({name for name in reads if "weights/weight_" in name}) == len(_members(path))


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="only Linux tells which pages of a file were touched")
def test_an_analysis_touches_no_page_of_large_floats(tmp_path: Path) -> None:
    path = tmp_path / "floats.pt2"
    model = nn.Sequential(nn.Linear(512, ROWS), nn.GELU(), nn.Linear(ROWS, 512)).bfloat16().requires_grad_(False)
    torch.export.save(torch.export.export(model, (torch.randn(2, 512).bfloat16(),)), path)
    report = trtdiag.analyze(path)
    exported = report.analysis.program.exported
    assert exported is not None
    assert len(mapped_files(held_tensors(exported))) == 1
    assert _resident_kib(path) == 0
    assert exported.state_dict["0.weight"].any()
    assert _resident_kib(path) > 0


def test_damage_in_weights_is_told_by_who_computes_with_them(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[_members(path)["data/weights/weight_0"] + 4321] ^= 1
    path.write_bytes(content)
    assert trtdiag.analyze(path).analysis.program.exported is not None
    with pytest.raises(CaptureError) as caught:
        trtdiag.compile(path, backend="reference")
    assert caught.value.reference == "corrupt-member"
    assert "weight_0" in caught.value.message


def test_a_file_that_is_cut_while_it_is_analysed_is_an_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import trtdiag.pipeline.analyze as pipeline

    facts = pipeline._with_findings

    def cut(*args: object) -> object:
        os.truncate(path, 1000)
        return facts(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(pipeline, "_with_findings", cut)
    with pytest.raises(CaptureError) as caught:
        trtdiag.analyze(path)
    assert caught.value.reference == "file-changed"
    assert "has 1,000 now" in caught.value.because


def test_a_file_that_is_replaced_meanwhile_is_read_to_its_end(path: Path, source: Path) -> None:
    found = read_archive(path).exported
    other = path.with_name("other")
    other.write_bytes(b"another")
    other.rename(path)
    assert torch.equal(found.state_dict["rows"], torch.export.load(source).state_dict["rows"])
    (file,) = mapped_files(held_tensors(found))
    assert isinstance(file, MappedFile)
    assert not file.changed


def test_a_header_that_leads_beyond_the_file_is_refused(path: Path) -> None:
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        last = max(archive.infolist(), key=lambda entry: entry.file_size)
    content[last.header_offset + 28 : last.header_offset + 30] = b"\xff\xff"  # the length of its further fields
    path.write_bytes(content[: last.header_offset + 30 + len(last.filename) + last.file_size] + content[-2000:])
    with pytest.raises(CaptureError):
        read_archive(path, whole=False)
