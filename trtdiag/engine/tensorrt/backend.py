"""The backend ``tensorrt`` for the registry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from trtdiag.engine.backend import BuiltBy, Profile
from trtdiag.engine.build_watch import Watch
from trtdiag.engine.gil_lock import TURNS
from trtdiag.engine.manifest import Manifest
from trtdiag.engine.tensorrt.build import build
from trtdiag.engine.tensorrt.compatibility import allow_host_code, gpu_difference, version_difference
from trtdiag.engine.tensorrt.config import chosen_sources
from trtdiag.engine.tensorrt.lazy_import import Door, compute_capability, gpu_name, open_door, require_gpu
from trtdiag.engine.tensorrt.log import last_lines, logger_of
from trtdiag.engine.tensorrt.runner import EngineRunner
from trtdiag.errors import ArtifactError, PlatformError
from trtdiag.network import Network
from trtdiag.options import CompileOptions
from trtdiag.targets import Target, chosen_gpus, get_target


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

    def build(self, network: Network, profile: Profile, options: CompileOptions, target: Target, watch: Watch) -> bytes:
        """The serialised engine.

        Raises:
            EngineBuildError: TensorRT refuses the network.
            PlatformError: TensorRT or a GPU is missing, or TensorRT is another than the target (``engine-target``).
        """
        return build(self._ready_for(target), network, profile, options, watch)

    def load(self, blob: bytes | memoryview, manifest: Manifest) -> EngineRunner:
        """The engine, on the current GPU.

        Raises:
            ArtifactError: ``engine-elsewhere`` where it was built for another TensorRT or GPU, ``engine-damaged``,
                ``engine-host-code``.
            PlatformError: TensorRT or a GPU is missing.
        """
        door = self._ready()
        differences = _differences(door, manifest)
        if differences:
            raise ArtifactError(
                "an engine cannot run here",
                because="; ".join(differences),
                fix="compile the program on this machine, build it anew from its networks (portable=True), or compile"
                " for more than one machine (hardware_compatibility, version_compatible)",
                reference="engine-elsewhere",
            )
        logger = logger_of(door.trt)
        with logger.listeners.listening() as lines:
            with TURNS.alone():
                runtime = door.trt.Runtime(logger)
                allow_host_code(runtime, manifest)
            with TURNS.beside():
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

    def target(self, asked: str | None) -> Target:
        """Any target; where none is asked, that of the installed TensorRT, else the newest known."""
        return get_target(asked)

    def chosen_gpus(self, target: Target, asked: Sequence[str]) -> tuple[str, ...]:
        """Those that are asked, of a target that has some."""
        return chosen_gpus(target, asked)

    def cannot_run(self, gpus: Sequence[str]) -> str:
        """Nothing: what is built here runs here."""
        del gpus
        return ""

    def built_by(self) -> BuiltBy:
        """The TensorRT that is installed and the GPU that is current."""
        return BuiltBy(self._ready().version, gpu_name(), compute_capability())

    def decisive(self, network: Network, options: CompileOptions) -> Mapping[str, object]:
        """The options that TensorRT is told, but for the timing cache: its entries are measurements of the same."""
        del network
        return {
            "workspace_mib": options.workspace_mib,
            "optimization_level": options.optimization_level,
            "tactic_sources": sorted(set(chosen_sources(options))),
            "tf32": options.tf32,
            "hardware_compatibility": options.hardware_compatibility,
            "version_compatible": options.version_compatible,
        }

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
    found = (
        version_difference(manifest, door.version),
        gpu_difference(manifest, gpu_name(), compute_capability()),
    )
    return tuple(difference for difference in found if difference)
