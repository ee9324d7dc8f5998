"""A program that is read safely is the program that torch.export.load gives."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from tests.frontend.archive_samples import (
    INPUTS,
    PROGRAMS,
    changed,
    loaded_by_torch,
    members,
    of_a_class,
    saved,
    torch_saved,
    with_program,
)
from tests.harness.logged import Logged
from tests.harness.rows import thinned
from trtdiag.frontend.archive.read import read_archive


@pytest.fixture(scope="module", params=PROGRAMS)
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(PROGRAMS[request.param](), tmp_path_factory.mktemp("saved") / f"{request.param}.pt2")


# For what asks little of what is in the file: shared weights, and graphs inside the graph.
SOME = pytest.mark.parametrize(
    "path",
    [pytest.param(name, marks=() if name in ("shared", "branches") else pytest.mark.slow) for name in PROGRAMS],
    indirect=True,
)


def _same_tensors(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    assert list(ours) == list(theirs)
    for name, tensor in ours.items():
        other = theirs[name]
        assert type(tensor) is type(other)
        assert (tensor.dtype, tensor.shape, tensor.stride()) == (other.dtype, other.shape, other.stride())
        assert tensor.storage_offset() == other.storage_offset()
        assert tensor.requires_grad == other.requires_grad
        assert torch.equal(tensor, other)


def _storages(tensors: dict[str, Any]) -> dict[int, list[str]]:
    groups: dict[int, list[str]] = {}
    for name, tensor in tensors.items():
        groups.setdefault(tensor.untyped_storage().data_ptr(), []).append(name)
    return groups


def _assert_same(ours: ExportedProgram, theirs: ExportedProgram) -> None:
    assert str(ours) == str(theirs)
    assert ours.graph_signature == theirs.graph_signature
    assert ours.range_constraints == theirs.range_constraints
    assert ours._guards_code == theirs._guards_code
    assert ours.module_call_graph == theirs.module_call_graph
    assert ours.verifiers == theirs.verifiers
    assert ours.graph_module.meta == theirs.graph_module.meta
    for node, other in zip(ours.graph.nodes, theirs.graph.nodes, strict=True):
        assert (node.op, node.name, node.target) == (other.op, other.name, other.target)
        assert node.meta.keys() == other.meta.keys()
        assert node.meta.get("stack_trace") == other.meta.get("stack_trace")
        assert node.meta.get("nn_module_stack") == other.meta.get("nn_module_stack")
        assert str(node.meta.get("val")) == str(other.meta.get("val"))
    _same_tensors(ours.state_dict, theirs.state_dict)
    _same_tensors(ours.constants, theirs.constants)
    assert sorted(_storages(ours.state_dict).values()) == sorted(_storages(theirs.state_dict).values())


def test_equal_to_torch_export_load(path: Path) -> None:
    ours, theirs = read_archive(path).exported, loaded_by_torch(path)
    _assert_same(ours, theirs)
    leaves, spec = pytree.tree_flatten(ours.example_inputs)
    other_leaves, other_spec = pytree.tree_flatten(theirs.example_inputs)
    assert spec == other_spec
    for leaf, other in zip(leaves, other_leaves, strict=True):
        assert torch.equal(leaf, other) if isinstance(leaf, torch.Tensor) else leaf == other


def test_a_program_whose_example_inputs_need_a_class(tmp_path: Path) -> None:
    path = saved(of_a_class(), tmp_path / "class.pt2")
    result = read_archive(path)
    _assert_same(result.exported, loaded_by_torch(path))
    assert result.exported.example_inputs is None
    assert result.notes == (
        "example inputs were left out: they contain tests.frontend.archive_samples.Pair, and are not unpickled",
    )


def test_computes_the_same(path: Path) -> None:
    ours, theirs = read_archive(path).exported, loaded_by_torch(path)
    args, kwargs = theirs.example_inputs
    for one, other in zip(
        pytree.tree_leaves(ours.module()(*args, **kwargs)),
        pytree.tree_leaves(theirs.module()(*args, **kwargs)),
        strict=True,
    ):
        assert torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other


def test_no_notes_on_a_plain_file(path: Path) -> None:
    assert read_archive(path).notes == ()


@pytest.mark.slow  # quick: test_compressed_again_by_a_tool
@SOME
def test_can_be_saved_again(path: Path, tmp_path: Path) -> None:
    again = saved(read_archive(path).exported, tmp_path / "again.pt2")
    _assert_same(read_archive(again).exported, loaded_by_torch(path))


def test_any_suffix_and_no_warning(
    path: Path, tmp_path: Path, recwarn: pytest.WarningsRecorder, logged: Logged
) -> None:
    other = tmp_path / "model.ep"
    other.write_bytes(path.read_bytes())
    assert read_archive(other).summary.path == str(other)
    assert not recwarn.list
    assert not logged.records


def test_progress_ends_at_all_bytes(path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    read_archive(path, progress=lambda member, done, total: seen.append((member, done, total)))
    stored = [name for name in members(path) if name.startswith(("data/weights/weight", "data/constants/tensor"))]
    assert {member for member, _, _ in seen} == {name for name in stored if members(path)[name]}
    assert all(0 < done <= total for _, done, total in seen)


@SOME
def test_compressed_again_by_a_tool(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "packed.pt2"
    with zipfile.ZipFile(other, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members(path).items():
            archive.writestr(f"archive/{name}", content)
    _assert_same(read_archive(other).exported, loaded_by_torch(path))


@pytest.mark.parametrize("content", [b"", None])
@SOME
def test_without_example_inputs(path: Path, tmp_path: Path, content: bytes | None) -> None:
    result = read_archive(changed(path, tmp_path / "none.pt2", {INPUTS: content}))
    assert result.exported.example_inputs is None
    assert result.notes == ()


# Quick: the ends.
@thinned("inputs", [torch.ones(3), {"x": torch.ones(3)}, (1, 2), ((), {}, 3)], every=3)
@SOME
def test_example_inputs_of_another_form_are_left_out(path: Path, tmp_path: Path, inputs: object) -> None:
    result = read_archive(changed(path, tmp_path / "odd.pt2", {INPUTS: torch_saved(inputs)}))
    assert result.exported.example_inputs is None
    assert result.notes == ("example inputs were left out: they are no pair of arguments and keyword arguments",)


def test_weights_of_a_missing_device_are_read_on_the_cpu(path: Path, tmp_path: Path) -> None:
    if torch.xpu.is_available():
        pytest.skip("the test needs a device type that this machine lacks")
    content = members(path)
    there = {
        name: content[name].replace(b'"cpu"', b'"xpu"')
        for name in content
        if name.endswith("_config.json") or name.startswith("models/")
    }
    result = read_archive(changed(path, tmp_path / "xpu.pt2", there))
    assert all(tensor.device.type == "cpu" for tensor in result.exported.state_dict.values())
    tensors = json.loads(content["data/weights/model_weights_config.json"])["config"]
    if tensors:
        assert result.notes == ("weights were saved from xpu, which this machine lacks: they are on the CPU",)


@SOME
def test_several_programs_in_one_file(path: Path, tmp_path: Path) -> None:
    content = members(path)
    more = {
        name.replace("model", "encoder"): value
        for name, value in content.items()
        if name.startswith(("models/", "data/sample_inputs/")) or name.endswith("_config.json")
    }
    more = {name.replace("encoders/", "models/"): value for name, value in more.items()}
    result = read_archive(changed(path, tmp_path / "two.pt2", more))
    assert set(result.summary.models) == {"model", "encoder"}
    assert result.summary.model == "model"
    assert result.notes == ("the file holds 2 programs; model was read, not encoder",)
    only = {name: None for name in content if name.startswith("models/")}
    alone = read_archive(changed(path, tmp_path / "one.pt2", {**only, **more}))
    assert alone.summary.model == "encoder"
    _assert_same(alone.exported, loaded_by_torch(path))


@SOME
def test_fields_of_a_newer_minor_schema_are_left_out(path: Path, tmp_path: Path) -> None:
    def newer(program: dict[str, Any]) -> None:
        program["schema_version"]["minor"] += 1
        program["novelty"] = {"a": [1]}
        program["graph_module"]["graph"]["novelty"] = 3

    result = read_archive(with_program(path, tmp_path / "newer.pt2", newer))
    assert len(result.notes) == 1
    assert "fields that are new were left out" in result.notes[0]
    _assert_same(result.exported, loaded_by_torch(path))
