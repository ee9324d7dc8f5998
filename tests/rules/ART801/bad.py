"""A file that torch 2.8 wrote: it holds no guards."""

from __future__ import annotations

import json
import tempfile
import zipfile
from pathlib import Path

import torch
from torch import nn
from torch.export import Dim, export, save

EXPORTER, SCHEMA_MINOR, GUARDS = "2.8.0", 8, False


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.proj(x))


def program() -> Path:
    """A saved program whose header says what that version of torch would have written."""
    folder = Path(tempfile.mkdtemp())
    dims = {"x": {0: Dim("batch", min=1, max=64)}}
    save(export(Mlp(), (torch.randn(3, 8),), dynamic_shapes=dims), folder / "new.pt2")
    with zipfile.ZipFile(folder / "new.pt2") as new, zipfile.ZipFile(folder / "model.pt2", "w") as old:
        for name in new.namelist():
            content = new.read(name)
            if name.endswith("models/model.json"):
                content = _as_written_by(json.loads(content))
            old.writestr(name, content)
    return folder / "model.pt2"


def _as_written_by(header: dict[str, object]) -> bytes:
    header["torch_version"] = EXPORTER
    version = header["schema_version"]
    assert isinstance(version, dict)
    version["minor"] = SCHEMA_MINOR
    if not GUARDS:
        del header["guards_code"]
    return json.dumps(header).encode()
