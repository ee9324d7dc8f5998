"""The way to TensorRT: imported when it is first needed, with words for everything that may be missing."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch

from trtdiag.engine.backend import INSTALL
from trtdiag.errors import PlatformError
from trtdiag.targets import TARGETS, Target, target_of

_REFERENCE = "or use the backend 'reference', which runs anywhere"


@dataclass(frozen=True)
class Door:
    """TensorRT as it is installed here.

    Attributes:
        trt: The module ``tensorrt``.
        version: Its version, patch numbers included: an engine runs on no other.
        target: What this version takes.
    """

    trt: Any
    version: str
    target: Target


def open_door() -> Door:
    """TensorRT, imported.

    Raises:
        PlatformError: ``tensorrt-missing``, ``tensorrt-libraries``, ``tensorrt-version``.
    """
    try:
        trt = import_module("tensorrt")
    except ModuleNotFoundError as error:
        raise PlatformError(
            "TensorRT is not installed",
            because=f"Python finds no module {error.name!r}",
            fix=f"{INSTALL}, {_REFERENCE}",
            reference="tensorrt-missing",
        ) from error
    except (ImportError, OSError) as error:
        raise PlatformError(
            "the libraries of TensorRT cannot be loaded",
            because=str(error),
            fix="install the library that is named (libnvinfer comes with the wheels tensorrt-libs, tensorrt-cu12-libs"
            f" or tensorrt-cu13-libs), or put its folder into LD_LIBRARY_PATH, {_REFERENCE}",
            reference="tensorrt-libraries",
        ) from error
    version = str(trt.__version__)
    target = target_of(version)
    if target is None:
        known = ", ".join(known.version for known in TARGETS)
        raise PlatformError(
            f"TensorRT {version} is not supported",
            because=f"trtdiag knows the TensorRT releases near {known}",
            fix=f"install one of those, {_REFERENCE}",
            reference="tensorrt-version",
        )
    return Door(trt, version, target)


def require_gpu() -> None:
    """Refuse to go on without a GPU that this PyTorch can use.

    Raises:
        PlatformError: ``torch-without-cuda``, ``driver-too-old``, ``no-gpu``.
    """
    if torch.version.cuda is None:
        raise PlatformError(
            "this PyTorch cannot use a GPU",
            because=f"torch {torch.__version__} was built without CUDA",
            fix=f"install a CUDA build of PyTorch, {_REFERENCE}",
            reference="torch-without-cuda",
        )
    try:
        torch.cuda.init()  # type: ignore[no-untyped-call]  # torch says no types here
    except (RuntimeError, AssertionError) as error:
        first = str(error).strip().splitlines()[0]
        old = "too old" in first or "insufficient" in first
        raise PlatformError(
            "the GPU's driver is too old" if old else "there is no GPU that can be used",
            because=first,
            fix=f"install a driver for CUDA {torch.version.cuda} or later, or a PyTorch for the CUDA of this driver"
            if old
            else f"run on a machine with an NVIDIA GPU and its driver, {_REFERENCE}",
            reference="driver-too-old" if old else "no-gpu",
        ) from error


def compute_capability(device: int | None = None) -> str:
    """The compute capability of a GPU (``9.0``); ``None``: of the current one."""
    major, minor = torch.cuda.get_device_capability(device)
    return f"{major}.{minor}"


def gpu_name(device: int | None = None) -> str:
    """The name of a GPU; ``None``: the current one."""
    return str(torch.cuda.get_device_name(device))
