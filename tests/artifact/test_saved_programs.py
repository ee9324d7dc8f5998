"""A compiled program in a file: what is kept, and that it runs as before."""

from __future__ import annotations

import math
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.export import Dim

import trtdiag
from tests.harness.rows import thinned
from tests.runtime.compiling import compiled
from tests.test_without_tensorrt import WITHOUT_TENSORRT
from trtdiag.artifact.description import options_from_plain, plain_options
from trtdiag.artifact.load import load
from trtdiag.artifact.rebuild import rebuild
from trtdiag.artifact.save import save
from trtdiag.engine.backend import get_backend
from trtdiag.engine.manifest import Manifest
from trtdiag.errors import ArtifactError, PlatformError, UserError
from trtdiag.frontend.archive.summary import EXTRA
from trtdiag.frontend.archive.zip_members import open_container
from trtdiag.options import CompileOptions
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.runtime.engine_nodes import engine_nodes
from trtdiag.targets import get_target

ROOT = Path(__file__).resolve().parent.parent.parent


def _linear() -> tuple[nn.Linear, CompiledProgram]:
    torch.manual_seed(5)
    model = nn.Linear(5, 7).requires_grad_(False)
    return model, compiled(model, (torch.randn(3, 5),), None, ({0: Dim("batch", min=1, max=8)},))


# Quick: the usual suffix, and one that is none.
@thinned("name", ["linear.ep", "linear.pt2", "linear", "lin ear.v1.engine"], every=9)
def test_a_saved_program_runs_as_before(tmp_path: Path, name: str) -> None:
    model, program = _linear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save(program, tmp_path / name)
    found = load(tmp_path / name)
    assert found.manifests == program.manifests
    for batch in (1, 3, 8):
        x = torch.randn(batch, 5)
        assert torch.equal(found(x), program(x))
        torch.testing.assert_close(found(x), model(x))
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.slow  # quick: torch loads a decoder in tests/compiling/test_compile_seeds.py
@pytest.mark.parametrize(
    "imports",
    [
        pytest.param("import torch, trtdiag", marks=pytest.mark.slow),
        "import sys, trtdiag; assert 'torch' not in sys.modules; import torch",
    ],
)
def test_torch_loads_it_in_another_program(tmp_path: Path, imports: str) -> None:
    model, program = _linear()
    save(program, tmp_path / "linear.pt2")
    x = torch.linspace(-1, 1, 35).reshape(7, 5)
    code = f"{WITHOUT_TENSORRT}{imports}\nx = torch.linspace(-1, 1, 35).reshape(7, 5)\n"
    # One interpreter answers for all that an import of both must do.
    code += "torch.ops.trtdiag.execute_engine.default\n"
    code += "from torch._dynamo.backends.registry import lookup_backend\n"
    code += "assert lookup_backend('trtdiag').__module__.startswith('trtdiag.')\n"
    code += f"print(torch.export.load({str(tmp_path / 'linear.pt2')!r}).module()(x).double().sum().item())"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # The same operations on the same machine; the sum is printed in full.
    assert float(done.stdout) == pytest.approx(model(x).double().sum().item(), rel=1e-6)


def test_the_front_door_saves_and_loads(tmp_path: Path) -> None:
    model, program = _linear()
    trtdiag.save(program, tmp_path / "a.ep")
    assert isinstance(trtdiag.load(tmp_path / "a.ep"), trtdiag.CompiledProgram)
    x = torch.randn(2, 5)
    torch.testing.assert_close(trtdiag.load(str(tmp_path / "a.ep"))(x), model(x))


def test_the_description_is_read_without_the_program(tmp_path: Path) -> None:
    _, program = _linear()
    save(program, tmp_path / "a.ep")
    with open_container(tmp_path / "a.ep") as container:
        assert [name for name in container.names if name.startswith(EXTRA)] == ["extra/trtdiag.json"]


def test_networks_are_kept_and_checked(tmp_path: Path) -> None:
    model, program = _linear()
    kept = [bytes(engine.engine.numpy()) for engine in engine_nodes(program.exported_program)]
    save(CompiledProgram(program.exported_program, kept, options=CompileOptions(portable=True)), tmp_path / "a.ep")
    found = load(tmp_path / "a.ep")
    assert list(found.networks) == kept
    save(found, tmp_path / "b.ep")
    assert list(load(tmp_path / "b.ep").networks) == kept
    x = torch.randn(2, 5)
    torch.testing.assert_close(load(tmp_path / "b.ep")(x), model(x))


