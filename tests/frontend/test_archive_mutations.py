"""Saved programs changed at random, all the way through the analysis: a report or a documented error, nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import trtdiag
from tests.frontend.archive_mutations import SOURCES, Sample, mutated, numbers, sample
from tests.frontend.archive_samples import members, saved, write
from tests.random_cases import cases
from trtdiag.errors import InternalError, UserError
from trtdiag.frontend.archive.read import read_archive


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Sample]:
    folder = tmp_path_factory.mktemp("honest")
    return {name: sample(make(), folder / f"{name}.pt2") for name, make in SOURCES.items()}


def _outcome(use: Callable[[Path], object], path: Path) -> str:
    """How it ended; what is no error of ours, or says that we are at fault, goes on."""
    try:
        use(path)
    except InternalError:
        raise
    except UserError as error:
        return error.reference
    return "read"


def _compile(path: Path) -> None:
    trtdiag.compile(path, backend="reference", force=True)


def _run(samples: Mapping[str, Sample], seeds: range, path: Path, analyzed: int) -> set[str]:
    """How the programs of ``seeds`` ended: each is read, each ``analyzed``-th analyzed, and of these few compiled."""
    ended: set[str] = set()
    for seed in seeds:
        told = mutated(samples, seed, path)
        use = read_archive if seed % analyzed else _compile if seed % (20 * analyzed) == 0 else trtdiag.analyze
        try:
            ended.add(_outcome(use, path))
        except Exception as error:
            raise AssertionError(f"seed {seed}, {told}: {type(error).__name__}: {error}") from error
    return ended


@pytest.mark.slow  # the quick run damages archives in test_archive_damage.py
def test_mutations(samples: dict[str, Sample], tmp_path: Path) -> None:
    ended = _run(samples, range(cases(300)), tmp_path / "m.pt2", 5)
    # The changes reach what they are for: readers of members, schema, torch's builder, and the analysis.
    assert {"read", "corrupt-program", "load-failed", "corrupt-member"} <= ended


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 6000, 500))
def test_many_mutations(first: int, samples: dict[str, Sample], tmp_path: Path) -> None:
    _run(samples, range(first, first + 500), tmp_path / "m.pt2", 1)


def test_programs_whose_sizes_lost_their_ranges_are_lowered(tmp_path: Path) -> None:
    """Torch ended in "vr must not be None" where ops of such a size were lowered."""
    content = members(saved(numbers(), tmp_path / "whole.pt2"))
    program = json.loads(content["models/model.json"])
    assert len(program["range_constraints"]) == 3
    program["range_constraints"] = {}
    path = write(tmp_path / "m.pt2", {**content, "models/model.json": json.dumps(program).encode()})
    assert _outcome(_compile, path) == "read"
    assert trtdiag.analyze(path).analysis.symbols is not None
