"""The RAFT-like example: one command from naive ranges to a saved program, and the advice that keeps every size."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, export, load
from torch.nn import functional as F

from examples import raft_like
from trtdiag.cli.main import main

pytestmark = pytest.mark.slow  # two exports in child processes and one here: about 20 s


def options(path: Path) -> list[str]:
    files = {"-o": "raft.ep", "--json": "raft.json", "--write": "raft_dims.py"}
    return ["--apply", *(word for option, name in files.items() for word in (option, str(path / name)))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where ``fix-dims`` wrote its answer and the program."""
    path = tmp_path_factory.mktemp("raft")
    with pytest.raises(SystemExit) as ended:
        main(["fix-dims", "examples.raft_like:build", "-q", *options(path)])
    assert ended.value.code in (0, None)
    return path


def test_one_command_gives_a_program_that_takes_what_it_promises(folder: Path) -> None:
    answer = json.loads((folder / "raft.json").read_text())
    assert answer["proven"] is True
    assert answer["confirmation"]["exported"] is True
    assert {change["name"]: change["kept"] for change in answer["changes"]} == {
        "h": {"kept": 254, "of": 2026},
        "w": {"kept": 464, "of": 3706},
    }
    exported, model = load(folder / "raft.ep").module(), raft_like.build()[0]
    for height, width in ((136, 136), (136, 144), (152, 136)):
        frames = torch.rand(1, 3, height, width), torch.rand(1, 3, height, width)
        assert exported(*frames).shape == model(*frames).shape
    with pytest.raises(AssertionError):
        exported(torch.rand(1, 3, 137, 136), torch.rand(1, 3, 137, 136))


def test_written_dims_export_the_model(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "raft_dims", raising=False)
    import raft_dims  # type: ignore[import-not-found]

    model, args, _, _ = raft_like.build()
    assert export(model, args, dynamic_shapes=raft_dims.dynamic_shapes, strict=False)


def test_padding_as_advised_keeps_every_asked_size(folder: Path) -> None:
    changes = json.loads((folder / "raft.json").read_text())["changes"]
    advice = changes[0]["model_change"]
    assert advice["kept"] == {"kept": 2026, "of": 2026}
    lines = compile(advice["text"].partition("\n")[2], "<advice>", "exec")

    class Padded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = raft_like.build()[0]

        def forward(self, image1: Tensor, image2: Tensor) -> Tensor:
            names: dict[str, Any] = {"F": F, "image1": image1, "image2": image2}
            exec(lines, names)
            flow: Tensor = self.model(names["image1"], names["image2"])
            return flow

    frame = {2: Dim.DYNAMIC(min=135, max=2160), 3: Dim.DYNAMIC(min=135, max=3840)}
    example = torch.rand(1, 3, 137, 150)
    dims = {"image1": frame, "image2": frame}
    exported = export(Padded().eval(), (example, example.clone()), dynamic_shapes=dims, strict=False).module()
    for height, width in ((135, 135), (136, 163), (141, 136)):
        frames = torch.rand(1, 3, height, width), torch.rand(1, 3, height, width)
        assert exported(*frames).shape[2:] == ((-(-height // 8) * 8 - 1) // 4 - 1, (-(-width // 8) * 8 - 1) // 4 - 1)
