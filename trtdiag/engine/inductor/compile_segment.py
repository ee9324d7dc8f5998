"""Compiles a segment with AOTInductor, in processes of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from trtdiag.engine.inductor.package import Code, Shapes, packed, save
from trtdiag.errors import EngineBuildError
from trtdiag.files.atomic_folder import temporary_folder
from trtdiag.wording import first_line

_SHARED_LIBRARY = ":libstdc++.so.6"
"""The file that the linker is to find, whatever else it would take."""
NO_COMPILER = "AOTInductor needs a C++ compiler (g++ or clang++), and on a GPU the Python package triton"


def compiled_bytes(
    segment: ExportedProgram,
    device: str,
    usual: Shapes | None = None,
    threads: int = 1,
    unusual: Callable[[str], object] = lambda _why: None,
    graphs: int = 0,
) -> bytes:
    """The bytes of a segment, compiled for this machine; several threads may call it at once.

    Args:
        segment: Takes and gives tensors alone, on the device.
        device: Its type.
        usual: The shapes of its inputs that come most.
        threads: How many kernels to compile at once.
        unusual: Called with the reason where the usual shapes get no code of their own.
        graphs: As ``Package`` has it.

    Raises:
        EngineBuildError: ``inductor-refused``: AOTInductor cannot compile it; says why.
    """
    return packed(segment, compiled_code(segment, device, usual, threads, unusual), device, graphs)


def compiled_code(
    segment: ExportedProgram,
    device: str,
    usual: Shapes | None = None,
    threads: int = 1,
    unusual: Callable[[str], object] = lambda _why: None,
) -> Code:
    """The code of a segment, without its weights, compiled by processes of its own, which load it, too.

    Arguments and errors are as ``compiled_bytes`` has them.
    """
    with temporary_folder("trtdiag-inductor") as folder, ThreadPoolExecutor(1) as beside:
        own, code, faster = (folder / name for name in ("segment.pt2", "code.pt2", "usual.pt2"))
        save(segment, own)
        how = {"config": _layout(segment), "instructions": [] if device == "cuda" else _CPU_INSTRUCTIONS}
        if usual is None or not segment.range_constraints:
            _compile(own, code, threads, how)
            return Code(code.read_bytes())
        of_usual = beside.submit(_compile, own, faster, threads, {**how, "shapes": usual})
        _compile(own, code, threads, how)
        try:
            of_usual.result()
        except EngineBuildError as error:  # the code for all sizes runs for these, too
            unusual(error.because)
            return Code(code.read_bytes())
        return Code(code.read_bytes(), faster.read_bytes(), usual)


def _layout(segment: ExportedProgram) -> dict[str, bool]:
    """Channels last throughout, where weights of convolutions are so; else the compiler has it for fixed sizes alone.

    Source: ``GraphLowering.decide_layout_opt``, torch 2.11 to 2.13.
    """
    weights = [weight for weight in segment.state_dict.values() if weight.dim() == 4]
    last = any(each.is_contiguous(memory_format=torch.channels_last) and not each.is_contiguous() for each in weights)
    return {"force_layout_optimization": True} if last else {}


_PROCESS = """
import json, sys
own, code, asked = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
sys.path[:] = asked["path"]
import torch
from torch._inductor import aoti_compile_and_package, aoti_load_package, cpu_vec_isa
from trtdiag.engine.inductor.kernel_times import time_kernels_as_they_run
time_kernels_as_they_run()
known = getattr(cpu_vec_isa, "supported_vec_isa_list", [])
known[:] = [each for each in known if type(each).__name__ in asked["instructions"]]
segment = torch.export.load(own)
held = {**segment.state_dict, **segment.constants}
with torch.no_grad():
    if "shapes" in asked:
        names = segment.graph_signature.user_inputs
        inputs = [node.meta["val"] for node in segment.graph.nodes if node.name in names]
        pairs = zip(asked["shapes"], inputs, strict=True)
        given = tuple(torch.zeros(shape, dtype=each.dtype, device=each.device) for shape, each in pairs)
        segment = torch.export.export(segment.module(check_guards=False), given, strict=False)
    aoti_compile_and_package(segment, package_path=code, inductor_configs=asked["config"])
made = {**segment.state_dict, **segment.constants}
for name in aoti_load_package(code).get_constant_fqns():
    assert name in held and torch.equal(held[name], made[name]), f"{name} is another weight for these sizes"
"""
_CPU_INSTRUCTIONS = ["VecAVX512", "VecAVX2"]
"""Those that PyTorch's compiler may write for a CPU of x86: it tries each that is listed by compiling it, 5 s for one,
and those of matrices (AMX, VNNI) are for templates that are not asked for.  A GPU's code has no use for any."""


def _compile(segment: Path, code: Path, threads: int = 1, how: Mapping[str, Any] | None = None) -> None:
    """Compile a segment, and load its code once: what crashes, crashes that process alone.

    Args:
        segment: The file of the exported program.
        code: Where the code is to be.
        threads: How many kernels to compile at once.
        how: ``config`` of AOTInductor beside that of all, the ``instructions`` of the CPU that it may write, and the
            ``shapes`` of the inputs where it is for these alone.

    Raises:
        EngineBuildError: ``inductor-refused``.
    """
    asked = {"config": {}, "instructions": _CPU_INSTRUCTIONS, **(how or {})}
    asked["path"] = [path for path in sys.path if isinstance(path, str)]
    try:
        asked["config"] = {**_configuration(), **asked["config"]}
    except Exception as error:  # PyTorch looks for a compiler in its own way
        raise _refused(f"{type(error).__name__}: {first_line(error)}") from error
    command = [sys.executable, "-c", _PROCESS, str(segment), str(code), json.dumps(asked)]
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


# It would try by a compilation whether the compiler knows the instructions at all.
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

    Kernels that it knows by name were chosen among in another way, by ``torch.compile``: they are timed again.
    A compiler that has ``libstdc++.a`` alone puts a second copy of that library into the code, and the first use of a
    locale in it crashes the process (seen with torch 2.11 and g++ 13).
    """
    from torch._inductor.cpp_builder import get_cpp_compiler

    chosen: dict[str, Any] = {"aot_inductor.package_constants_in_so": False, "autotune_local_cache": False}
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
