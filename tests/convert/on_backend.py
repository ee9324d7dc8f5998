"""Runs an op's network as an engine of a backend, beside PyTorch: the same calls and sizes as on the reference."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from tests.convert.op_check import Compared
from trtdiag.convert.facts import ConvertedSegment
from trtdiag.engine.backend import Profile, get_backend
from trtdiag.engine.build import build_engine
from trtdiag.network import Network
from trtdiag.options import CompileOptions
from trtdiag.shapes.profile import DimProfile
from trtdiag.targets import get_target

# Of the greatest finite element, or of 1.  float32: TensorRT's own exp, erf and sums in another order.  float16 has 11
# bits, 5e-4 an operation, and TensorRT may also sum in it.
TOLERANCE = {torch.float32: 2e-4, torch.float16: 1e-2}


@dataclass
class Beside:
    """How far an engine is from PyTorch.

    Attributes:
        options: The backend and what the engine is built with.
        near: Of the greatest element, by dtype, where it is more than ``TOLERANCE``.
        compare: Called with both results in the place of that.
        worst: The greatest difference of floats, in parts of what is allowed.
        wrong: Elements that are not the same though they are no finite floats.
        points: Sets of sizes.
        build_s: What building took.
        notes: What differs, in words.
    """

    options: CompileOptions
    near: Mapping[torch.dtype, float] = field(default_factory=dict)
    compare: Callable[[torch.Tensor, torch.Tensor], None] | None = None
    worst: float = 0.0
    wrong: int = 0
    points: int = 0
    build_s: float = 0.0
    notes: list[str] = field(default_factory=list)

    @property
    def agrees(self) -> bool:
        """Whether every element is as near as it must be."""
        return self.points > 0 and not self.wrong and self.worst <= 1.0

    def __call__(self, converted: ConvertedSegment, compared: Sequence[Compared]) -> None:
        """Build the engine for the sizes that were compared, and run it with each."""
        network, backend = converted.network, get_backend(self.options.backend)
        begun = time.perf_counter()
        profile = profile_of(network, [one.inputs for one in compared])
        engine = build_engine(backend, network, profile, self.options, get_target(self.options.target))
        self.build_s = time.perf_counter() - begun
        runner = backend.load(engine.blob, engine.manifest)
        for one in compared:
            given = [
                tensor if port.is_size else tensor.to(backend.device)
                for tensor, port in zip(one.inputs, engine.manifest.inputs, strict=True)
            ]
            for crossing, wanted, got in zip(converted.outputs, one.wanted, runner(given), strict=True):
                self._compare(crossing.node, wanted, got.cpu().to(crossing.program_dtype))
            self.points += 1

    def _compare(self, name: str, wanted: torch.Tensor, got: torch.Tensor) -> None:
        if (wanted.shape, wanted.dtype) != (got.shape, got.dtype):
            self.wrong += 1
            self.notes.append(f"{name}: {got.dtype}{list(got.shape)}, not {wanted.dtype}{list(wanted.shape)}")
            return
        if self.compare is not None:
            try:
                self.compare(wanted, got)
            except AssertionError as error:
                self.wrong += 1
                self.notes.append(f"{name}: {error}"[:300])
            return
        off = int((wanted != got).sum()) if not wanted.is_floating_point() else self._floats(wanted, got)
        if off:
            self.wrong += off
            self.notes.append(f"{name}: {off} of {wanted.numel()} are not the same")

    def _floats(self, wanted: torch.Tensor, got: torch.Tensor) -> int:
        """How many are not of one kind, finite, infinite or NaN; the difference of those that are goes to ``worst``."""
        one, other = wanted.double(), got.double()
        finite = one.isfinite()
        same = torch.where(finite, other.isfinite(), (one == other) | (one.isnan() & other.isnan()))
        both = finite & other.isfinite()
        if bool(both.any()):
            part = max(TOLERANCE.get(wanted.dtype, 0.0), self.near.get(wanted.dtype, 0.0))
            allowed = part * max(1.0, float(one[finite].abs().max()))
            self.worst = max(self.worst, float((one - other)[both].abs().max()) / allowed)
        return int((~same).sum())


def profile_of(network: Network, given: Sequence[Sequence[torch.Tensor]]) -> Profile:
    """The least and greatest sizes among inputs; usual are those of the first."""
    profile = {}
    for index, port in enumerate(network.inputs):
        sizes = [tuple(inputs[index].shape) for inputs in given]
        profile[port.name] = tuple(DimProfile(min(along), along[0], max(along)) for along in zip(*sizes, strict=True))
    return profile
