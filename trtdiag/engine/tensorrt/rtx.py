"""The backend ``tensorrt-rtx``: TensorRT's builder for RTX GPUs, which builds on any machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from trtdiag.engine.backend import BuiltBy, Loaded, Profile
from trtdiag.engine.build_watch import Watch
from trtdiag.engine.manifest import Manifest
from trtdiag.engine.tensorrt.backend import TensorRTBackend, told_options
from trtdiag.engine.tensorrt.build import build
from trtdiag.engine.tensorrt.engine_per_gpu import packed, unpacked
from trtdiag.engine.tensorrt.lazy_import import (
    TENSORRT_RTX,
    InstalledTensorRT,
    compute_capability,
    import_tensorrt,
    require_gpu,
)
from trtdiag.engine.tensorrt.rtx_contexts import RtxContextMemory
from trtdiag.engine.tensorrt.runner import LoadedEngine
from trtdiag.errors import ArtifactError, EngineBuildError, PlatformError, UserError
from trtdiag.network import Network
from trtdiag.options import CompileOptions
from trtdiag.targets import GENERATIONS, Target, chosen_gpus, get_rtx_target


class TensorRTRTXBackend(TensorRTBackend):
    """Builds engines with the TensorRT-RTX that is installed, for GPU generations that need not be here."""

    name = "tensorrt-rtx"
    scratch = RtxContextMemory  # what it makes never ran, for want of a GPU that TensorRT-RTX takes
    product = "TensorRT-RTX"
    elsewhere = "run the program where there is such a GPU; for outputs here compile with backend='reference'"
    again = "compile the program again with the release that is installed here"

    def build(self, network: Network, profile: Profile, options: CompileOptions, target: Target, watch: Watch) -> bytes:
        """The serialised engine, or where the options ask for one for each generation, all of them.

        Raises:
            EngineBuildError: TensorRT-RTX refuses the network; names the generation.
            PlatformError: TensorRT-RTX is missing, or another than the target (``engine-target``).
        """
        installed = self.installed_for(target)
        options = replace(options, gpu=self.chosen_gpus(self.target(None), options.gpu))
        if not options.engine_per_gpu:
            return build(installed, network, profile, options, watch)
        engines: dict[str, bytes] = {}
        for gpu in options.gpu:
            if len(options.gpu) > 1:
                watch.tell(f"for {gpu}", len(engines) / len(options.gpu))
            try:
                engines[gpu] = build(installed, network, profile, replace(options, gpu=(gpu,)), watch)
            except EngineBuildError as error:
                raise error.with_message(f"for {gpu} ({GENERATIONS[gpu]}): {error.message}") from error
        return packed(engines)

    def refit(
        self, blob: bytes | memoryview, network: Network, manifest: Manifest, loaded: Loaded | None = None
    ) -> tuple[bytearray, LoadedEngine]:
        """The engine with other weights, where there is a GPU that it runs on.

        Raises:
            ArtifactError: As its base; ``not-refittable`` for an engine for each generation in one file.
        """
        _refuse_several(blob)
        return super().refit(blob, network, manifest, loaded)

    def stripped(self, blob: bytes | memoryview, network: Network, manifest: Manifest) -> bytes:
        """The engine without weights; raises as ``refit``."""
        _refuse_several(blob)
        return super().stripped(blob, network, manifest)

    def trust(self, runtime: Any, manifest: Manifest) -> None:
        """Nothing: its engines bring no code."""

    def own_engine(self, blob: bytes | memoryview) -> bytes | memoryview:
        """The engine for the GPU here, where there is one for each generation."""
        engines = unpacked(blob)
        return blob if engines is None else engines[_gpu_here()]

    def target(self, asked: str | None) -> Target:
        """A target of TensorRT-RTX; where none is asked, that of the installed one.

        Raises:
            UserError: ``unknown-target``; ``wrong-option`` for a target of TensorRT.
        """
        found = get_rtx_target(asked)
        if found.api is None:
            raise UserError(
                f"the backend {self.name!r} builds nothing for {found.name}",
                because="TensorRT runs no engines of TensorRT-RTX, nor the other way round",
                fix="leave the target out, or try the build alone: trtdiag analyze --try-build",
                reference="wrong-option",
            )
        return found

    def chosen_gpus(self, target: Target, asked: Sequence[str]) -> tuple[str, ...]:
        """The generations to build for, by age.

        Where none is asked, that of the GPU here if it is one, else all that have all kinds of layers: one that lacks
        some, as Turing the products of float32, would take them from the others.

        Raises:
            UserError: ``unknown-gpu``.
        """
        if asked:
            return chosen_gpus(target, asked)
        if not _other_gpu(target.gpus):
            return (_gpu_here(),)
        limited = {limit.gpu for limit in target.gpu_limits}
        return tuple(gpu for gpu in target.gpus if gpu not in limited)

    def cannot_run(self, gpus: Sequence[str]) -> str:
        """Why engines for these generations cannot run here: no GPU, or another; empty where one can."""
        return _other_gpu(gpus)

    def built_by(self) -> BuiltBy:
        """The TensorRT-RTX that is installed; the GPU here does not matter."""
        return BuiltBy(self.installed().version)

    def decisive(self, network: Network, options: CompileOptions) -> Mapping[str, object]:
        """The options that TensorRT-RTX is told."""
        del network
        gpus = list(self.chosen_gpus(self.installed().target, options.gpu))
        return {**told_options(options), "gpus": gpus, "engine_per_gpu": options.engine_per_gpu}

    def each_difference(self, installed: InstalledTensorRT, manifest: Manifest) -> tuple[str, str]:
        """Those of the TensorRT-RTX and of the GPU here."""
        other = f"it was built by TensorRT-RTX {manifest.tensorrt}, and {installed.version} is installed"
        return "" if manifest.tensorrt == installed.version else other, _other_gpu(manifest.compatibility.gpus)

    def installed(self) -> InstalledTensorRT:
        """The TensorRT-RTX that is installed; building needs no GPU."""
        return import_tensorrt(TENSORRT_RTX)

    def installed_for(self, target: Target) -> InstalledTensorRT:
        """The TensorRT-RTX that builds for this target."""
        installed = self.installed()
        if installed.target.version == target.version:
            return installed
        if installed.target.api == target.version:  # its builder alone, tried for a network of that TensorRT
            return replace(installed, target=target)
        raise PlatformError(
            f"TensorRT-RTX {installed.version} cannot build for {target.name}",
            because=f"it is {installed.target.name}, with the builder of TensorRT {installed.target.api}",
            fix=f"use the target {installed.target.version}, or install the release that fits {target.version}",
            reference="engine-target",
        )


def backend() -> TensorRTRTXBackend:
    """The backend, for the registry."""
    return TensorRTRTXBackend()


def _refuse_several(blob: bytes | memoryview) -> None:
    if unpacked(blob) is not None:
        raise ArtifactError(
            "engines for several GPU generations cannot take other weights",
            because="an engine takes them on a GPU that it runs on, and no machine has all of these",
            fix="compile without engine_per_gpu, or compile with the new weights",
            reference="not-refittable",
        )


def _other_gpu(gpus: Sequence[str]) -> str:
    try:
        require_gpu()
    except PlatformError as error:
        return f"{error.message}, and it was built for {', '.join(gpus)}"
    here = _gpu_here()
    return "" if here in gpus else f"it was built for {', '.join(gpus)}, and the GPU here is of {here}"


def _gpu_here() -> str:
    return f"sm{compute_capability().replace('.', '')}"
