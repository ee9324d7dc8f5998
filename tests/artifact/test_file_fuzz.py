"""Compiled files and engine caches that were changed at random: only documented errors come out."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.export import Dim

import trtdiag
from tests.artifact.compiled_mutations import CompiledFile, changed_bytes, changed_value
from tests.random_cases import cases
from trtdiag.engine.saved_engines import SavedEngines
from trtdiag.errors import InternalError, TrtdiagError
from trtdiag.runtime.compiled import CompiledProgram

X = torch.linspace(-2, 2, 35).reshape(7, 5)
ALL = 5_000


@pytest.fixture(scope="module")
def compiled_file(tmp_path_factory: pytest.TempPathFactory) -> CompiledFile:
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3)).requires_grad_(False)
    exported = torch.export.export(model, (torch.randn(3, 5),), dynamic_shapes=({0: Dim("batch", min=1, max=8)},))
    program = trtdiag.compile(exported, backend="reference", portable=True, verify=False)
    program.build_s = None  # what differs from run to run
    path = tmp_path_factory.mktemp("honest") / "a.ep"
    trtdiag.save(program, path)
    return CompiledFile(path.read_bytes())


def _loaded(path: Path, seed: int) -> CompiledProgram | None:
    try:
        return trtdiag.load(path)
    except InternalError:
        raise
    except TrtdiagError:
        return None
    except Exception as error:
        raise AssertionError(f"change {seed} of a file: {type(error).__name__}: {error}") from error


def _try_compiled(file: CompiledFile, seed: int, folder: Path) -> bool:
    """Whether the changed file still loads; a call of what it gives ends well or with one of our errors."""
    path = folder / "a.ep"
    path.write_bytes(file.changed(seed, str(folder / "trap")))
    program = _loaded(path, seed)
    if program is None:
        return False
    try:
        program(X)
    except TrtdiagError:
        return True
    except Exception as error:
        raise AssertionError(f"change {seed} of a file, when called: {type(error).__name__}: {error}") from error
    return True


@pytest.mark.parametrize("seeds", [range(cases(200)), pytest.param(range(ALL), marks=pytest.mark.slow)], ids=len)
def test_a_changed_compiled_file_loads_or_is_refused(compiled_file: CompiledFile, tmp_path: Path, seeds: range) -> None:
    loaded = sum(_try_compiled(compiled_file, seed, tmp_path) for seed in seeds)
    assert 0.1 < loaded / len(seeds) < 0.9  # else most changes would test one thing
    assert not (tmp_path / "trap").exists()


def _entry(saved: SavedEngines, seed: int) -> None:
    """Change the entry of ``this``: its head as JSON, its length, or its bytes."""
    draw = random.Random(seed)
    path = saved._path("this")
    content = path.read_bytes()
    start = content.index(b"\n") + 1
    length = int.from_bytes(content[start : start + 8], "little")
    if draw.random() < 0.6:
        said = changed_value(json.loads(content[start + 8 : start + 8 + length]), draw, "trap")
        head = json.dumps(said).encode("utf-8", "surrogatepass")
        size = len(head) if draw.random() < 0.9 else draw.choice((0, len(head) - 1, 2**20, 2**40, 2**64 - 1))
        made = content[:start] + size.to_bytes(8, "little") + head + content[start + 8 + length :]
    else:
        made = changed_bytes(content, draw)
    path.write_bytes(made)


@pytest.mark.parametrize("seeds", [range(cases(200)), pytest.param(range(ALL), marks=pytest.mark.slow)], ids=len)
def test_a_changed_entry_of_the_engine_cache_is_found_whole_or_not_at_all(tmp_path: Path, seeds: range) -> None:
    saved = SavedEngines(tmp_path, 2**20)
    for seed in seeds:
        assert saved.keep("this", b"engine" * 50, ("a note", "another"))
        _entry(saved, seed)
        found = saved.find("this")
        assert found is None or found[0] == b"engine" * 50, seed
        assert found is None or all(isinstance(note, str) for note in found[1])
    assert saved.keep("this", b"again")
    assert saved.find("this") == (b"again", ())
    assert len(list(tmp_path.iterdir())) == 1
