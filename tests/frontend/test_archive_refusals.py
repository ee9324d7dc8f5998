"""Every kind of file that cannot be read has one clear error of its own."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.frontend.archive_samples import (
    CONSTANTS_CONFIG,
    INPUTS,
    PROGRAM,
    WEIGHTS_CONFIG,
    automatic,
    changed,
    convolutions,
    members,
    of_a_class,
    saved,
    with_program,
    write,
)
from trtdiag.errors import CaptureError
from trtdiag.frontend.archive.read import inspect_archive, read_archive
from trtdiag.frontend.archive.zip_members import LIMIT_EXPANSION


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(convolutions(), tmp_path_factory.mktemp("honest") / "model.pt2")


def refusal(path: object, *, inspect: bool = True) -> CaptureError:
    """The error of reading; where the container is at fault, inspection has to say the same."""
    with pytest.raises(CaptureError) as caught:
        read_archive(path)  # type: ignore[arg-type]
    error = caught.value
    assert error.exit_code == 2
    assert all(part.strip() for part in (error.message, error.because, error.fix))
    if inspect:
        with pytest.raises(CaptureError) as again:
            inspect_archive(path)  # type: ignore[arg-type]
        assert str(again.value) == str(error)
    return error


def test_missing_file(tmp_path: Path, honest: Path) -> None:
    assert refusal(tmp_path / "none.pt2").reference == "file-not-found"
    assert refusal(honest / "below.pt2").reference == "file-not-found"
    assert refusal(tmp_path / ("long" * 100)).reference == "file-not-found"
    assert refusal("nul\0inside.pt2").reference == "file-not-found"


def test_directory(tmp_path: Path) -> None:
    assert refusal(tmp_path).reference == "is-a-directory"


def test_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert refusal(tmp_path / "pipe").reference == "not-a-regular-file"


def test_no_permission(tmp_path: Path, honest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "locked.pt2"
    path.write_bytes(honest.read_bytes())
    path.chmod(0)
    if os.access(path, os.R_OK):  # root reads everything

        def deny(*args: Any, **kwargs: Any) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr("os.open", deny)
    assert refusal(path).reference == "permission-denied"


def test_empty(tmp_path: Path) -> None:
    (tmp_path / "empty.pt2").touch()
    assert refusal(tmp_path / "empty.pt2").reference == "empty-file"


def _old_checkpoint() -> bytes:
    buffer = io.BytesIO()
    torch.save({"w": torch.ones(3)}, buffer, _use_new_zipfile_serialization=False)
    return buffer.getvalue()


FOREIGN = {
    "git lfs": (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", "Git LFS"),
    "old checkpoint": (_old_checkpoint(), "torch.save before 1.6"),
    "pickle": (pickle.dumps({"a": 1}), "a Python pickle"),
    "gzip": (gzip.compress(b"PK"), "gzip"),
    "safetensors": (
        struct.pack("<Q", 60) + b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}    ',
        "safetensors",
    ),
    "onnx": (b"\x08\x0a\x12\x07pytorch\x1a\x052.1.0:\xd6\x03", "ONNX"),
    "engine": (b"ftrt\x00\x00\x00\x00" + bytes(64), "TensorRT engine"),
    "library": (b"\x7fELF\x02\x01\x01" + bytes(64), "compiled library"),
    "executorch": (b"\x1c\x00\x00\x00ET12" + bytes(64), "ExecuTorch"),
    "web page": (b"<!DOCTYPE html><html><body>404</body></html>", "a web page"),
    "json": (b'{"a": 1}', "JSON"),
    "source": (b"import torch\n\nclass Model: pass\n", "Python source"),
    "text": ("Modell für Österreich\n".encode() * 40, "text"),
    "binary": (bytes(range(1, 255)) * 4, "binary data that begins with 01 02 03"),
    "numpy": (b"\x93NUMPY\x01\x00", "numpy"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_another_type(name: str, tmp_path: Path) -> None:
    content, expected = FOREIGN[name]
    path = tmp_path / "foreign.pt2"
    path.write_bytes(content)
    error = refusal(path)
    assert error.reference == "not-a-zip"
    assert expected in error.because


class Module(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


@pytest.mark.filterwarnings("ignore:.*deprecated")  # torch.jit, which is what the test is about
def test_a_zip_of_another_kind(tmp_path: Path) -> None:
    path = tmp_path / "other.pt2"
    torch.save({"w": torch.ones(3)}, path)
    assert "torch.save" in refusal(path).because
    torch.jit.save(torch.jit.trace(Module(), torch.ones(2)), path)
    assert "torch.jit.save" in refusal(path).because
    write(path, {"data/aotinductor/model/a.so": b"x"})
    assert "aoti_compile_and_package" in refusal(path).because
    write(path, {"notes.txt": b"x", "more.txt": b"y"}, root="")
    assert "more.txt, notes.txt" in refusal(path).because
    write(path, {}, root="")
    assert refusal(path).reference in ("not-an-exported-program", "not-a-zip")


def test_newer_archive_and_schema(honest: Path, tmp_path: Path) -> None:
    error = refusal(changed(honest, tmp_path / "a.pt2", {"archive_version": b"7"}), inspect=False)
    assert (error.reference, "7" in error.because) == ("newer-schema", True)

    def newer(program: dict[str, Any]) -> None:
        program["schema_version"] = {"major": 9, "minor": 3}
        program["torch_version"] = "2.19.1"

    path = with_program(honest, tmp_path / "b.pt2", newer)
    error = refusal(path, inspect=False)
    assert error.reference == "newer-schema"
    assert all(part in error.because for part in ("9.3", "8.x", "2.19.1", torch.__version__))
    assert "2.19.1" in error.fix
    assert inspect_archive(path).schema_version == (9, 3)


def test_something_new_in_a_newer_minor_schema(honest: Path, tmp_path: Path) -> None:
    def new_kind(program: dict[str, Any]) -> None:
        program["schema_version"]["minor"] += 5
        program["graph_module"]["graph"]["nodes"][0]["inputs"][0]["arg"] = {"as_quaternion": [1, 2, 3, 4]}

    error = refusal(with_program(honest, tmp_path / "new.pt2", new_kind), inspect=False)
    assert error.reference == "newer-schema"
    assert "as_quaternion" in error.because


def test_older_schema(honest: Path, tmp_path: Path) -> None:
    def older(program: dict[str, Any]) -> None:
        program["schema_version"] = {"major": 7, "minor": 1}
        program["torch_version"] = "2.5.1"

    error = refusal(with_program(honest, tmp_path / "old.pt2", older), inspect=False)
    assert error.reference == "older-archive"
    assert "2.5.1" in error.because


def test_unknown_ops_are_all_named(honest: Path, tmp_path: Path) -> None:
    def custom(program: dict[str, Any]) -> None:
        nodes = program["graph_module"]["graph"]["nodes"]
        nodes[0]["target"] = nodes[1]["target"] = "torch.ops.unheard_of.nms.default"
        nodes[2]["target"] = "torch.ops.tensorrt.execute_engine.default"

    path = with_program(honest, tmp_path / "custom.pt2", custom)
    error = refusal(path, inspect=False)
    assert error.reference == "unknown-custom-op"
    assert "unheard_of.nms.default (2x)" in error.message
    assert "tensorrt.execute_engine.default (1x)" in error.message
    assert "import unheard_of, torch_tensorrt" in error.fix
    assert inspect_archive(path).custom_namespaces == ("tensorrt", "unheard_of")


def test_an_op_of_a_newer_torch(honest: Path, tmp_path: Path) -> None:
    def future(program: dict[str, Any]) -> None:
        program["torch_version"] = "2.20.0"
        program["graph_module"]["graph"]["nodes"][0]["target"] = "torch.ops.aten.levitate.default"

    error = refusal(with_program(honest, tmp_path / "future.pt2", future), inspect=False)
    assert error.reference == "unknown-custom-op"
    assert "2.20.0" in error.fix


def test_an_input_class_that_is_not_registered(tmp_path: Path) -> None:
    path = saved(of_a_class(), tmp_path / "class.pt2")
    text = members(path)[PROGRAM].replace(b"tests.archive_samples.Pair", b"transformers.cache_utils.DynamicCache")
    error = refusal(changed(path, tmp_path / "cache.pt2", {PROGRAM: text}), inspect=False)
    assert error.reference == "unknown-input-type"
    assert "transformers.cache_utils.DynamicCache" in error.message
    assert "--import transformers.cache_utils (import transformers.cache_utils in Python)" in error.fix
    text = members(path)[PROGRAM].replace(b"tests.archive_samples.Pair", b"transformers.cache_utils:DynamicCache")
    error = refusal(changed(path, tmp_path / "exporters.pt2", {PROGRAM: text}), inspect=False)
    assert error.fix.startswith("give the folder that transformers' exporters saved it in"), "no import registers it"


def test_damaged_member(honest: Path, tmp_path: Path) -> None:
    content = bytearray(honest.read_bytes())
    with zipfile.ZipFile(honest) as archive:
        entry = next(entry for entry in archive.infolist() if entry.filename.endswith("weights/weight_0"))
    content[entry.header_offset + 200] ^= 0x10
    path = tmp_path / "damaged.pt2"
    path.write_bytes(content)
    error = refusal(path, inspect=False)
    assert error.reference == "corrupt-member"
    assert "weight_0" in error.message


def _rewritten(tmp_path: Path, entries: list[tuple[str, bytes]], compression: int = zipfile.ZIP_STORED) -> Path:
    path = tmp_path / "rewritten.pt2"
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, value in entries:
            archive.writestr(name, value)
    return path


@pytest.mark.filterwarnings("ignore:Duplicate name")  # zipfile warns about what the test needs
def test_names_that_no_archive_has(tmp_path: Path, honest: Path) -> None:
    plain = [(f"archive/{name}", value) for name, value in members(honest).items()]
    for name in ("archive/../../escape", "/etc/passwd", "archive/a\nb", "archive//double", plain[0][0]):
        assert refusal(_rewritten(tmp_path, [*plain, (name, b"x")])).reference == "corrupt-archive"


def test_bombs(tmp_path: Path, honest: Path) -> None:
    plain = [(f"archive/{name}", value) for name, value in members(honest).items()]
    path = _rewritten(tmp_path, [*plain, ("archive/extra/zeros", bytes(20_000_000))], zipfile.ZIP_DEFLATED)
    error = refusal(path)
    assert error.reference == "too-large"
    assert str(LIMIT_EXPANSION) in error.because


def test_tensors_that_are_declared_and_not_there(tmp_path: Path, honest: Path) -> None:
    config = json.loads(members(honest)[WEIGHTS_CONFIG])
    payload = next(iter(config["config"].values()))
    payload["tensor_meta"]["sizes"] = [{"as_int": 1 << 40}]
    changes = {WEIGHTS_CONFIG: json.dumps(config).encode(), f"data/weights/{payload['path_name']}": b""}
    assert refusal(changed(honest, tmp_path / "huge.pt2", changes), inspect=False).reference == "too-large"


def test_weights_beyond_their_bytes(tmp_path: Path, honest: Path) -> None:
    config = json.loads(members(honest)[WEIGHTS_CONFIG])
    payload = next(iter(config["config"].values()))
    for field, value in (
        ("sizes", [{"as_int": 4000}]),
        ("strides", [{"as_int": -1}]),
        ("storage_offset", {"as_int": 1}),
    ):
        meta = {**payload["tensor_meta"], field: value}
        if field == "sizes":
            meta["strides"] = [{"as_int": 1}]
        text = json.dumps({"config": {**config["config"], "w": {**payload, "tensor_meta": meta}}}).encode()
        error = refusal(changed(honest, tmp_path / "beyond.pt2", {WEIGHTS_CONFIG: text}), inspect=False)
        assert error.reference == "corrupt-program", field


def test_paths_out_of_the_archive(tmp_path: Path, honest: Path) -> None:
    text = members(honest)[WEIGHTS_CONFIG].replace(b"weight_0", b"../../../etc/passwd")
    error = refusal(changed(honest, tmp_path / "out.pt2", {WEIGHTS_CONFIG: text}), inspect=False)
    assert error.reference == "corrupt-program"


def test_encrypted_and_odd_compression(tmp_path: Path, honest: Path) -> None:
    content = bytearray(honest.read_bytes())
    place = content.rindex(b"PK\x01\x02")  # of the archive itself, not of the saved inputs in it
    content[place + 8] |= 1
    path = tmp_path / "encrypted.pt2"
    path.write_bytes(content)
    assert refusal(path).reference == "unsupported-archive"
    plain = [(f"archive/{name}", value) for name, value in members(honest).items()]
    assert refusal(_rewritten(tmp_path, plain, zipfile.ZIP_LZMA)).reference == "unsupported-archive"


def test_bytes_before_and_behind(tmp_path: Path, honest: Path) -> None:
    path = tmp_path / "longer.pt2"
    path.write_bytes(honest.read_bytes() + b"more")
    assert refusal(path).reference == "truncated-archive"
    path.write_bytes(b"#!/bin/sh\n" + honest.read_bytes())
    assert refusal(path).reference == "not-a-zip"
    path.write_bytes(honest.read_bytes()[:64] + honest.read_bytes())
    assert refusal(path).reference == "corrupt-archive"


@pytest.mark.parametrize("missing", [WEIGHTS_CONFIG, CONSTANTS_CONFIG])
def test_missing_member(missing: str, tmp_path: Path, honest: Path) -> None:
    error = refusal(changed(honest, tmp_path / "less.pt2", {missing: None}))
    assert error.reference == "corrupt-program"
    assert missing in error.because


def test_other_byte_order(tmp_path: Path, honest: Path) -> None:
    error = refusal(changed(honest, tmp_path / "big.pt2", {"byteorder": b"big"}), inspect=False)
    assert error.reference == "unsupported-archive"


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 100_000])
def test_program_that_is_no_json_object(text: bytes, tmp_path: Path, honest: Path) -> None:
    assert refusal(changed(honest, tmp_path / "text.pt2", {PROGRAM: text})).reference == "corrupt-program"


def test_control_characters_do_not_reach_a_terminal(tmp_path: Path, honest: Path) -> None:
    escape = "\x1b[2J\x07\u202e"
    config = json.loads(members(honest)[CONSTANTS_CONFIG])
    payload = {**next(iter(config["config"].values())), "path_name": "custom_obj_0"}
    content = json.dumps({"config": {f"name{escape}": payload}}).encode()

    def version(program: dict[str, Any]) -> None:
        program["torch_version"] = f"2.13{escape}"
        program["schema_version"] = {"major": 99, "minor": 0}

    for path in (
        changed(honest, tmp_path / "object.pt2", {CONSTANTS_CONFIG: content}),
        with_program(honest, tmp_path / "version.pt2", version),
    ):
        error = refusal(path, inspect=False)
        assert all(part.isprintable() for part in (error.message, error.because, error.fix))
    assert inspect_archive(path).torch_version is None


def test_a_save_that_stopped_half_way(tmp_path: Path, honest: Path) -> None:
    """torch.export.save writes weights first, and closes the file properly when the graph cannot be saved."""
    path = changed(honest, tmp_path / "half.pt2", {PROGRAM: None, INPUTS: None})
    error = refusal(path)
    assert error.reference == "not-an-exported-program"
    assert "half-way" in error.because


def test_what_torch_itself_refuses(tmp_path: Path) -> None:
    """A description that fits the schema and contradicts itself: torch fails, and its failure is named."""
    path = saved(automatic(), tmp_path / "model.pt2")

    def contradiction(program: dict[str, Any]) -> None:
        program["graph_module"]["graph"]["outputs"][0]["as_tensor"]["name"] = "nowhere"

    error = refusal(with_program(path, tmp_path / "odd.pt2", contradiction), inspect=False)
    assert error.reference == "load-failed"
    assert "KeyError" in error.because
    assert torch.__version__ in error.fix
