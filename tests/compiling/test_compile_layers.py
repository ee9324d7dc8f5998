"""When engines are asked for their layers, and what becomes of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

import trtdiag
from tests.compiling.layered_backend import register_layered
from tests.compiling.programs import exported_mlp, mlp
from trtdiag.analysis.compilation import CompilationFacts, EngineFacts
from trtdiag.cli.compile import compile_command
from trtdiag.options import CompileOptions
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.pipeline.state import State
from trtdiag.pipeline.verify import verify_saved
from trtdiag.report.layers_text import slowest_text
from trtdiag.runtime.engine_cache import EngineCache
from trtdiag.runtime.engine_layers import TIMED_RUNS, ToldLayers


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines of equal bytes are loaded once in a process: other tests have some of these."""
    fresh = EngineCache()
    monkeypatch.setattr("trtdiag.runtime.engine_layers.CACHE", fresh)
    monkeypatch.setattr("trtdiag.runtime.execution.CACHE", fresh)


def _compiled(**options: object) -> State:
    return compile_in_stages(exported_mlp(), CompileOptions("11.4", "layered", **options))  # type: ignore[arg-type]


def _facts(found: State) -> CompilationFacts:
    assert found.report.analysis.compilation is not None
    return found.report.analysis.compilation


@pytest.mark.slow  # quick: an engine is not loaded for its layers alone
def test_an_engine_that_was_verified_tells_its_layers_without_a_second_load(monkeypatch: pytest.MonkeyPatch) -> None:
    made = register_layered(monkeypatch)
    (engine,) = _facts(_compiled()).engines
    assert [layer.name for layer in engine.built.layers][-1] == "mul"
    assert {layer.time_ms for layer in engine.built.layers} == {None}
    assert (made.asked, made.loads, engine.built.why) == ([0], 1, "")


def test_an_engine_is_not_loaded_for_its_layers_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    made = register_layered(monkeypatch)
    (engine,) = _facts(_compiled(verify=False)).engines
    assert (made.asked, made.loads) == ([], 0)
    assert "profile_layers" in engine.built.why
    assert not engine.built.layers


@pytest.mark.parametrize("verify", [True, False])
def test_layers_are_timed_where_that_is_asked_for(verify: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    made = register_layered(monkeypatch)
    found = _compiled(verify=verify, profile_layers=True)
    (engine,) = _facts(found).engines
    assert {layer.time_ms for layer in engine.built.layers} == {0.25}
    assert made.asked == [TIMED_RUNS]
    assert [stage.name for stage in found.stages][-1] == "profile"
    assert "Layers as built: " in found.report.to_html()


def test_layers_that_cannot_be_timed_are_told_without_times(monkeypatch: pytest.MonkeyPatch) -> None:
    made = register_layered(monkeypatch, full=True)
    found = _compiled(profile_layers=True)
    (engine,) = _facts(found).engines
    assert made.asked == [TIMED_RUNS, 0]
    assert engine.built.layers
    assert engine.built.why == "they could not be timed: there is no memory: a test"
    assert f"engine 0: no times of its layers: {engine.built.why}" in _printed([engine], 200)
    assert found.verification is not None
    assert found.verification.passed


@pytest.mark.slow  # quick: tests/verification/test_verify_time.py
def test_a_saved_program_tells_them_when_it_is_verified(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = register_layered(monkeypatch)
    path = tmp_path / "mlp.ep"
    trtdiag.save(_compiled(profile_layers=True).compiled, path)
    made.asked.clear()
    facts = verify_saved(path, mlp()).report.analysis.compilation
    assert facts is not None
    assert made.asked == [0]
    assert facts.engines[0].built.layers


@pytest.mark.slow  # quick: layers are timed where that is asked for
def test_the_command_line_asks_for_times(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    asked = ["tests.compiling.programs:mlp", "--profile-layers", "--backend", "reference", "--json", "report.json"]
    result = CliRunner().invoke(compile_command, asked)
    assert result.exit_code == 0, result.output
    text = (tmp_path / "report.json").read_text()
    assert '"name": "profile"' in text
    assert "layers timed, " in result.output
    assert "aten.linear.default" in result.output


@pytest.mark.slow  # quick: layers are timed where that is asked for
def test_the_reference_times_what_computes() -> None:
    (engine,) = _facts(compile_in_stages(mlp(), CompileOptions("11.4", "reference", profile_layers=True))).engines
    assert engine.layers is not None
    assert len(engine.built.layers) == sum(engine.layers.values()) - engine.layers["Constant"]
    assert all(layer.time_ms is not None and layer.time_ms > 0 for layer in engine.built.layers)
    assert {op.op for layer in engine.built.layers for op in layer.ops} >= {"aten.linear.default", "aten.relu.default"}
    (untimed,) = _facts(compile_in_stages(mlp(), CompileOptions("11.4", "reference"))).engines
    assert untimed.built == ToldLayers()


def test_the_slowest_layers_are_printed_with_their_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    register_layered(monkeypatch)
    facts = _facts(_compiled(profile_layers=True))
    (engine,) = facts.engines
    layers = list(engine.built.layers)
    layers[1] = replace(layers[1], time_ms=3.0, ops=layers[1].ops * 5)
    layers[2] = replace(layers[2], time_ms=2.0, ops=())
    facts = replace(engine, built=ToldLayers((*layers, *layers[:1] * 9), "[b]why[/b]"))
    lines = _printed([facts], 400)
    whole = 5.0 + 0.25 * (len(layers) - 2 + 9)
    assert lines[0] == f"{len(layers) + 9} layers timed, {whole:.3f} ms; the slowest are"
    assert lines[1].startswith(f"  3.0000 ms {3 / whole:4.0%}  engine 0: aten.")
    assert lines[1].endswith("; and 2 more ops")
    assert lines[2] == f"  2.0000 ms {2 / whole:4.0%}  engine 0: none (kind)"
    assert sum(line.startswith("  0.2500 ms") for line in lines) == 6
    assert lines[-1] == "engine 0: no times of its layers: [b]why[/b]"
    place = Path(__file__).parent.relative_to(Path.cwd()) / "programs.py"
    assert f" at {place}:" in lines[1], "from the working directory on"
    narrow = _printed([facts], 60)
    assert max(map(len, narrow)) <= 60
    words = "\n".join(narrow).split()
    assert {word for word in "\n".join(lines).split() if "aten." in word} <= set(words), "no name is broken"


def _printed(engines: list[EngineFacts], width: int) -> list[str]:
    console = Console(width=width, record=True)
    console.print(slowest_text(engines))
    return console.export_text().splitlines()
