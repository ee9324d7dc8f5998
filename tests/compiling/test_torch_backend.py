"""``torch.compile(model, backend="trtdiag")`` with the whole pipeline."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import trtdiag.torch_backend
from tests.engine.standin_builder import register
from tests.runtime.agreeing import assert_agrees
from trtdiag.engine import reused_builder_process
from trtdiag.errors import UserError
from trtdiag.runtime.compiled import CompiledProgram

ROOT = Path(__file__).resolve().parent.parent.parent


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(5, 7)
        self.second = nn.Linear(7, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.relu(self.first(x))) + x


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[CompiledProgram]]:
    """The programs that the backend compiles."""
    seen: list[CompiledProgram] = []
    real = trtdiag.torch_backend.compile

    def spy(*args: object, **kwargs: object) -> CompiledProgram:
        seen.append(real(*args, **kwargs))  # type: ignore[arg-type]
        return seen[-1]

    monkeypatch.setattr(trtdiag.torch_backend, "compile", spy)
    return seen  # type: ignore[return-value]


# Quick: sizes that change; fixed ones are a case of theirs.
@pytest.mark.parametrize("dynamic", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_model_is_one_engine(made: list[CompiledProgram], *, dynamic: bool) -> None:
    model = Small()
    fast = torch.compile(model, backend="trtdiag", dynamic=dynamic, fullgraph=True)
    for batch in (3, 8, 31):
        assert_agrees(fast, model, torch.randn(batch, 5))
    assert [len(program.manifests) for program in made] == ([1] if dynamic else [1, 1, 1])


@torch.no_grad()
def test_layers_that_share_a_graph_keep_their_own_weights(made: list[CompiledProgram]) -> None:
    """torch.compile has one graph for layers of one class, and hands over the weights of the layer that it calls."""
    layers = [Small() for _ in range(3)]
    x = torch.randn(4, 5)
    fast = [torch.compile(layer, backend="trtdiag") for layer in layers]
    for _ in range(2):
        for layer, one in zip(layers, fast, strict=True):
            torch.testing.assert_close(one(x), layer(x))
    assert len(made) == 3
    layers[1].first.weight = nn.Parameter(torch.randn(7, 5))
    torch.testing.assert_close(fast[1](x), layers[1](x))
    torch.testing.assert_close(fast[0](x), layers[0](x))


class Masked(nn.Module):
    """Writes into what a dropout gives, as speech encoders do: in evaluation that is its input itself."""

    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.1)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        hidden = x * 2
        kept = self.drop(hidden)
        kept[~mask] = 0
        return kept + hidden


@torch.no_grad()
def test_what_a_dropout_gives_is_written_in_place() -> None:
    model, x, mask = Masked().eval(), torch.randn(4, 3), torch.tensor([True, False, True, True])
    torch.testing.assert_close(torch.compile(model, backend="trtdiag")(x, mask), model(x, mask))
    exported = torch.export.export(model, (x, mask))
    torch.testing.assert_close(trtdiag.compile(exported, backend="reference")(x, mask), model(x, mask))


class Chunked(nn.Module):
    """Looks by strides at what lies in memory in another order than that of its dims, as Longformer does."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(6):  # enough for an engine
            x = torch.relu(self.linear(x)) + x
        chunks = x.transpose(0, 1).reshape(8, 2, 2, 8)
        return chunks.as_strided((8, 3, 2, 8), (8, 64, 64, 1)) + 1


@torch.no_grad()
def test_strides_of_another_order_in_memory_are_kept() -> None:
    model, x = Chunked().eval(), torch.randn(4, 8, 8)
    torch.testing.assert_close(torch.compile(model, backend="trtdiag")(x), model(x))


def test_options_are_those_of_compile(made: list[CompiledProgram]) -> None:
    model = Small()
    options = {"keep_in_torch": ("aten.relu",), "min_segment_ops": 1}
    fast = torch.compile(model, backend="trtdiag", options=options)
    assert_agrees(fast, model, torch.randn(3, 5))
    assert len(made[0].manifests) == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="builds are in this process there")
