"""Compiled programs to serve, and plans of a builder that stands in for TensorRT, which is not here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import torch
from torch import nn

import trtdiag
from trtdiag.engine.backend import Backend, BuiltBy, Profile, Runner
from trtdiag.engine.build_watch import Watch
from trtdiag.engine.manifest import Manifest
from trtdiag.network import Network, canonical_hash
from trtdiag.options import CompileOptions
from trtdiag.targets import Target, get_target


class Tagger(nn.Module):
    """Images and words of a batch: a convolution, a table, and two results by name."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.words = nn.Embedding(50, 8)
        self.head = nn.Linear(8, 4)

    def forward(self, image: torch.Tensor, words: torch.Tensor) -> dict[str, torch.Tensor]:
        seen = torch.relu(self.conv(image)).mean((2, 3))
        read = self.words(words)
        return {"logits": self.head(seen + read.mean(1)), "states": read}


class Odd(nn.Module):
    """All kinds of tensors, one without dims among them, and a result that is none."""

    def forward(
        self,
        x: torch.Tensor,
        scale: torch.Tensor,
        on: torch.Tensor,
        half: torch.Tensor,
        brain: torch.Tensor,
        times: int,
    ) -> tuple[torch.Tensor, ...]:
        y = torch.where(on, x * scale, x) * times
        return y, y.sum(), half.double().cumsum(0), brain + 1, x.to(torch.int64), torch.tensor(True) & on.any()


def inputs_of_odd(size: int) -> tuple[torch.Tensor, ...]:
    """Of a size."""
    x = torch.arange(size).float() + 0.5
    return x, torch.tensor(2.0), x > 1, x.half(), x.bfloat16()


def compiled(module: nn.Module, *inputs: trtdiag.Input, **changes: object) -> trtdiag.CompiledProgram:
    usual = {"backend": "reference", "target": "10.16", "verify": False, "min_segment_ops": 0}
    return trtdiag.compile(module.eval(), inputs=list(inputs), **{**usual, **changes})  # type: ignore[arg-type]


@cache
def tagger() -> trtdiag.CompiledProgram:
    torch.manual_seed(0)
    image = trtdiag.Input((1, 3, 8, 8), (2, 3, 8, 8), (7, 3, 16, 16))
    words = trtdiag.Input((1, 1), (2, 5), (7, 13), dtype=torch.int64)
    return compiled(Tagger(), image, words)


@cache
def odd() -> trtdiag.CompiledProgram:
    dim = {0: torch.export.Dim("n", min=1, max=9)}
    program = torch.export.export(
        Odd(), (*inputs_of_odd(5), 3), dynamic_shapes=(dim, None, dim, dim, dim, None), strict=False
    )
    return trtdiag.compile(program, backend="reference", target="10.16", verify=False, min_segment_ops=0)


class StandIn(Backend):
    """Gives bytes for engines, which nothing runs: what is written around them is what is tested.

    Args:
        capability: The compute capability of the GPU that it says it has.
    """

    name = "tensorrt"
    device = "cuda"

    def __init__(self, capability: str = "9.0") -> None:
        self._capability = capability

    def require(self, target: Target) -> None:
        pass

    def build(self, network: Network, profile: Profile, options: CompileOptions, target: Target, watch: Watch) -> bytes:
        return f"plan of {canonical_hash(network)} for {self._capability}".encode()

    def load(self, blob: bytes | memoryview, manifest: Manifest) -> Runner:
        raise NotImplementedError

    def built_by(self) -> BuiltBy:
        return BuiltBy("10.16.1", f"GPU of {self._capability}", self._capability)

    def decisive(self, network: Network, options: CompileOptions) -> Mapping[str, object]:
        return {}

    def cannot_run(self, gpus: object) -> str:
        return "it stands in for TensorRT"


def as_plan(program: trtdiag.CompiledProgram, capability: str = "9.0", **changes: object) -> trtdiag.CompiledProgram:
    """The program with engines of the stand-in, its networks kept where they are asked for."""
    options = {"portable": True, **changes}
    return trtdiag.rebuild(program, StandIn(capability), target=get_target("10.16"), **options)  # type: ignore[arg-type]