def test_engines_are_rebuilt_from_networks(tmp_path: Path) -> None:
    model, program = _linear()
    again = rebuild(program, get_backend("reference"), CompileOptions(), get_target("10.16"))
    assert [manifest.target for manifest in again.manifests] == ["10.16"]
    assert [manifest.target for manifest in program.manifests] == ["11.4"]
    assert again.manifests[0].inputs == program.manifests[0].inputs
    save(again, tmp_path / "a.ep")
    x = torch.randn(8, 5)
    torch.testing.assert_close(load(tmp_path / "a.ep")(x), model(x))


def test_an_engine_of_another_machine_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trtdiag.engine import reference

    _, program = _linear()
    save(program, tmp_path / "a.ep")

    def differs(self: object, manifest: Manifest) -> tuple[str, ...]:
        return ("it was built by TensorRT 8.6.1, and this is 10.16.0",)

    monkeypatch.setattr(reference._Reference, "differences", differs)
    with pytest.raises(ArtifactError, match=r"8\.6\.1, and this is 10\.16\.0") as caught:
        load(tmp_path / "a.ep")
    assert caught.value.reference == "engine-differs"


def test_a_missing_backend_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trtdiag.engine import backend

    _, program = _linear()
    save(program, tmp_path / "a.ep")
    monkeypatch.setitem(backend._HOMES, "reference", "trtdiag.engine.nowhere.backend")
    with pytest.raises(PlatformError, match=r"a\.ep cannot run here"):
        load(tmp_path / "a.ep")


def test_a_file_tells_nobody_where_to_write() -> None:
    places = {name: f"/somewhere/{name}" for name in ("engine_cache", "timing_cache", "runtime_cache")}
    options = CompileOptions(**places, build_jobs=3)
    plain = plain_options(options)
    assert "/somewhere" not in str(plain)
    assert options_from_plain(plain) == CompileOptions(build_jobs=3)
    crafted = {**plain, **dict.fromkeys(places, "/home/reader/.profile")}
    assert options_from_plain(crafted) == CompileOptions(build_jobs=3)


def test_the_model_is_not_written_over_and_a_loaded_program_may_take_its_own_place(tmp_path: Path) -> None:
    model = nn.Linear(5, 7).requires_grad_(False)
    original, place = tmp_path / "model.pt2", tmp_path / "model.ep"
    torch.export.save(torch.export.export(model, (torch.randn(3, 5),)), original)
    before = original.read_bytes()
    with pytest.raises(UserError, match="timing_cache names the source itself") as caught:
        trtdiag.compile(original, backend="reference", timing_cache=str(original))
    assert caught.value.reference == "same-file"
    with pytest.raises(UserError, match="runtime_cache names the source itself"):
        trtdiag.compile(original, backend="reference", runtime_cache=str(original))
    program = trtdiag.compile(original, backend="reference", verify=False, min_segment_ops=0)
    (tmp_path / "hard.ep").hardlink_to(original)
    for same in (original, tmp_path / "hard.ep"):
        with pytest.raises(UserError, match="path names the model it was compiled from itself"):
            save(program, same)
        assert original.read_bytes() == before
    save(program, place)
    found = load(place)
    save(found, place)
    x = torch.randn(3, 5)
    assert torch.equal(load(place)(x), found(x))


class Rounds(nn.Module):
    """Sizes that Python rounds: torch.export.save has no floor, ceil and round of a float."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor | int, ...]:
        n = x.shape[0]
        pieces = (x[: math.floor(n * 0.7)], x[math.floor(-0.3 * n) :], x[: math.ceil(n * 0.3)], x[: round(n * 0.35)])
        return *pieces, round(n * 0.5)


def test_sizes_that_python_rounds_are_saved_as_truncations(tmp_path: Path) -> None:
    model = Rounds()
    program = compiled(model, (torch.arange(24.0),), None, ({0: Dim.DYNAMIC(min=6, max=64)},))
    save(program, tmp_path / "rounds.pt2")
    for found in (load(tmp_path / "rounds.pt2"), torch.export.load(tmp_path / "rounds.pt2").module()):
        for size in range(6, 65):  # halves of odd sizes go to the even number
            x = torch.arange(float(size))
            *pieces, half = found(x)
            *expected, number = model(x)
            assert half == number
            assert all(map(torch.equal, pieces, expected))
