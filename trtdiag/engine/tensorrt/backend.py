"""The backend ``tensorrt`` for the registry."""

from __future__ import annotations

import torch

from trtdiag.engine.backend import Profile
from trtdiag.engine.manifest import Manifest
from trtdiag.engine.tensorrt.build import build
from trtdiag.engine.tensorrt.door import Door, gpu_name, open_door, require_gpu
from trtdiag.engine.tensorrt.log import last_lines, logger_of
from trtdiag.engine.tensorrt.runner import EngineRunner
from trtdiag.errors import ArtifactError, PlatformError
from trtdiag.network import Network
from trtdiag.options import CompileOptions
from trtdiag.targets import Target


class TensorRTBackend:
    """Builds engines with the TensorRT that is installed, for the GPU that is current."""

    name = "tensorrt"
    device = "cuda"

    def require(self, target: Target) -> None:
        """Nothing, where TensorRT of the target's version and a GPU are here.

        Raises:
            PlatformError: TensorRT or a GPU is missing, or TensorRT is another than the target (``engine-target``).
        """
        self._ready_for(target)

    def build(self, network: Network, profile: Profile, options: CompileOptions, target: Target) -> bytes:
        """The serialised engine.

        Raises:
            EngineBuildError: TensorRT refuses the network.
            PlatformError: TensorRT or a GPU is missing, or TensorRT is another than the target (``engine-target``).
        """
        return build(self._ready_for(target), network, profile, options)

    def load(self, blob: bytes | memoryview, manifest: Manifest) -> EngineRunner:
        """The engine, on the current GPU.

        Raises:
            ArtifactError: ``engine-elsewhere`` where it was built for another TensorRT or GPU, ``engine-damaged``.
            PlatformError: TensorRT or a GPU is missing.
        """
        door = self._ready()
        differences = _differences(door, manifest)
        if differences:
            raise ArtifactError(
                "an engine cannot run here",
                because="; ".join(differences),
                fix="compile the program on this machine, or build it anew from its networks (portable=True)",
                reference="engine-elsewhere",
            )
        logger = logger_of(door.trt)
        with logger.listeners.listening() as lines:
            runtime = door.trt.Runtime(logger)
            engine = runtime.deserialize_cuda_engine(blob)
            if engine is None:
                raise ArtifactError(
                    "TensorRT cannot read an engine",
                    because=last_lines(lines),
                    fix="compile the program again on this machine",
                    reference="engine-damaged",
                )
        device = torch.device("cuda", torch.cuda.current_device())
        return EngineRunner(door.trt, engine, manifest, device, alive=runtime)

    def built_by(self) -> tuple[str | None, str | None]:
        """The TensorRT that is installed and the GPU that is current."""
        return self._ready().version, gpu_name()

    def differences(self, manifest: Manifest) -> tuple[str, ...]:
        """What of this machine an engine cannot run on: another TensorRT, another GPU, or none of them."""
        try:
            door = self._ready()
        except PlatformError as error:
            return (f"{error.message}: {error.because}",)
        return _differences(door, manifest)

    def _ready_for(self, target: Target) -> Door:
        door = self._ready()
        if door.target.version != target.version:
            raise PlatformError(
                f"TensorRT {door.version} cannot build an engine for TensorRT {target.version}",
                because="an engine is built by the version that runs it",
                fix=f"compile with target={door.target.version!r}, or where TensorRT {target.version} is installed",
                reference="engine-target",
            )
        return door

    def _ready(self) -> Door:
        door = open_door()
        require_gpu()
        return door


def backend() -> TensorRTBackend:
    """The backend, for the registry."""
    return TensorRTBackend()


def _differences(door: Door, manifest: Manifest) -> tuple[str, ...]:
    found = []
    if manifest.tensorrt != door.version:
        found.append(f"it was built by TensorRT {manifest.tensorrt}, and here is {door.version}")
    here = gpu_name()
    if manifest.gpu != here:
        found.append(f"it was built for {manifest.gpu}, and here is {here}")
    return tuple(found)
