"""How weights are made, as files have it: compressed by xz, or by zlib or as a text in earlier ones."""

from __future__ import annotations

import json
import lzma
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import trtdiag

PACKED = "trtdiag/refit.json.xz"


def _rewritten(file: Path, change: Callable[[bytes], bytes], name: str = PACKED) -> Path:
    """The archive with this member changed, and under this name."""
    made = file.with_name("rewritten.pt2")
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(made, "w") as new:
        for info in old.infolist():
            root, _, own = info.filename.partition("/")
            is_it = own == PACKED
            new.writestr(f"{root}/{name if is_it else own}", change(old.read(info)) if is_it else old.read(info))
    return made


def test_it_is_read_compressed_and_as_earlier_files_have_it(tmp_path: Path) -> None:
    torch.manual_seed(3)
    old, new = (nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)).eval() for _ in range(2))
    sizes = trtdiag.Input((1, 16), (2, 16), (4, 16))
    compiled = trtdiag.compile(
        old, inputs=[sizes], backend="reference", min_segment_ops=0, verify=False, engine_weights="none"
    )
    file = tmp_path / "bare.pt2"
    trtdiag.save(compiled, file)
    x = torch.randn(3, 16)
    torch.testing.assert_close(trtdiag.load(file, weights=new)(x), new(x))
    for name, as_before in {"extra/trtdiag_refit.json": bytes, "trtdiag/refit.json.zlib": zlib.compress}.items():
        earlier = _rewritten(file, lambda content, to=as_before: to(lzma.decompress(content)), name)
        assert (earlier.stat().st_size > file.stat().st_size + 1000) is (as_before is bytes)
        torch.testing.assert_close(trtdiag.load(earlier, weights=new)(x), new(x))

    def cut(content: bytes) -> bytes:
        return content[:-9]

    def no_such_text(content: bytes) -> bytes:
        return b"no" + content

    def a_bomb(_: bytes) -> bytes:
        return lzma.compress(bytes(1 << 22))

    for change in (cut, no_such_text, a_bomb):
        with pytest.raises(trtdiag.ArtifactError, match="is damaged"):
            trtdiag.load(_rewritten(file, change), weights=new)


class Held(nn.Module):
    """Has a constant that comes from no parameter: small, or larger than what the text has."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.linear = nn.Linear(size, 3)
        self.scale = torch.arange(size) / 7  # neither parameter nor buffer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x * self.scale)


@pytest.mark.parametrize("size", [64, 65])
def test_small_constants_stand_in_the_text(tmp_path: Path, size: int) -> None:
    """A member of an archive takes more than they do."""
    old, new = Held(size).eval(), Held(size).eval()
    sizes = trtdiag.Input((1, size), (2, size), (4, size))
    compiled = trtdiag.compile(
        old, inputs=[sizes], backend="reference", min_segment_ops=0, verify=False, engine_weights="none"
    )
    file = tmp_path / "bare.pt2"
    trtdiag.save(compiled, file)
    x = torch.randn(3, size)
    torch.testing.assert_close(trtdiag.load(file, weights=new)(x), new(x))
    with zipfile.ZipFile(file) as archive:
        held = [name for name in archive.namelist() if "/held/" in name]
    assert len(held) == (size > 64)

    def shorter(content: bytes) -> bytes:
        said = json.loads(lzma.decompress(content))
        said["small"] = {name: digits[:-2] for name, digits in said["small"].items()}
        return lzma.compress(json.dumps(said).encode())

    if size == 64:
        with pytest.raises(trtdiag.ArtifactError, match="255 bytes are no float32"):
            trtdiag.load(_rewritten(file, shorter), weights=new)
