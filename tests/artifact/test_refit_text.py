"""How weights are made, as files have it: compressed, or as a text in earlier ones."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import trtdiag

PACKED = "trtdiag/refit.json.zlib"


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
    earlier = _rewritten(file, zlib.decompress, "extra/trtdiag_refit.json")
    assert earlier.stat().st_size > file.stat().st_size + 1000
    for each in (file, earlier):
        torch.testing.assert_close(trtdiag.load(each, weights=new)(x), new(x))

    def cut(content: bytes) -> bytes:
        return content[:-9]

    def no_such_text(content: bytes) -> bytes:
        return b"no" + content

    def a_bomb(_: bytes) -> bytes:
        return zlib.compress(bytes(1 << 22), 9)

    for change in (cut, no_such_text, a_bomb):
        with pytest.raises(trtdiag.ArtifactError, match="is damaged"):
            trtdiag.load(_rewritten(file, change), weights=new)
