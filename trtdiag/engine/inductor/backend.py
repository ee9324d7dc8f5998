"""The backend ``inductor``: runs segments that AOTInductor compiled; it builds none from a network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

import torch

from trtdiag.engine.backend import Backend, Profile
from trtdiag.engine.build_watch import Watch
from trtdiag.engine.inductor.package import Package, Place
from trtdiag.engine.inductor.runner import CompiledCode, OpByOp, SegmentRunner, warned
from trtdiag.engine.manifest import Manifest
from trtdiag.errors import EngineBuildError
from trtdiag.network import Network
from trtdiag.options import CompileOptions
from trtdiag.targets import Target


class InductorBackend(Backend):
    """Runs what ``--optimize latency`` compiled with AOTInductor.

    Such a segment comes from the ops of the program, not from a network: ``trtdiag.pipeline.latency`` makes it.
    """

    name = "inductor"
    device = "cpu"
    builds = False

    def require(self, target: Target) -> None:
        """Nothing: PyTorch brings AOTInductor."""
        del target

    def build(
        self, network: Network, profile: Profile, options: CompileOptions, target: Target, watch: Watch
    ) -> NoReturn:
        """Nothing that can be done: a network does not say which ops of PyTorch it came from.

        Raises:
            EngineBuildError: ``inductor-network``.
        """
        del network, profile, options, target, watch
        raise EngineBuildError(
            "the backend 'inductor' builds nothing from a network",
            because="AOTInductor compiles ops of PyTorch, and a network has TensorRT's layers",
            fix="compile the program with optimize='latency', which takes it where it is faster",
            reference="inductor-network",
        )

    def load(self, blob: bytes | memoryview, manifest: Manifest) -> SegmentRunner:
        """The segment, by its compiled code where that runs here, else op by op by PyTorch, with a warning.

        Raises:
            ArtifactError: ``engine-damaged``.
        """
        package = Package.read(blob)
        device = torch.device(manifest.device)
        if manifest.device == "cuda":
            device = torch.device("cuda", torch.cuda.current_device())
        differences = package.place.differences(Place.here(manifest.device))
        op_by_op = OpByOp(package.segment, device)
        if differences:
            warned(differences)
        run = op_by_op if differences else CompiledCode(package, device)
        return SegmentRunner(manifest, run, op_by_op, device, package.graphs)

    def decisive(self, network: Network, options: CompileOptions) -> Mapping[str, object]:
        """Nothing: it is never asked for the key of a network."""
        del network, options
        return {}


def backend() -> InductorBackend:
    """The backend, for the registry."""
    return InductorBackend()
