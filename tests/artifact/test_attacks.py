"""Compiled files that somebody made to harm: nothing runs, nothing outside is touched, and no engine is looked into."""

from __future__ import annotations

import json
import logging
import os
import pickle
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

import trtdiag
from tests.artifact.compiled_mutations import CompiledFile
from tests.frontend.archive_samples import torch_saved
from tests.harness.forked_runs import run_forked
from trtdiag.errors import TrtdiagError

ROOT = Path(__file__).resolve().parent.parent.parent
AUDITED = "import runpy; runpy.run_module('tests.artifact.audited_reading', run_name='__main__')"


@pytest.fixture(scope="module")
def compiled_file(tmp_path_factory: pytest.TempPathFactory) -> CompiledFile:
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3)).requires_grad_(False)
    exported = torch.export.export(model, (torch.randn(3, 5),), dynamic_shapes=({0: Dim("batch", min=1, max=8)},))
    path = tmp_path_factory.mktemp("honest") / "a.ep"
    program = trtdiag.compile(exported, backend="reference", portable=True, verify=False)
    program.build_s = None  # what differs from run to run
    trtdiag.save(program, path)
    return CompiledFile(path.read_bytes())


class Payload:
    """Makes a directory when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = str(marker)

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (self.marker,)


def _codes(trap: Path) -> tuple[str, ...]:
    return (
        f"__import__('os').mkdir('{trap}')",
        f"exec(\"__import__('os').mkdir('{trap}')\")",
        f"(lambda: __import__('os').mkdir('{trap}'))()",
        f"[x for x in (1,)][__import__('os').mkdir('{trap}')]",
        "os:mkdir",
        "os.mkdir",
        f"../../..{trap}",
        f"file://{trap}",
        "cpu; import evil_module_trap",
        "evil_module_trap",
    )


def _at_every_text(value: Any, text: str) -> Iterator[Any]:
    """Copies of a JSON value, each with one of its texts replaced, or a key."""
    if isinstance(value, str):
        yield text
    elif isinstance(value, list):
        for index, child in enumerate(value):
            for changed in _at_every_text(child, text):
                yield [*value[:index], changed, *value[index + 1 :]]
    elif isinstance(value, dict):
        for key, child in value.items():
            for changed in _at_every_text(child, text):
                yield {**value, key: changed}
            yield {**{k: v for k, v in value.items() if k != key}, text: child}


def _attacks(file: CompiledFile, trap: Path) -> Iterator[tuple[str, bytes]]:
    """Every file by a name of what is wrong with it."""
    codes = _codes(trap)
    manifest, description = json.loads(file.manifest), json.loads(file.members[file.description])
    for index, changed in enumerate(_at_every_text(manifest, codes[0])):
        yield f"manifest-{index}", file.with_parts(manifest=changed)
    for index, changed in enumerate(_at_every_text(description, codes[0])):
        yield f"description-{index}", file.with_parts(description=changed)
    for index, code in enumerate(codes):
        for field in ("backend", "device", "target", "tensorrt", "gpu"):
            yield f"{field}-{index}", file.with_parts(manifest={**manifest, field: code})
        ports = [{**manifest["inputs"][0], "dims": [code, "5"], "dtype": "float32"}]
        yield f"dims-{index}", file.with_parts(manifest={**manifest, "inputs": ports})
        yield f"conditions-{index}", file.with_parts(manifest={**manifest, "conditions": [code]})
        yield f"counts-{index}", file.with_parts(manifest={**manifest, "counts": {"u0": code}})
        yield f"source-{index}", file.with_parts(description={**description, "source": code})
        yield f"text-{index}", file.with_parts(manifest=code)
    engines = {
        "pickle": pickle.dumps(Payload(trap)),
        "torch-save": torch_saved(Payload(trap)),
        "elf": b"\x7fELF" + bytes(4000),
        "script": b"#!/bin/sh\nmkdir " + str(trap).encode(),
        "empty": b"",
    }
    for name, engine in engines.items():
        yield f"engine-{name}", file.with_parts(engine=engine)
        yield f"network-{name}", file.with_parts(kept=engine)
        tensorrt = {**manifest, "backend": "tensorrt", "device": "cpu"}
        yield f"tensorrt-{name}", file.with_parts(manifest=tensorrt, engine=engine)


def _read(folder: Path, files: dict[str, bytes]) -> dict[str, dict[str, Any]]:
    """What became of files that are read with all that happened being noted."""
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / f"{name}.pt2").write_bytes(content)
    # The hook that notes what happens stays until its process ends.
    done = run_forked(AUDITED, str(folder), cwd=ROOT, limit_s=500)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    assert set(found) == {f"{name}.pt2" for name in files}
    return found


def _harmless(found: dict[str, dict[str, Any]], trap: Path) -> None:
    assert not trap.exists()
    assert {name: one["events"] for name, one in found.items() if one["events"]} == {}
    # No engine is looked into before it is called.
    assert {name for name, one in found.items() if one["read"]} == set()
    honest = found["honest.pt2"]
    assert (honest["trtdiag"], honest["torch"], honest["calls"]) == ("ok", "ok", ["ok", "ok"])


def _some(attacks: dict[str, bytes], number: int) -> dict[str, bytes]:
    """Of each kind the same share: every so many of them."""
    names = list(attacks)
    return {name: attacks[name] for name in names[:: max(1, len(names) // number)]}


@pytest.mark.parametrize("number", [5, pytest.param(10_000, marks=pytest.mark.slow)])
def test_planted_code_is_not_run(compiled_file: CompiledFile, tmp_path: Path, number: int) -> None:
    trap = tmp_path / "trap"
    attacks = _some(dict(_attacks(compiled_file, trap)), number)
    found = _read(tmp_path / "files", {**attacks, "honest": compiled_file.content})
    _harmless(found, trap)
    for name, one in found.items():
        for outcome in one["calls"]:
            # What runs at all runs as it did, or is refused by us: no error of another kind comes from an engine.
            assert outcome == "ok" or "-" in outcome, (name, one)


@pytest.mark.slow
def test_files_that_were_changed_at_random_run_nothing(compiled_file: CompiledFile, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    files = {f"changed-{seed}": compiled_file.changed(seed, str(trap)) for seed in range(50_000, 50_300)}
    _harmless(_read(tmp_path / "files", {**files, "honest": compiled_file.content}), trap)


def test_a_pickle_is_run_by_torch_alone(compiled_file: CompiledFile, tmp_path: Path) -> None:
    """What torch.export.load itself unpickles is not ours to stop; ``trtdiag.load`` runs nothing of such a file."""
    trap = tmp_path / "trap"
    (inputs,) = [name for name in compiled_file.members if name.endswith("sample_inputs/model.pt")]
    (tmp_path / "a.pt2").write_bytes(compiled_file.with_members({inputs: torch_saved(Payload(trap))}))
    with suppress(TrtdiagError):
        trtdiag.load(tmp_path / "a.pt2")
    with suppress(TrtdiagError):
        trtdiag.verify(tmp_path / "a.pt2")
    assert not trap.exists()
    logging.disable(logging.CRITICAL)  # torch tells of what it unpickles, with a format that does not fit
    try:
        with suppress(AssertionError):  # at what the pickle gave; by then it has run
            torch.export.load(tmp_path / "a.pt2")
    finally:
        logging.disable(logging.NOTSET)
    assert trap.exists()  # so the file was a real one


@pytest.mark.parametrize("source", ["os:getcwd", "/dev/zero", "/proc/self/mem", "{fifo}", "{folder}", "\0", ""])
def test_the_original_that_a_file_names_is_a_file_or_nothing(
    compiled_file: CompiledFile, tmp_path: Path, source: str
) -> None:
    os.mkfifo(tmp_path / "fifo")
    source = source.format(fifo=tmp_path / "fifo", folder=tmp_path)
    description = json.loads(compiled_file.members[compiled_file.description])
    (tmp_path / "a.ep").write_bytes(compiled_file.with_parts(description={**description, "source": source}))
    with pytest.raises(TrtdiagError):
        trtdiag.verify(tmp_path / "a.ep")
