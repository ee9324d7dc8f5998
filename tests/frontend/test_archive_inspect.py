"""What a file says about itself, without torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.frontend.archive_samples import (
    PROGRAM,
    PROGRAMS,
    branches,
    changed,
    convolutions,
    members,
    saved,
    with_program,
)
from tests.harness.rows import thinned
from trtdiag.frontend.archive.read import inspect_archive, read_archive


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(convolutions(), tmp_path_factory.mktemp("saved") / "model.pt2")


def test_facts_of_a_plain_file(path: Path) -> None:
    summary = inspect_archive(path)
    assert summary.path == str(path)
    assert summary.size_bytes == path.stat().st_size
    assert (summary.layout, summary.archive_version, summary.models, summary.model) == ("pt2", "0", ("model",), "model")
    assert summary.torch_version == torch.__version__
    assert summary.schema_version == tuple(torch._export.serde.schema.SCHEMA_VERSION)
    assert summary.custom_namespaces == ()
    assert not summary.has_compiled_code


def test_custom_ops_inside_inner_graphs(tmp_path: Path) -> None:
    source = saved(branches(), tmp_path / "m.pt2")

    def change(program: dict[str, Any]) -> None:
        for node in program["graph_module"]["graph"]["nodes"]:
            for argument in node["inputs"]:
                if "as_graph" in argument["arg"]:
                    argument["arg"]["as_graph"]["graph"]["nodes"][0]["target"] = "torch.ops.mine.op.default"

    assert inspect_archive(with_program(source, tmp_path / "c.pt2", change)).custom_namespaces == ("mine",)


# Quick: the ends; all of them are read whole in test_archive_round_trip.py.
@thinned("name", PROGRAMS, every=9)
def test_reading_gives_the_same_summary(name: str, tmp_path: Path) -> None:
    path = saved(PROGRAMS[name](), tmp_path / "m.pt2")
    assert inspect_archive(path) == read_archive(path).summary


@pytest.mark.parametrize("value", [None, 3, "text", [], {}, [1], {"a": 1}])
@pytest.mark.parametrize("field", ["graph_module", "torch_version", "schema_version"])
def test_a_field_of_the_wrong_type_counts_as_absent(field: str, value: object, path: Path, tmp_path: Path) -> None:
    program = json.loads(members(path)[PROGRAM])
    program[field] = value
    summary = inspect_archive(changed(path, tmp_path / "odd.pt2", {PROGRAM: json.dumps(program).encode()}))
    assert summary.model == "model"


def test_inspection_needs_no_torch(path: Path) -> None:
    """A file can be looked at before torch is imported, which alone takes seconds."""
    code = (
        "import sys; from trtdiag.frontend.archive.summary import inspect_archive;"
        f"print(inspect_archive({str(path)!r}).model, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["model", "False"]