def test_the_graphs_of_a_model_are_built_by_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def model(x: Tensor) -> Tensor:
        y = x.sin() * 2
        torch._dynamo.graph_break()
        return y.cos() + x

    started = register(monkeypatch, {})
    fast = torch.compile(model, backend="trtdiag", options={"backend": "standin", "min_segment_ops": 1})
    assert_agrees(fast, model, torch.randn(3, 4))
    assert len(started) == 1
    reused_builder_process._end_all()
    assert started[0].returncode is not None


def test_a_wrong_option_is_named() -> None:
    fast = torch.compile(Small(), backend="trtdiag", options={"precission": "fp16"})
    with torch.no_grad(), pytest.raises(Exception, match="precission"):
        fast(torch.randn(3, 5))


def test_what_no_engine_takes_runs_in_pytorch(made: list[CompiledProgram]) -> None:
    class Drops(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.nonzero(x)

    model = Drops()
    fast = torch.compile(model, backend="trtdiag", dynamic=False)
    assert_agrees(fast, model, torch.ones(3, 5))
    assert all(not program.manifests for program in made)


@pytest.mark.slow  # quick: test_a_model_is_one_engine
def test_a_forward_pass_under_grad_mode_is_in_one_engine(made: list[CompiledProgram]) -> None:
    model, x = Small(), torch.randn(3, 5)
    fast = torch.compile(model, backend="trtdiag")
    with pytest.warns(UserWarning, match="forward passes only"):
        got = fast(x)
    torch.testing.assert_close(got, model(x))
    assert [len(program.manifests) for program in made] == [1]
    with pytest.raises(UserError, match="does not train"):
        got.sum().backward()


def test_the_entry_point_leads_to_the_backend() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    _, _, below = text.partition("[project.entry-points.torch_dynamo_backends]\n")
    name, _, home = below.partition("\n")[0].partition(" = ")
    assert name == "trtdiag"
    assert EntryPoint(name, home.strip('"'), "torch_dynamo_backends").load() is trtdiag.torch_backend.compile_graph


# Two threads at once: torch itself registers what it looks up first, and then refuses the second.
LOOK = """
import importlib.metadata, threading
from torch._dynamo.backends.registry import lookup_backend
load, both, failed = importlib.metadata.EntryPoint.load, threading.Barrier(2, timeout=60), []
def at_once(self):
    if self.name == "trtdiag":
        both.wait()
    return load(self)
importlib.metadata.EntryPoint.load = at_once
def look():
    try:
        lookup_backend("trtdiag")
    except BaseException as error:
        failed.append(error)
threads = [threading.Thread(target=look) for _ in range(2)]
for each in threads: each.start()
for each in threads: each.join()
print(failed, lookup_backend("trtdiag").__module__)
"""


def _ended(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "imports",
    [  # slow: each imports torch again, and test_saved_programs.py has the first order in the quick run
        pytest.param("import trtdiag, torch", marks=pytest.mark.slow),
        pytest.param("import torch, trtdiag", marks=pytest.mark.slow),
        pytest.param("import torch._dynamo, trtdiag", marks=pytest.mark.slow),
    ],
)
def test_threads_find_it_by_name_after_import_trtdiag(imports: str) -> None:
    done = _ended(f"{imports}\n{LOOK}")
    assert done.stdout.split() == ["[]", "trtdiag.graph.dynamo_registry"], done.stdout + done.stderr


@pytest.mark.slow
def test_is_found_by_its_entry_point_alone() -> None:
    """An installed package that nobody imported: torch looks for entry points, and imports it in the middle of that."""
    done = _ended("""
import importlib.metadata, torch
every = importlib.metadata.entry_points
ours = importlib.metadata.EntryPoint("trtdiag", "trtdiag.torch_backend:compile_graph", "torch_dynamo_backends")
importlib.metadata.entry_points = lambda **asked: (
    importlib.metadata.EntryPoints([ours]) if asked.get("group") == ours.group else every(**asked)
)
model, x = torch.nn.ReLU(), torch.randn(3, 5)
with torch.no_grad():
    print(torch.equal(torch.compile(model, backend="trtdiag")(x), model(x)))
""")
    assert done.stdout.strip() == "True", done.stderr


def test_modes_of_torchs_own_compiler_are_refused_by_name() -> None:
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="mode='max-autotune' of torch"):
        torch.compile(Small(), backend="trtdiag", mode="max-autotune")(torch.ones(2, 5))
