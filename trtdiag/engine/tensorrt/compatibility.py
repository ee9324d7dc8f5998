"""Engines for more than the GPU and the TensorRT that build them."""

from __future__ import annotations

import os
import re
from typing import Any

from trtdiag.engine.manifest import Manifest
from trtdiag.engine.saved_engines import built_here
from trtdiag.engine.tensorrt.log import Lines, errors_of, last_lines
from trtdiag.errors import ArtifactError, PlatformError, UserError
from trtdiag.options import CompileOptions

LEVELS = {
    "none": "NONE",
    "ampere+": "AMPERE_PLUS",
    "same-compute-capability": "SAME_COMPUTE_CAPABILITY",
}
"""Our words, and TensorRT's members of ``HardwareCompatibilityLevel``."""
HOST_CODE = "TRTDIAG_ENGINE_HOST_CODE"
"""The environment variable that allows engines of elsewhere to bring code."""
_LEAN = re.compile(r"libnvinfer_lean")
"""The library that a build for other versions packs into the engine, which not every package of TensorRT has.

8.6.0 says of it: ``Unable to load library: libnvinfer_lean.so.8.6.0``."""
_AMPERE = (8, 0)
_DISABLED = ("CUBLAS", "CUBLAS_LT", "CUDNN")
"""Source: nvinfer1::HardwareCompatibilityLevel::kAMPERE_PLUS, 10.16: "This option will disable cuDNN, cuBLAS, and
cuBLASLt as tactic sources", and "is only supported for engines built on NVIDIA Ampere and later GPUs"."""


def set_compatibility(
    trt: Any, version: str, config: Any, options: CompileOptions, sources: tuple[str, ...], capability: str
) -> None:
    """Ask TensorRT for what the options want.

    Args:
        trt: The module ``tensorrt``.
        version: Its version, for errors.
        config: The builder's configuration.
        options: What the user asked for.
        sources: The tactic sources that were chosen, by name.
        capability: The compute capability of the GPU that builds.

    Raises:
        UserError: ``hardware-compatibility`` or ``version-compatibility`` where this version or this GPU does
            not have it, or other options forbid it.
    """
    level = options.hardware_compatibility
    if level != "none":
        has = trt.HardwareCompatibilityLevel.__members__
        if LEVELS[level] not in has:
            own = [ours for ours, theirs in LEVELS.items() if theirs in has]
            raise _impossible(level, f"TensorRT {version} has {', '.join(own)}", "choose one of those")
        disabled = [source for source in sources if source in _DISABLED]
        if level == "ampere+" and _numbers(capability) < _AMPERE:
            why = f"this GPU has compute capability {capability}"
            raise _impossible(level, why, "build on a GPU of 8.0 or later")
        if level == "ampere+" and disabled:
            why = f"such engines take no kernels from {', '.join(disabled)}"
            raise _impossible(level, why, "leave those out of tactic_sources")
        config.hardware_compatibility_level = has[LEVELS[level]]
    if options.version_compatible:
        if "VERSION_COMPATIBLE" not in trt.BuilderFlag.__members__:
            raise UserError(
                f"TensorRT {version} builds no engines for other versions",
                because="it has no BuilderFlag.VERSION_COMPATIBLE",
                fix="compile without version_compatible, with the version that will run the engines",
                reference="version-compatibility",
            )
        config.set_flag(trt.BuilderFlag.VERSION_COMPATIBLE)


def refused_lean(version: str, options: CompileOptions, lines: Lines) -> PlatformError | None:
    """The error for a build for other versions that misses the library to pack; ``None`` where it ended otherwise."""
    errors = errors_of(lines)
    if not options.version_compatible or not any(_LEAN.search(line) for line in errors):
        return None
    return PlatformError(
        f"TensorRT {version} cannot build an engine for other versions here",
        because=f"such an engine holds the library libnvinfer_lean, and it cannot be read: {last_lines(lines)}",
        fix="install a TensorRT with libnvinfer_lean beside libnvinfer, or compile without version_compatible",
        reference="lean-runtime-missing",
    )


def _impossible(level: str, why: str, fix: str) -> UserError:
    return UserError(
        f"an engine cannot be built with hardware compatibility {level!r}",
        because=why,
        fix=f"{fix}, or compile on each kind of GPU",
        reference="hardware-compatibility",
    )


def version_difference(manifest: Manifest, here: str) -> str:
    """Why TensorRT of this version does not run the engine; empty where it does."""
    built = manifest.tensorrt
    if built == here:
        return ""
    if built is None or not manifest.compatibility.versions:
        return f"it was built by TensorRT {built}, and here is {here}"
    if _numbers(built)[:1] != _numbers(here)[:1] or _numbers(here) < _numbers(built):
        return f"it was built for TensorRT {built} and later of the same major number, and here is {here}"
    return ""


def gpu_difference(manifest: Manifest, here: str, capability: str) -> str:
    """Why a GPU of this name and compute capability does not run the engine; empty where it does."""
    wanted = manifest.compatibility
    if wanted.hardware == "ampere+":
        runs, built = _numbers(capability) >= _AMPERE, "from compute capability 8.0 on"
    elif wanted.hardware == "same-compute-capability" and wanted.compute_capability is not None:
        runs, built = capability == wanted.compute_capability, f"of compute capability {wanted.compute_capability}"
    else:
        return "" if manifest.gpu == here else f"it was built for {manifest.gpu}, and here is {here}"
    return "" if runs else f"it was built for GPUs {built}, and {here} has {capability}"


def allow_host_code(runtime: Any, manifest: Manifest) -> None:
    """Let TensorRT run the code that a version compatible engine brings, where someone trusts it.

    Such an engine holds a library that reads it.  Loading a program runs no code of its file, unless it was built in
    this process or the environment says that engines are trusted.

    Source: TensorRT 10.16, "Version Compatibility".

    Raises:
        ArtifactError: ``engine-host-code``.
    """
    if not manifest.compatibility.versions:
        return
    if not built_here(manifest.engine_sha256) and os.environ.get(HOST_CODE) != "allow":
        raise ArtifactError(
            "an engine brings code that would run in this process",
            because="it was built for several versions of TensorRT, and holds the library that reads it",
            fix=f"if you trust the file, set {HOST_CODE}=allow",
            reference="engine-host-code",
        )
    runtime.engine_host_code_allowed = True


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())
