"""Values of nodes that are made at once are those that torch's reader makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch._export.serde import serialize
from torch.export import Dim, ExportedProgram

from trtdiag.frontend.archive import deserializer_patches
from trtdiag.frontend.archive.read import read_archive


class Net(nn.Module):
    """A frozen weight, strides of several kinds, sizes that are sums, a size from data."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(5, 3, 3, 3))
        self.frozen = nn.Parameter(torch.ones(5), requires_grad=False)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = nn.functional.conv2d(x, self.weight, padding=1).transpose(1, 3) + self.frozen
        z = torch.cat([y, y[:, :1].to(torch.complex64)], dim=1)
        return z, (y > 0).nonzero(), y.to(torch.float16)


def tensors(program: ExportedProgram) -> dict[str, torch.Tensor]:
    """The value of each node that has a tensor."""
    found = {node.name: node.meta.get("val") for node in program.graph.nodes}
    return {name: value for name, value in found.items() if isinstance(value, torch.Tensor)}


def values(program: ExportedProgram) -> list[tuple[Any, ...]]:
    """What is known of each."""
    return [
        (name, v.dtype, v.device, str(v.shape), str(v.stride()), v.requires_grad, v.storage_offset(), v.is_leaf)
        for name, v in tensors(program).items()
    ]


def test_they_are_what_torch_makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dims = {"x": {0: Dim("b", min=1, max=9), 2: Dim("h", min=2, max=64)}}
    exported = torch.export.export(Net(), (torch.ones(2, 3, 13, 7),), dynamic_shapes=dims)
    torch.export.save(exported, tmp_path / "net.pt2")
    calls = []
    before = serialize.GraphModuleDeserializer.deserialize_tensor_meta
    monkeypatch.setattr(
        serialize.GraphModuleDeserializer,
        "deserialize_tensor_meta",
        lambda reader, meta: calls.append(meta) or before(reader, meta),
    )
    made = read_archive(tmp_path / "net.pt2").exported
    assert not calls
    monkeypatch.setattr(deserializer_patches, "_MAKE", "of another torch")
    torchs = read_archive(tmp_path / "net.pt2").exported
    assert len(calls) == len(values(torchs))
    assert values(made) == values(torchs)
    storages = {value.untyped_storage()._cdata for value in tensors(made).values()}
    assert len(storages) == len(values(made))  # none shares its memory
