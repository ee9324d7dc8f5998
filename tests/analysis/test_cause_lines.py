"""The line that a finding names is of the model: the user's and the library's, never one of this package."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, export

import trtdiag
from trtdiag.analysis.finding import Finding
from trtdiag.fixdims.run import fix_dims
from trtdiag.pipeline.analyze import analyze
from trtdiag.report.fix_text import fix_text

OWN = str(Path(trtdiag.__file__).parent)
LIBRARY = """
from torch import nn


class Block(nn.Module):
    def forward(self, x):
        if x.shape[1] > 30:
            x = x[:, -30:]
        return x * 2


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()

    def forward(self, x):
        return self.block(x)
"""


@pytest.fixture
def encoder(tmp_path: Path) -> Iterator[nn.Module]:
    """A model of an installed library."""
    package = tmp_path / "site-packages" / "modelzoo_of_a_test"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(LIBRARY)
    sys.path.insert(0, str(package.parent))
    try:
        yield importlib.import_module(package.name).Encoder()
    finally:
        sys.path.remove(str(package.parent))
        sys.modules.pop(package.name, None)


class Wrapped(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) + 1  # type: ignore[no-any-return]


def _source(module: nn.Module) -> tuple[Any, ...]:
    return module, (torch.randn(2, 7),), {}, {"x": {0: Dim("b", min=1, max=8), 1: Dim("t", min=2, max=128)}}


def _texts(findings: tuple[Finding, ...]) -> str:
    parts = [part for f in findings for part in (f.message, *(f"{e.fact} [{e.source}]" for e in f.evidence))]
    return "\n".join([*parts, *(str(place.frame) for f in findings for place in f.places)])


def test_a_librarys_line_stands_beside_the_users(encoder: nn.Module) -> None:
    report = analyze(_source(Wrapped(encoder)))
    (found,) = [finding for finding in report.findings if finding.rule == "GRD303"]
    frame = found.places[0].frame
    assert frame is not None
    assert (frame.file, frame.code) == (__file__, "return self.inner(x) + 1  # type: ignore[no-any-return]")
    assert frame.inside is not None
    assert frame.inside.short == "modelzoo_of_a_test/__init__.py:7"
    assert frame.inside.short in found.message
    assert ("if x.shape[1] > 30:", str(frame.inside)) in [(e.fact, e.source) for e in found.evidence]
    assert f"in {frame.inside.short}" in " ".join(repr(report).split())


def test_fix_dims_names_both_lines_and_advises_about_the_librarys(encoder: nn.Module) -> None:
    told = fix_text(fix_dims(_source(Wrapped(encoder))), width=120)
    assert "return self.inner(x) + 1" in told
    assert "in modelzoo_of_a_test/__init__.py:7  if x.shape[1] > 30:" in told
    assert "take the branch at" in told


@pytest.mark.slow  # quick: test_a_librarys_line_stands_beside_the_users
def test_a_librarys_model_alone_has_the_librarys_line(encoder: nn.Module) -> None:
    report = analyze(_source(encoder))
    (found,) = [finding for finding in report.findings if finding.rule == "GRD303"]
    frame = found.places[0].frame
    assert frame is not None
    assert frame.short == "modelzoo_of_a_test/__init__.py:7"
    assert frame.inside is None


class Slices(nn.Module):
    def forward(self, x: Tensor, n: Tensor) -> Tensor:
        k = n.max().item()
        torch._check(k >= 0)
        torch._check(k <= x.shape[0])
        return x[:k] * 2


def _data() -> tuple[Any, ...]:
    auto = {0: Dim.AUTO}
    return Slices(), (torch.randn(7), torch.tensor([3, 2])), {}, {"x": auto, "n": auto}


@pytest.mark.slow  # quick: a library's line stands beside the user's
def test_a_saved_program_does_not_blame_what_reads_it(tmp_path: Path) -> None:
    module, args, _, dims = _data()
    torch.export.save(export(module, args, dynamic_shapes=dims), tmp_path / "sliced.pt2")
    report = analyze(tmp_path / "sliced.pt2")
    guards = [constraint for constraint in report.analysis.dims.constraints if len(constraint.symbols) == 2]
    assert guards, "the program keeps no condition on the size from data"
    assert OWN not in _texts(report.findings)
    assert all(frame.package != "trtdiag" for guard in guards for frame in guard.origin.stack.frames)
    assert OWN not in fix_text(fix_dims(tmp_path / "sliced.pt2"))


def test_a_model_of_torchs_own_modules_blames_nobody() -> None:
    split = nn.Sequential(nn.MaxPool2d(2), nn.Flatten(1), nn.Unflatten(1, (4, -1)))
    report = analyze((split, (torch.randn(2, 3, 8, 8),), {}, ({2: Dim("h", min=2, max=64)},)))
    assert [f.rule for f in report.findings if f.rule == "GRD301"]
    assert [place.frame for f in report.findings for place in f.places if place.frame is not None] == []
    assert OWN not in _texts(report.findings)
