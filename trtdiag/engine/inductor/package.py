"""What the bytes of a segment of AOTInductor hold: the segment as an exported program, and what was compiled of it.

The compiled code has no weights: those of the exported program are handed to it, so that they are there once.
"""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

import torch
from torch.export import ExportedProgram

from trtdiag.errors import ArtifactError, EngineBuildError
from trtdiag.wording import first_line

_SEGMENT, _CODE, _ABOUT = "segment.pt2", "code.pt2", "about.json"
_SHARED_LIBRARY = ":libstdc++.so.6"
"""The file that the linker is to find, whatever else it would take."""
_SAVING = Lock()
"""Saving registers for the whole process how fake tensors are pickled, and refuses where that is done already.

The stage that waits for these threads holds the lock of torch's other parts.
Source: torch._export.serde.serialize.serialize_torch_artifact, torch 2.11 to 2.15.
"""
NO_COMPILER = "AOTInductor needs a C++ compiler (g++ or clang++), and on a GPU the Python package triton"


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


def compiled_bytes(segment: ExportedProgram, device: str, threads: int = 1) -> bytes:
    """The bytes of a segment, compiled for this machine; several threads may call it at once.

    Args:
        segment: Takes and gives tensors alone, on the device.
        device: Its type.
        threads: How many kernels to compile at once.

    Raises:
        EngineBuildError: ``inductor-refused``: AOTInductor cannot compile it; says why.
    """
    return packed(segment, compiled_code(segment, threads), device)


def compiled_code(segment: ExportedProgram, threads: int = 1) -> bytes:
    """The code of a segment, without its weights, compiled by a process of its own, which loads it, too.

    Raises:
        EngineBuildError: ``inductor-refused``.
    """
    with tempfile.TemporaryDirectory(prefix="trtdiag-inductor-") as folder:
        own, code = Path(folder) / _SEGMENT, Path(folder) / _CODE
        with _SAVING:
            torch.export.save(segment, own)
        _compile(own, code, threads)
        return code.read_bytes()


def packed(segment: ExportedProgram, code: bytes, device: str) -> bytes:
    """The bytes of a segment with its code: that of this one, or of one that differs in the values of weights alone."""
    own, made = io.BytesIO(), io.BytesIO()
    with _SAVING:
        torch.export.save(segment, own)
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_ABOUT, json.dumps(asdict(Place.here(device)), sort_keys=True))
        archive.writestr(_CODE, code)
        archive.writestr(_SEGMENT, own.getbuffer())
    return made.getvalue()


_PROCESS = """
import json, sys
import torch
from torch._inductor import aoti_compile_and_package, aoti_load_package
segment = torch.export.load(sys.argv[1])
with torch.no_grad():
    aoti_compile_and_package(segment, package_path=sys.argv[2], inductor_configs=json.loads(sys.argv[3]))
aoti_load_package(sys.argv[2])
"""


def _compile(segment: Path, code: Path, threads: int = 1) -> None:
    """Compile a segment, and load its code once: what crashes, crashes that process alone.

    Args:
        segment: The file of the exported program.
        code: Where the code is to be.
        threads: How many kernels to compile at once.

    Raises:
        EngineBuildError: ``inductor-refused``.
    """
    try:
        command = [sys.executable, "-c", _PROCESS, str(segment), str(code), json.dumps(_configuration())]
    except Exception as error:  # PyTorch looks for a compiler in its own way
        raise _refused(f"{type(error).__name__}: {first_line(error)}") from error
    # PyTorch itself would take one for each core, for each process.
    then = {"TORCHINDUCTOR_COMPILE_THREADS": str(threads)}
    ended = _ended(command, {**then, **_FIRST})
    if ended.returncode and "CppCompileError" in ended.stderr:
        ended = _ended(command, then)
    if ended.returncode == 0:
        return
    if ended.returncode < 0:
        why = f"the process that compiles and loads it crashes with {signal.Signals(-ended.returncode).name}"
    else:
        lines = [line for line in ended.stderr.splitlines() if line.strip() and not line.startswith(" ")]
        why = lines[-1] if lines else f"its process ends with code {ended.returncode}"
    raise _refused(why)


# It would try by a compilation whether the compiler knows each kind of instructions that the CPU has, 7 to 15 s in all.
_FIRST = {"TORCHINDUCTOR_VEC_ISA_OK": "1"}


def _ended(command: list[str], settings: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """A process that has ended, run with these settings where the user has not set them."""
    environment = {**settings, **os.environ}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def _refused(why: str) -> EngineBuildError:
    return EngineBuildError(
        "AOTInductor does not compile a segment",
        because=why,
        fix=f"compile without --optimize latency; {NO_COMPILER}",
        reference="inductor-refused",
    )


def _configuration() -> dict[str, Any]:
    """How AOTInductor compiles: without weights, and linked to the C++ library that PyTorch uses.

    A compiler that has ``libstdc++.a`` alone puts a second copy of that library into the code, and the first use of a
    locale in it crashes the process (seen with torch 2.11 and g++ 13).
    """
    from torch._inductor.cpp_builder import get_cpp_compiler

    chosen: dict[str, Any] = {"aot_inductor.package_constants_in_so": False}
    if sys.platform == "linux" and not _links_shared(get_cpp_compiler()):
        chosen["aot_inductor.custom_op_libs"] = [_SHARED_LIBRARY]
    return chosen


@cache
def _links_shared(compiler: str) -> bool:
    """Whether a C++ compiler finds a C++ library to link to that is shared; true of those that have another one."""
    command = [compiler, "-print-file-name=libstdc++.so"]
    if "clang" in Path(compiler).name:
        return True
    found = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return found != "libstdc++.so"  # it gives the name back where it finds nothing


@dataclass(frozen=True)
class Package:
    """The parts of the bytes of a segment.

    Attributes:
        place: Where its code runs.
        segment: The segment, to run by PyTorch op by op where the code does not.
        code: The compiled code.
    """

    place: Place
    segment: ExportedProgram
    code: bytes

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
                return cls(place, segment, archive.read(_CODE))
        except Exception as error:  # damaged bytes fail in any way
            raise ArtifactError(
                "a segment of AOTInductor cannot be read",
                because=f"{type(error).__name__}: {first_line(error)}",
                fix="load the program again from its file, or compile it again",
                reference="engine-damaged",
            ) from error

    @contextmanager
    def code_file(self) -> Iterator[str]:
        """The code in a file, for as long as it is being loaded."""
        with tempfile.TemporaryDirectory(prefix="trtdiag-inductor-") as folder:
            file = Path(folder) / "code.pt2"
            file.write_bytes(self.code)
            yield str(file)
