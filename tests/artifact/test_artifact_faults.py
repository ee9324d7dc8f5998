"""Files that are cut, changed, foreign or of another version, and saving that is stopped half-way."""

from __future__ import annotations

import json
import os
import random
import signal
import zipfile
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.export import Dim

from tests.harness.forked_runs import run_forked
from tests.random_cases import cases
from tests.runtime.compiling import compiled
from trtdiag.artifact.load import load
from trtdiag.artifact.save import save
from trtdiag.engine.manifest_text import SCHEMA
from trtdiag.errors import ArtifactError
from trtdiag.runtime.compiled import CompiledProgram

ROOT = Path(__file__).resolve().parent.parent.parent
X = torch.linspace(-2, 2, 35).reshape(7, 5)


@pytest.fixture(scope="module")
def program() -> CompiledProgram:
    torch.manual_seed(5)
    model = nn.Linear(5, 7).requires_grad_(False)
    return compiled(model, (torch.randn(3, 5),), None, ({0: Dim("batch", min=1, max=8)},))


@pytest.fixture(scope="module")
def content(program: CompiledProgram, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("saved") / "a.ep"
    save(program, path)
    return path.read_bytes()


def test_a_file_that_is_cut_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "cut.ep"
    for length in [0, 1, 3, 4, 30, *range(57, len(content), 131), len(content) - 22, len(content) - 1]:
        path.write_bytes(content[:length])
        with pytest.raises(ArtifactError):
            load(path)


def _flips(content: bytes, program: CompiledProgram, path: Path, places: list[int]) -> int:
    """How many of these flipped bits are refused; the others must have changed nothing that counts."""
    refused = 0
    chosen = random.Random(11)
    for place in places:
        changed = bytearray(content)
        changed[place] ^= 1 << chosen.randrange(8)
        path.write_bytes(changed)
        try:
            found = load(path)
        except ArtifactError:
            refused += 1
            continue
        assert found.manifests == program.manifests
        assert torch.equal(found(X), program(X)), f"a flipped bit in byte {place} changed the result"
    return refused


def test_a_flipped_bit_is_refused_or_without_effect(content: bytes, program: CompiledProgram, tmp_path: Path) -> None:
    places = sorted(random.Random(7).sample(range(len(content)), cases(160)))
    refused = _flips(content, program, tmp_path / "flipped.ep", places)
    # Padding, dates and repeated header fields are a fifth of so small a file; everything else counts.
    assert refused > len(places) // 2


@pytest.mark.slow
def test_many_bytes_can_flip(content: bytes, program: CompiledProgram, tmp_path: Path) -> None:
    _flips(content, program, tmp_path / "flipped.ep", list(range(0, len(content), 5)))


def test_engines_that_were_exchanged_are_refused(content: bytes, tmp_path: Path) -> None:
    """Everything fits its checksum, and the engine is another one than the description names."""
    path = tmp_path / "a.ep"
    path.write_bytes(content)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    (engine,) = [name for name in members if "/data/weights/weight_" in name]
    members[engine] = members[engine][:-4] + bytes(4)
    _write(path, members)
    with pytest.raises(ArtifactError) as caught:
        load(path)
    assert caught.value.reference == "damaged-artifact"


@pytest.mark.parametrize(
    ("member", "old", "new", "reference"),
    [
        ("extra/trtdiag.json", "trtdiag-artifact/1", "trtdiag-artifact/2", "artifact-version"),
        ("extra/trtdiag.json", '"engines"', '"motors"', "damaged-artifact"),
        ("extra/trtdiag.json", "trtdiag_engine_0", "trtdiag_engine_1", "damaged-artifact"),
        ("extra/trtdiag.json", "{", "[", "damaged-artifact"),
        ("models/model.json", SCHEMA, "trtdiag-engine/7", "engine-manifest"),
    ],
)
def test_another_version_or_a_changed_text_is_refused(
    content: bytes, tmp_path: Path, member: str, old: str, new: str, reference: str
) -> None:
    path = tmp_path / "a.ep"
    path.write_bytes(content)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    (name,) = [name for name in members if name.endswith(member)]
    changed = members[name].replace(old.encode(), new.encode())
    assert changed != members[name]
    members[name] = changed
    _write(path, members)
    with pytest.raises(ArtifactError) as caught:
        load(path)
    assert caught.value.reference == reference


def _write(path: Path, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def test_foreign_files_are_refused_with_advice(program: CompiledProgram, tmp_path: Path) -> None:
    torch.export.save(torch.export.export(nn.Linear(5, 7), (X,)), tmp_path / "exported.pt2")
    torch.export.save(program.exported_program, tmp_path / "plain.pt2")
    torch.save({"a": X}, tmp_path / "state.pt")
    (tmp_path / "text.ep").write_text(json.dumps({"schema": "trtdiag-artifact/1"}))
    _write(tmp_path / "zip.ep", {"a/extra/trtdiag.json": b"{}"})
    wanted = {
        "exported.pt2": ("not-compiled", "trtdiag compile"),
        "plain.pt2": ("saved-otherwise", "trtdiag.save"),
        "state.pt": ("not-an-exported-program", ""),
        "text.ep": ("not-a-zip", ""),
        "zip.ep": ("damaged-artifact", ""),
        "missing.ep": ("file-not-found", ""),
        "": ("is-a-directory", ""),
    }
    for name, (reference, advice) in wanted.items():
        with pytest.raises(ArtifactError) as caught:
            load(tmp_path / name)
        assert caught.value.reference == reference, name
        assert advice in caught.value.fix


KILLED = """
import os, signal, sys
import torch
from torch.export import Dim
from tests.runtime.compiling import compiled
from trtdiag.artifact.save import save
program = compiled(torch.nn.Linear(5, 7), (torch.randn(3, 5),), None, ({0: Dim("batch", min=1, max=8)},))
name, step = sys.argv[1:]
def die(*_): os.kill(os.getpid(), signal.SIGKILL)
if step == "write":
    written = 0
    real = torch.export.save
    def save_half(exported, file, **rest):
        import io
        whole = io.BytesIO()
        real(exported, whole, **rest)
        file.write(whole.getvalue()[: len(whole.getvalue()) // 2])
        file.flush()
        die()
    torch.export.save = save_half
else:
    setattr(os, step, die)
save(program, name)
"""


# Quick: the last step.
@pytest.mark.parametrize(
    "step", [pytest.param("write", marks=pytest.mark.slow), pytest.param("fsync", marks=pytest.mark.slow), "replace"]
)
def test_a_kill_while_saving_leaves_the_old_file(content: bytes, tmp_path: Path, step: str) -> None:
    path = tmp_path / "a.ep"
    path.write_bytes(content)
    done = run_forked(KILLED, str(path), step, cwd=ROOT)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert path.read_bytes() == content
    load(path)
    assert len(list(tmp_path.glob(".a.ep.*.part"))) == 1


def test_an_error_while_saving_leaves_nothing_behind(
    content: bytes, program: CompiledProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.ep"
    path.write_bytes(content)

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(ArtifactError, match="cannot be written") as caught:
            save(program, path)
    assert "No space left" in caught.value.because
    assert path.read_bytes() == content
    assert [found.name for found in tmp_path.iterdir()] == ["a.ep"]


def test_where_nothing_can_be_written_is_said(program: CompiledProgram, tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere" / "a.ep", tmp_path):
        with pytest.raises(ArtifactError) as caught:
            save(program, path)
        assert caught.value.reference == "file-not-written"


def test_a_link_and_permissions_stay(program: CompiledProgram, tmp_path: Path) -> None:
    real, link = tmp_path / "real.ep", tmp_path / "link.ep"
    real.write_bytes(b"old")
    real.chmod(0o640)
    link.symlink_to(real)
    save(program, link)
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    load(real)
