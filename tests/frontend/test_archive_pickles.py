"""A pickle that runs code, planted in every place where torch.export.load unpickles.

Each payload only makes an empty directory.  Where torch runs it, the test shows that too: it proves that the file is
really dangerous and the refusal not an accident.
"""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._export.serde import serialize
from torch._export.verifier import SpecViolationError

from tests.frontend.archive_samples import (
    CONSTANTS_CONFIG,
    INPUTS,
    WEIGHTS_CONFIG,
    changed,
    convolutions,
    loaded_by_torch,
    members,
    saved,
    torch_saved,
    write,
)
from trtdiag.errors import CaptureError
from trtdiag.frontend.archive.read import inspect_archive, read_archive

Members = Mapping[str, bytes]


class Payload:
    """Makes a directory when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = str(marker)

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (self.marker,)


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(convolutions(), tmp_path_factory.mktemp("honest") / "model.pt2")


def _config(content: Members, name: str, path_name: str | None, *, use_pickle: bool = True) -> bytes:
    config = json.loads(content[name])
    first = next(iter(config["config"].values()))
    first["use_pickle"] = use_pickle
    first["path_name"] = path_name or first["path_name"]
    return json.dumps(config).encode()


def _first_member(content: Members, name: str) -> str:
    return str(next(iter(json.loads(content[name])["config"].values()))["path_name"])


def _in_weight(content: Members, payload: Payload) -> dict[str, bytes | None]:
    member = f"data/weights/{_first_member(content, WEIGHTS_CONFIG)}"
    return {WEIGHTS_CONFIG: _config(content, WEIGHTS_CONFIG, None), member: torch_saved(payload)}


def _in_constant(content: Members, payload: Payload) -> dict[str, bytes | None]:
    member = f"data/constants/{_first_member(content, CONSTANTS_CONFIG)}"
    return {CONSTANTS_CONFIG: _config(content, CONSTANTS_CONFIG, None), member: torch_saved(payload)}


def _in_opaque_object(content: Members, payload: Payload) -> dict[str, bytes | None]:
    return {
        CONSTANTS_CONFIG: _config(content, CONSTANTS_CONFIG, "opaque_obj_0"),
        "data/constants/opaque_obj_0": pickle.dumps(payload),
    }


def _in_custom_object(content: Members, payload: Payload) -> dict[str, bytes | None]:
    return {
        CONSTANTS_CONFIG: _config(content, CONSTANTS_CONFIG, "custom_obj_0"),
        "data/constants/custom_obj_0": torch_saved(payload),
    }


def _in_all_weights(content: Members, payload: Payload) -> dict[str, bytes | None]:
    return {WEIGHTS_CONFIG: None, "data/weights/model.pt": torch_saved({"conv.weight": payload})}


def _in_all_constants(content: Members, payload: Payload) -> dict[str, bytes | None]:
    return {CONSTANTS_CONFIG: None, "data/constants/model.pt": torch_saved({"shift": payload})}


Plant = Callable[[Members, Payload], dict[str, "bytes | None"]]
# Where it is planted, how the refusal is called, and whether torch.export.load of 2.13 runs it.
PLACES: Mapping[str, tuple[Plant, str, bool]] = {
    "weight": (_in_weight, "unsafe-pickle", True),
    "constant": (_in_constant, "unsafe-pickle", True),
    # 2.11 and 2.12 know no opaque objects; the refusal does not depend on that.
    "opaque object": (_in_opaque_object, "custom-object", torch.__version__ >= "2.13"),
    # torch._C._pickle_load_obj resolves torch bind classes only: no Python code, C++ code of the class.
    "custom object": (_in_custom_object, "custom-object", False),
    "file of all weights": (_in_all_weights, "unsafe-pickle", True),
    "file of all constants": (_in_all_constants, "unsafe-pickle", True),
}


@pytest.mark.parametrize("place", PLACES)
def test_refused_and_not_run(place: str, honest: Path, tmp_path: Path) -> None:
    plant, reference, torch_runs_it = PLACES[place]
    marker = tmp_path / "marker"
    path = changed(honest, tmp_path / "planted.pt2", plant(members(honest), Payload(marker)))
    inspect_archive(path)
    with pytest.raises(CaptureError) as caught:
        read_archive(path)
    assert caught.value.reference == reference
    assert caught.value.exit_code == 2
    if reference == "unsafe-pickle":
        assert f"{os.mkdir.__module__}.mkdir" in caught.value.because
    assert not marker.exists()
    _load_with_torch(path)
    assert marker.exists() == torch_runs_it


def test_in_example_inputs(honest: Path, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    path = changed(honest, tmp_path / "planted.pt2", {INPUTS: torch_saved(((Payload(marker),), {}))})
    result = read_archive(path)
    assert not marker.exists()
    assert result.exported.example_inputs is None
    assert result.notes == (f"example inputs were left out: they contain {os.name}.mkdir, and are not unpickled",)
    _load_with_torch(path)
    assert marker.exists()


@pytest.mark.parametrize("raw", [False, True])
def test_in_example_inputs_that_are_no_zip(raw: bool, honest: Path, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    content = pickle.dumps(Payload(marker)) if raw else _old_format(Payload(marker))
    result = read_archive(changed(honest, tmp_path / "planted.pt2", {INPUTS: content}))
    assert result.exported.example_inputs is None
    assert len(result.notes) == 1
    assert not marker.exists()


def _old_format(value: object) -> bytes:
    import io

    buffer = io.BytesIO()
    torch.save(value, buffer, _use_new_zipfile_serialization=False)
    return buffer.getvalue()


LEGACY_PLACES = ("serialized_state_dict.pt", "serialized_constants.pt", "serialized_example_inputs.pt")


@pytest.fixture(scope="module")
def legacy(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The members that torch 2.7 and before wrote."""
    artifact = serialize.serialize(convolutions())
    return {
        "version": ".".join(map(str, serialize.SCHEMA_VERSION)).encode(),
        "serialized_exported_program.json": artifact.exported_program,
        "serialized_state_dict.pt": artifact.state_dict,
        "serialized_constants.pt": artifact.constants,
        "serialized_example_inputs.pt": artifact.example_inputs,
    }


