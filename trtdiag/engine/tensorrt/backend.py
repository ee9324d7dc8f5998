"""The backend ``tensorrt`` for the registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch

from trtdiag.engine.backend import Backend, BuiltBy, Loaded, Profile
from trtdiag.engine.build_watch import Watch
from trtdiag.engine.engine_bytes import sha256_of
from trtdiag.engine.gil_lock import TURNS
from trtdiag.engine.manifest import Manifest
from trtdiag.engine.saved_engines import built_here, note_built
from trtdiag.engine.tensorrt.api_versions import Dialect
from trtdiag.engine.tensorrt.build import build, new_builder
from trtdiag.engine.tensorrt.compatibility import allow_host_code, gpu_difference, version_difference
from trtdiag.engine.tensorrt.config import chosen_sources
from trtdiag.engine.tensorrt.context_memory import ContextMemory
from trtdiag.engine.tensorrt.fat_binaries import without_other_gpus
from trtdiag.engine.tensorrt.lazy_import import (
    InstalledTensorRT,
    compute_capability,
    gpu_name,
    import_tensorrt,
    require_gpu,
)
from trtdiag.engine.tensorrt.log import last_lines, logger_of
from trtdiag.engine.tensorrt.refit import (
    leaves_weights_out,
    packed_engine,
    refitted,
    unpacked_engine,
    without_weights,
)
from trtdiag.engine.tensorrt.runner import EngineRunner, LoadedEngine
from trtdiag.errors import ArtifactError, PlatformError
from trtdiag.network import Network
from trtdiag.options import CompileOptions
from trtdiag.targets import Target

_Changed = TypeVar("_Changed", bytes, bytearray)
"""What a change of an engine gives."""


class TensorRTBackend(Backend):
    """Builds engines with the TensorRT that is installed, for the GPU that is current."""

    name = "tensorrt"
    device = "cuda"
    may_crash = True
    scratch: type[ContextMemory] = ContextMemory
    product = "TensorRT"
    elsewhere = (
        "compile the program on this machine, build it anew from its networks (portable=True), or compile"
        " for more than one machine (hardware_compatibility, version_compatible)"
    )
    again = "compile the program again on this machine"

    def require(self, target: Target) -> None:
        """Nothing, where TensorRT of the target's version and a GPU are here.

        Raises:
            PlatformError: TensorRT or a GPU is missing, or TensorRT is another than the target (``engine-target``).
        """
        self.installed_for(target)

    def warm_up(self) -> None:
        """Load TensorRT's kernels: the first builder of a process takes seconds for that (8.6.0 on an H200: 12)."""
        installed = self.installed()
        with logger_of(installed.trt).listeners.listening() as lines, TURNS.alone():
            new_builder(installed, lines)

    def build(self, network: Network, profile: Profile, options: CompileOptions, target: Target, watch: Watch) -> bytes:
        """The serialised engine.

        Raises:
            EngineBuildError: TensorRT refuses the network.
            PlatformError: TensorRT or a GPU is missing, or TensorRT is another than the target (``engine-target``).
        """
        return build(self.installed_for(target), network, profile, options, watch)

    def load(self, blob: bytes | memoryview, manifest: Manifest) -> EngineRunner:
        """The engine, on the current GPU.

        Raises:
            ArtifactError: ``engine-elsewhere`` where it was built for another TensorRT or GPU, ``engine-damaged``,
                ``engine-host-code``.
            PlatformError: TensorRT or a GPU is missing.
        """
        return self._deserialised(blob, manifest).runner(manifest)

    def _deserialised(self, blob: bytes | memoryview, manifest: Manifest) -> LoadedEngine:
        installed = self.installed()
        differences = self._differences(installed, manifest)
        if differences:
            raise ArtifactError(
                "an engine cannot run here",
                because="; ".join(differences),
                fix=self.elsewhere,
                reference="engine-elsewhere",
            )
        logger = logger_of(installed.trt)
        with logger.listeners.listening() as lines:
            with TURNS.alone():
                runtime = installed.trt.Runtime(logger)
                self.trust(runtime, manifest)
            with TURNS.beside():
                engine = runtime.deserialize_cuda_engine(self.own_engine(blob))
            if engine is None:
                raise ArtifactError(
                    f"{self.product} cannot read an engine",
                    because=last_lines(lines),
                    fix=self.again,
                    reference="engine-damaged",
                )
        device = torch.device("cuda", torch.cuda.current_device())
        return LoadedEngine(installed.trt, engine, device, runtime, self.scratch)

    def refit(
        self, blob: bytes | memoryview, network: Network, manifest: Manifest, loaded: Loaded | None = None
    ) -> tuple[bytearray, LoadedEngine]:
        """The engine with other weights; reading its bytes takes longer than all else, so one that is loaded is taken.

        Raises:
            ArtifactError: ``not-refittable``, ``refit-refused``; as ``load``.
            PlatformError: TensorRT or a GPU is missing.
        """
        if isinstance(loaded, LoadedEngine):
            torch.cuda.synchronize(loaded.device)  # what it is at work for still needs its weights
        else:
            loaded = self._deserialised(unpacked_engine(blob, network), manifest)
        return self._changed(refitted, loaded, network), loaded

    def stripped(self, blob: bytes | memoryview, network: Network, manifest: Manifest) -> bytes:
        """The engine without the weights that ``refit`` gives it; raises the same."""
        loaded = self._deserialised(unpacked_engine(blob, network), manifest)
        bare = self._changed(without_weights, loaded, network)
        # What TensorRT itself leaves weights out of was not tried without other GPUs' code.
        made = packed_engine(bare if leaves_weights_out(loaded.engine) else self._for_one_gpu(bare, manifest))
        if built_here(manifest.engine_sha256):
            note_built(sha256_of(made))
        return made

    def _for_one_gpu(self, plan: bytearray, manifest: Manifest) -> bytearray:
        """An engine without code for other GPUs, where it runs on none of them and TensorRT reads it so."""
        runs_on = manifest.compatibility
        if runs_on.hardware != "none" or runs_on.gpus or runs_on.compute_capability is None:
            return plan
        alone = without_other_gpus(plan, runs_on.compute_capability)
        try:
            self._deserialised(memoryview(alone), manifest)
        except ArtifactError:
            return plan
        return alone

    def _changed(
        self, change: Callable[[Dialect, Any, Network], _Changed], loaded: LoadedEngine, network: Network
    ) -> _Changed:
        with TURNS.alone():
            return change(Dialect(loaded.trt, self.installed().target), loaded.engine, network)

    def trust(self, runtime: Any, manifest: Manifest) -> None:
        """Let the engine bring code, where someone trusts it."""
        allow_host_code(runtime, manifest)

    def own_engine(self, blob: bytes | memoryview) -> bytes | memoryview:
        """Of the bytes those that are read here."""
        return blob

    def built_by(self) -> BuiltBy:
        """The TensorRT that is installed and the GPU that is current."""
        return BuiltBy(self.installed().version, gpu_name(), compute_capability())

    def decisive(self, network: Network, options: CompileOptions) -> Mapping[str, object]:
        """The options that TensorRT is told, but for the timing cache: its entries are measurements of the same."""
        del network
        return {**told_options(options), "hardware_compatibility": options.hardware_compatibility}

    def differences(self, manifest: Manifest) -> tuple[str, ...]:
        """What of this machine an engine cannot run on: another TensorRT, another GPU, or none of them."""
        try:
            installed = self.installed()
        except PlatformError as error:
            return (f"{error.message}: {error.because}",)
        return self._differences(installed, manifest)

    def _differences(self, installed: InstalledTensorRT, manifest: Manifest) -> tuple[str, ...]:
        return tuple(difference for difference in self.each_difference(installed, manifest) if difference)

    def each_difference(self, installed: InstalledTensorRT, manifest: Manifest) -> tuple[str, str]:
        """Those of the TensorRT and of the GPU here, empty where the engine does not mind."""
        return version_difference(manifest, installed.version), gpu_difference(
            manifest, gpu_name(), compute_capability()
        )

    def installed_for(self, target: Target) -> InstalledTensorRT:
        """The TensorRT that builds for this target."""
        installed = self.installed()
        if installed.target.version != target.version:
            raise PlatformError(
                f"TensorRT {installed.version} cannot build an engine for TensorRT {target.version}",
                because="an engine is built by the version that runs it",
                fix=f"compile with target={installed.target.version!r}, or with TensorRT {target.version} installed",
                reference="engine-target",
            )
        return installed

    def installed(self) -> InstalledTensorRT:
        """The TensorRT that runs engines here."""
        installed = import_tensorrt()
        require_gpu()
        return installed


def backend() -> TensorRTBackend:
    """The backend, for the registry."""
    return TensorRTBackend()


def told_options(options: CompileOptions) -> Mapping[str, object]:
    """The options that every TensorRT is told and that decide over an engine's bytes."""
    return {
        "workspace_mib": options.workspace_mib,
        "optimization_level": options.optimization_level,
        "tactic_sources": sorted(set(chosen_sources(options))),
        "tf32": options.tf32,
        "version_compatible": options.version_compatible,
        "refittable": options.refittable,
    }
