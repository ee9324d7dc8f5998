"""Programs with several profiles, from the source to calls, files and rebuilt engines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

import trtdiag
from trtdiag.report.json_report import SCHEMA_PATH
from trtdiag.targets import installed_version

ASKED = {"decode": {"t": 1}, "prefill": {"t": (3, 24)}}


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.first, self.last = nn.Linear(16, 16), nn.Linear(16, 7)

    def forward(self, x: Tensor) -> Tensor:
        found = torch.relu(self.first(x))
        return self.last(torch.softmax(found @ found.transpose(1, 2), -1) @ found)


def source() -> tuple[Any, ...]:
    """``x`` is [b, t, 16] with b in 1..3 and t in 1..32."""
    shapes = {"x": {0: Dim("b", min=1, max=3), 1: Dim("t", min=1, max=32)}}
    return Mixed().eval(), (torch.randn(2, 9, 16),), {}, shapes


@pytest.fixture(scope="module")
def compiled() -> trtdiag.CompiledProgram:
    return trtdiag.compile(source, backend="reference", profiles=ASKED, portable=True)


def test_each_profile_is_compared_at_its_corners(compiled: trtdiag.CompiledProgram) -> None:
    facts = compiled.report.analysis.compilation
    assert facts is not None
    assert facts.verification is not None
    assert facts.verification.passed
    points = [result.point for result in facts.verification.results]
    assert {point.label.partition(":")[0] for point in points} == {"decode", "prefill"}
    sizes = {tuple(sorted(point.sizes.values())) for point in points}
    assert {(1, 1), (1, 3), (3, 24), (1, 24)} <= sizes
    assert any("t = 2" in note and "25..32" in note for note in compiled.report.analysis.program.notes)


@pytest.mark.slow  # quick: each profile is compared at its corners
def test_saved_and_rebuilt_programs_keep_them(compiled: trtdiag.CompiledProgram, tmp_path: Path) -> None:
    place = tmp_path / "mixed.pt2"
    trtdiag.save(compiled, place)
    loaded = trtdiag.load(place)
    assert loaded.options == compiled.options
    assert trtdiag.verify(loaded, source).passed
    for made in (loaded, trtdiag.rebuild(loaded, backend="reference")):
        assert [own.name for own in made.manifests[0].profiles] == ["decode", "prefill"]
        for rows, tokens in ((3, 1), (1, 3), (2, 24)):
            x = torch.randn(rows, tokens, 16)
            for _ in range(2):  # the second call goes the short way
                torch.testing.assert_close(made(x), Mixed()(x), rtol=1e-5, atol=1e-5)
        for tokens in (2, 25):
            with pytest.raises(trtdiag.ShapeOutOfRangeError, match="'x'"):
                made(torch.randn(2, tokens, 16))


def test_an_original_without_the_names_of_the_profiles_is_told(
    compiled: trtdiag.CompiledProgram, tmp_path: Path
) -> None:
    module, args, kwargs, dims = source()
    torch.export.save(torch.export.export(module, args, kwargs, dynamic_shapes=dims), tmp_path / "net.pt2")
    with pytest.raises(trtdiag.DimsError, match="other names of dims") as caught:
        trtdiag.verify(compiled, tmp_path / "net.pt2")
    assert "'t'" in caught.value.because
    assert "--model package.module:factory" in caught.value.fix


def test_the_json_report_has_each_profile(compiled: trtdiag.CompiledProgram) -> None:
    found = json.loads(compiled.report.to_json())
    (engine,) = found["compiled"]["engines"]
    spans = {own["name"]: [[dim["min"], dim["max"]] for dim in own["sizes"][0]] for own in engine["profiles"]}
    assert spans == {"decode": [[1, 3], [1, 1], [16, 16]], "prefill": [[1, 3], [3, 24], [16, 16]]}
    assert [dim["max"] for dim in engine["inputs"][0]["profile"]] == [3, 24, 16], "the span of all"
    jsonschema.validate(found, json.loads(SCHEMA_PATH.read_text(encoding="utf-8")))


def test_an_engine_without_these_dims_has_one_profile() -> None:
    def fixed() -> tuple[Any, ...]:
        return Mixed().eval(), (torch.randn(2, 9, 16),)

    made = trtdiag.compile(fixed, backend="reference", profiles={"a": {"x.shape[1]": 9}}, verify=False)
    assert made.manifests[0].profiles == ()


@pytest.mark.gpu
@pytest.mark.skipif(installed_version() is None or not torch.cuda.is_available(), reason="needs TensorRT and a GPU")
@pytest.mark.parametrize("graphs", [0, 2])
def test_profiles_on_a_gpu(graphs: int) -> None:
    made = trtdiag.compile(source, backend="tensorrt", profiles=ASKED, cuda_graphs=graphs)
    model = Mixed().cuda()
    for rows, tokens in [(3, 1), (1, 3), (2, 24), (2, 24), (1, 1), (3, 1)] * 3:
        x = torch.randn(rows, tokens, 16, device="cuda")
        torch.testing.assert_close(made(x), model(x), rtol=1e-3, atol=1e-3)
    with pytest.raises(trtdiag.ShapeOutOfRangeError, match="'x'"):
        made(torch.randn(2, 2, 16, device="cuda"))