@pytest.mark.parametrize("place", LEGACY_PLACES)
def test_in_the_layout_before_torch_2_8(place: str, legacy: dict[str, bytes], tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    value: Any = {"conv.weight": Payload(marker)}
    if place.endswith("inputs.pt"):
        value = ((Payload(marker),), {})
    path = write(tmp_path / "planted.pt2", {**legacy, place: torch_saved(value)}, root="")
    if place.endswith("inputs.pt"):
        assert read_archive(path).exported.example_inputs is None
    else:
        with pytest.raises(CaptureError) as caught:
            read_archive(path)
        assert caught.value.reference == "unsafe-pickle"
        assert place in caught.value.because
    assert not marker.exists()
    _load_with_torch(path)
    assert marker.exists()


def test_a_failing_archive_does_not_fall_back_to_members_of_the_older_layout(
    honest: Path, legacy: dict[str, bytes], tmp_path: Path
) -> None:
    """torch.export.load catches a RuntimeError of the new layout and tries the old one in the same file."""
    marker = tmp_path / "marker"
    planted = {**legacy, "serialized_state_dict.pt": torch_saved({"conv.weight": Payload(marker)})}
    content = {f"archive/{name}": value for name, value in members(honest).items()}
    path = write(tmp_path / "both.pt2", {**content, **planted}, root="")
    with pytest.raises(CaptureError):
        read_archive(path)
    assert not marker.exists()


def test_a_compiled_library_is_not_touched(honest: Path, tmp_path: Path) -> None:
    library = {"data/aotinductor/model/code.so": b"\x7fELF no library"}
    result = read_archive(changed(honest, tmp_path / "compiled.pt2", library))
    assert result.summary.has_compiled_code
    assert result.notes == ("compiled libraries in the file (data/aotinductor) were not loaded",)


def test_a_plain_tensor_in_a_pickle_is_read(honest: Path, tmp_path: Path) -> None:
    content = members(honest)
    first = _first_member(content, WEIGHTS_CONFIG)
    weight = torch.nn.Parameter(torch.randn(7, 3, 3, 3))
    changes = {WEIGHTS_CONFIG: _config(content, WEIGHTS_CONFIG, None), f"data/weights/{first}": torch_saved(weight)}
    path = changed(honest, tmp_path / "plain.pt2", changes)
    name = next(iter(json.loads(content[WEIGHTS_CONFIG])["config"]))
    assert torch.equal(read_archive(path).exported.state_dict[name], weight)


def test_the_older_layout_is_read_like_torch_reads_it(legacy: dict[str, bytes], tmp_path: Path) -> None:
    path = write(tmp_path / "legacy.pt2", legacy, root="")
    ours, theirs = read_archive(path), loaded_by_torch(path)
    assert str(ours.exported) == str(theirs)
    assert ours.summary.layout == "legacy"
    assert ours.exported.state_dict.keys() == theirs.state_dict.keys()
    assert all(torch.equal(value, theirs.state_dict[name]) for name, value in ours.exported.state_dict.items())
    assert torch.equal(ours.exported.example_inputs[0][0], theirs.example_inputs[0][0])


def _load_with_torch(path: Path) -> None:
    """Loads a planted file as a trusting user would; how it ends does not matter here."""
    try:
        loaded_by_torch(path)
    except (AssertionError, AttributeError, KeyError, RuntimeError, SpecViolationError, TypeError, ValueError):
        return
