"""What the bytes of a segment of AOTInductor hold: the segment as an exported program, and what was compiled of it.

The compiled code has no weights: those of the exported program are handed to it, so that they are there once.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias

import torch
from torch.export import ExportedProgram

from trtdiag.errors import ArtifactError
from trtdiag.files.atomic_folder import temporary_folder
from trtdiag.wording import first_line

_SEGMENT, _ABOUT = "segment.pt2", "about.json"
_CODE, _USUAL, _SHAPES, _GRAPHS = "code.pt2", "usual.pt2", "usual.json", "cuda_graphs.json"
Shapes: TypeAlias = tuple[tuple[int, ...], ...]
"""Of the inputs of a segment, in order."""
_SAVING = Lock()
"""Saving registers for the whole process how fake tensors are pickled, and refuses where that is done already.

The stage that waits for these threads holds the lock of torch's other parts.
Source: torch._export.serde.serialize.serialize_torch_artifact, torch 2.11 to 2.15.
"""


@dataclass(frozen=True)
class Code:
    """What was compiled of a segment.

    Attributes:
        general: For all sizes.
        usual: For the sizes that come most alone, where PyTorch's compiler makes faster code; ``None`` where none is.
        shapes: What its inputs have then.
    """

    general: bytes
    usual: bytes | None = None
    shapes: Shapes = ()


@dataclass(frozen=True)
class Place:
    """Where compiled code runs.

    Attributes:
        torch: The version that compiled it.
        device: The type of the device.
        hardware: The instructions of the CPU (``AVX512``), or the compute capability of the GPU (``9.0``).
    """

    torch: str
    device: str
    hardware: str

    @classmethod
    def here(cls, device: str) -> Place:
        """That of code which is compiled here for this type of device."""
        if device == "cuda" and torch.cuda.is_available():
            hardware = "{}.{}".format(*torch.cuda.get_device_capability())
        else:
            hardware = torch.backends.cpu.get_cpu_capability() if device == "cpu" else "none"
        return cls(torch.__version__, device, hardware)

    def differences(self, here: Place) -> tuple[str, ...]:
        """What stands against running it there, in words."""
        both = ((name, value, getattr(here, name)) for name, value in asdict(self).items())
        return tuple(
            f"{name} was {made} where it was compiled, and is {now}" for name, made, now in both if made != now
        )


def save(segment: ExportedProgram, place: str | Path | io.BytesIO) -> None:
    """Save a segment; several threads may."""
    with _SAVING:
        torch.export.save(segment, place)


def packed(segment: ExportedProgram, code: Code, device: str, graphs: int = 0) -> bytes:
    """The bytes of a segment with its code.

    Args:
        segment: The segment.
        code: That of it, or of one that differs in the values of weights alone.
        device: The type of device that it runs on.
        graphs: As ``Package`` has it.
    """
    own, made = io.BytesIO(), io.BytesIO()
    save(segment, own)
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_ABOUT, json.dumps(asdict(Place.here(device)), sort_keys=True))
        archive.writestr(_CODE, code.general)
        if code.usual is not None:
            archive.writestr(_USUAL, code.usual)
            archive.writestr(_SHAPES, json.dumps(code.shapes))
        if graphs:
            archive.writestr(_GRAPHS, json.dumps(graphs))
        archive.writestr(_SEGMENT, own.getbuffer())
    return made.getvalue()


@dataclass(frozen=True)
class Package:
    """The parts of the bytes of a segment.

    Attributes:
        place: Where its code runs.
        segment: The segment, to run by PyTorch op by op where the code does not.
        code: The compiled code.
        graphs: For how many sizes its runs are kept as CUDA graphs where no program says how many.
    """

    place: Place
    segment: ExportedProgram
    code: Code
    graphs: int = 0

    @classmethod
    def read(cls, blob: bytes | memoryview) -> Package:
        """The parts.

        Raises:
            ArtifactError: ``engine-damaged``.
        """
        try:
            with zipfile.ZipFile(io.BytesIO(blob)) as archive:
                about: Mapping[str, Any] = json.loads(archive.read(_ABOUT))
                place = Place(**about)
                segment = torch.export.load(io.BytesIO(archive.read(_SEGMENT)))
                code = Code(archive.read(_CODE))
                if _USUAL in archive.namelist():
                    shapes = tuple(map(tuple, json.loads(archive.read(_SHAPES))))
                    code = replace(code, usual=archive.read(_USUAL), shapes=shapes)
                graphs = int(json.loads(archive.read(_GRAPHS))) if _GRAPHS in archive.namelist() else 0
                return cls(place, segment, code, graphs)
        except Exception as error:  # damaged bytes fail in any way
            raise ArtifactError(
                "a segment of AOTInductor cannot be read",
                because=f"{type(error).__name__}: {first_line(error)}",
                fix="load the program again from its file, or compile it again",
                reference="engine-damaged",
            ) from error


@contextmanager
def code_file(code: bytes) -> Iterator[str]:
    """Code in a file, for as long as it is being loaded."""
    with temporary_folder("trtdiag-inductor") as folder:
        file = folder / _CODE
        file.write_bytes(code)
        yield str(file)
