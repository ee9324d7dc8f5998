"""What a file that is not an exported program looks like, told from its first bytes or its members."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Collection
from dataclasses import dataclass

from trtdiag.files.bounded_read import open_regular

HEAD_BYTES = 512
EXPORT_AGAIN = "export the model again and save it with torch.export.save(program, 'model.pt2')"


@dataclass(frozen=True)
class Kind:
    """How to name a foreign file to the user, and what to do with it."""

    looks_like: str
    advice: str = EXPORT_AGAIN


_SAVED_MODULE = (
    "load it, call torch.export.export on the module, and save that with torch.export.save; a whole module that you "
    "trust is taken with --unpickle and --inputs NAME=SIZES"
)

# First bytes and where they stand.  Sources: the format's own specification, or (TensorRT) the first bytes of
# plan files that 8.6 and 10.x write.
_MAGIC: tuple[tuple[int, bytes, Kind], ...] = (
    (0, b"version https://git-lfs", Kind("a Git LFS pointer, not the file itself", "run `git lfs pull`")),
    (0, b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19", Kind("a checkpoint of torch.save before 1.6", _SAVED_MODULE)),
    (0, b"ftrt", Kind("a TensorRT engine", "give the exported program that the engine was built from")),
    (0, b"ptrt", Kind("a TensorRT engine", "give the exported program that the engine was built from")),
    (0, b"\x1f\x8b", Kind("gzip data", "unpack it first")),
    (0, b"BZh", Kind("bzip2 data", "unpack it first")),
    (0, b"\xfd7zXZ\x00", Kind("xz data", "unpack it first")),
    (0, b"\x28\xb5\x2f\xfd", Kind("zstd data", "unpack it first")),
    (0, b"7z\xbc\xaf\x27\x1c", Kind("a 7z archive", "unpack it first")),
    (257, b"ustar", Kind("a tar archive", "unpack it first")),
    (0, b"\x7fELF", Kind("a compiled library (AOTInductor writes such .so files)")),
    (0, b"GGUF", Kind("a GGUF model (llama.cpp)")),
    (4, b"TFL3", Kind("a TensorFlow Lite model")),
    (4, b"ET1", Kind("an ExecuTorch program (.pte)")),
    (0, b"\x89HDF\r\n", Kind("an HDF5 file (Keras writes such files)")),
    (0, b"\x93NUMPY", Kind("a numpy array")),
)


def kind_of_bytes(head: bytes) -> Kind:
    """What a file that is no zip looks like, from its first ``HEAD_BYTES`` bytes."""
    for offset, magic, kind in _MAGIC:
        if head[offset : offset + len(magic)] == magic:
            return kind
    if len(head) > 9 and head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 1 << 32:
        return Kind("safetensors weights", "weights alone have no graph: export the model that uses them")
    if head[:1] == b"\x80" and len(head) > 1 and 2 <= head[1] <= 5:
        return Kind("a Python pickle", _SAVED_MODULE)
    if _is_onnx(head):
        return Kind("an ONNX model", "give the PyTorch model it was made from, exported by torch.export")
    return _kind_of_text(head)


def _is_onnx(head: bytes) -> bool:
    """Protobuf that begins with ModelProto.ir_version (field 1) and then producer or graph (field 2 or 7)."""
    return len(head) > 3 and head[0] == 0x08 and 1 <= head[1] <= 20 and head[2] in (0x12, 0x1A, 0x3A)


def _kind_of_text(head: bytes) -> Kind:
    try:
        text = head.decode("utf-8").lstrip().lower()
    except UnicodeDecodeError as error:
        # The head may end inside a character of real text.
        if error.start < len(head) - 4:
            return Kind(f"binary data that begins with {head[:8].hex(' ')}")
        text = head[: error.start].decode("utf-8").lstrip().lower()
    if any(ord(letter) < 9 for letter in text):
        return Kind(f"binary data that begins with {head[:8].hex(' ')}")
    if text.startswith(("<!doctype html", "<html")):
        return Kind("a web page", "the download gave an error page: open it in a browser, then download the file again")
    if text.startswith(("{", "[")):
        return Kind("JSON text")
    if text.startswith(("import ", "from ", '"""', "#!", "def ", "class ")):
        return Kind("Python source", "name a function or class in it: path/to/file.py:NAME")
    return Kind("text")


def check_saved_by_torch(path: str | os.PathLike[str]) -> None:
    """Say in plain words what a file is that ``torch.save`` did not write, before ``torch.load`` does in others.

    Raises:
        ValueError: It is another file, or one that is cut off.
        OSError: It cannot be read.
    """
    other = _not_of_torch_save(path)
    if other:
        raise ValueError(other)


def _not_of_torch_save(path: str | os.PathLike[str]) -> str:
    with open_regular(path) as file:
        head = file.read(HEAD_BYTES)
        if not head:
            return "it is empty"
        if head[:1] == b"\x80":
            return ""  # a pickle, as older versions write them
        if head[:2] != b"PK":
            return f"it looks like {kind_of_bytes(head).looks_like}"
        try:
            names = zipfile.ZipFile(file).namelist()
        except (zipfile.BadZipFile, ValueError, NotImplementedError):
            return "it is cut off or damaged: it begins as a zip archive, and its table of contents cannot be read"
    inside = [name.partition("/")[2] for name in names]
    if "data.pkl" in inside:
        return ""
    exported = any(name.startswith("models/") for name in inside) or "serialized_exported_program.json" in names
    return f"it looks like {'an exported program' if exported else kind_of_members(inside).looks_like}"


def kind_of_members(names: Collection[str]) -> Kind:
    """What a zip archive is whose members (without their common folder) hold no exported program."""
    present = set(names)
    if "constants.pkl" in present and "data.pkl" in present:
        return Kind("a TorchScript archive, written by torch.jit.save", "export the Python module with torch.export")
    if "data.pkl" in present:
        return Kind("a checkpoint or module, written by torch.save", _SAVED_MODULE)
    if any(name.startswith(".data/extern_modules") for name in present):
        return Kind("a torch.package archive", "import the module from it and call torch.export.export on it")
    if any(name.startswith("data/aotinductor/") for name in present):
        return Kind(
            "a package of compiled code, written by torch._inductor.aoti_compile_and_package",
            "give the exported program that it was compiled from",
        )
    if "archive_format" in present:
        return Kind(
            "an archive of torch.export.save without a program: saving it stopped half-way",
            "save it again and look at the error that torch.export.save raises",
        )
    if present and all(name.endswith(".npy") for name in present):
        return Kind("a numpy .npz file")
    if "config.json" in present and "model.weights.h5" in present:
        return Kind("a Keras model")
    shown = ", ".join(sorted(present)[:3]) or "nothing"
    return Kind(f"a zip archive without models/*.json; it contains {shown}")
