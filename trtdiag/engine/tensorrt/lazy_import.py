"""The way to TensorRT: imported when it is first needed, with words for everything that may be missing."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch

from trtdiag.engine.backend import INSTALL, INSTALL_RTX
from trtdiag.errors import PlatformError
from trtdiag.targets import RTX_TARGETS, TARGETS, Target, target_of

_REFERENCE = "or use the backend 'reference', which runs anywhere"


@dataclass(frozen=True)
class InstalledTensorRT:
    """TensorRT as it is installed here.

    Attributes:
        trt: The module ``tensorrt``, or ``tensorrt_rtx``.
        version: Its version, patch numbers included: an engine runs on no other.
        target: What this version takes.
    """

    trt: Any
    version: str
    target: Target


@dataclass(frozen=True)
class Product:
    """TensorRT, or another product with its builder.

    Attributes:
        name: How texts call it.
        module: Its Python module.
        install: How to get it.
        libraries: Its libraries, and where they come from.
        targets: Its known releases.
    """

    name: str
    module: str
    install: str
    libraries: str
    targets: tuple[Target, ...]


TENSORRT = Product(
    "TensorRT",
    "tensorrt",
    INSTALL,
    "libnvinfer comes with the wheels tensorrt-libs, tensorrt-cu12-libs or tensorrt-cu13-libs",
    TARGETS,
)
TENSORRT_RTX = Product(
    "TensorRT-RTX",
    "tensorrt_rtx",
    INSTALL_RTX,
    "libtensorrt_rtx comes with the wheel tensorrt-rtx-cu13-libs",
    RTX_TARGETS,
)


def import_tensorrt(product: Product = TENSORRT) -> InstalledTensorRT:
    """TensorRT, or another product with its builder, imported.

    Raises:
        PlatformError: ``tensorrt-missing``, ``tensorrt-libraries``, ``tensorrt-version``.
    """
    try:
        trt = import_module(product.module)
    except ModuleNotFoundError as error:
        raise PlatformError(
            f"{product.name} is not installed",
            because=f"Python finds no module {error.name!r}",
            fix=f"{product.install}, {_REFERENCE}",
            reference="tensorrt-missing",
        ) from error
    except (ImportError, OSError) as error:
        raise PlatformError(
            f"the libraries of {product.name} cannot be loaded",
            because=str(error),
            fix=f"install the library that is named ({product.libraries}), or put its folder into LD_LIBRARY_PATH,"
            f" {_REFERENCE}",
            reference="tensorrt-libraries",
        ) from error
    version = str(trt.__version__)
    target = target_of(version, product.targets)
    if target is None:
        known = ", ".join(known.name.removeprefix(f"{product.name} ") for known in product.targets)
        raise PlatformError(
            f"{product.name} {version} is not supported",
            because=f"trtdiag knows the {product.name} releases near {known}",
            fix=f"install one of those, {_REFERENCE}",
            reference="tensorrt-version",
        )
    return InstalledTensorRT(trt, version, target)


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


def compute_capability() -> str:
    """The compute capability of the current GPU (``9.0``)."""
    major, minor = torch.cuda.get_device_capability()
    return f"{major}.{minor}"


def gpu_name() -> str:
    """The name of the current GPU."""
    return str(torch.cuda.get_device_name())
