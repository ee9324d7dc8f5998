"""Ways to write a group norm without Normalization's own groups (8.6): each built and run beside PyTorch.

    python benchmarks/gpu/group_norms.py --models norm attention --ways own spelled

``norm``: one of 3 dims.  ``native``: that with its mean and deviation, which is written of these whatever the way:
8.6.0 had no kernel in float16 for another (H200, level 0).  ``attention``: what stands in the decoder of a VAE between
two residual blocks, with its sizes; 8.6.0 built it with a workspace of 32 GiB and in no way with 4.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
import torch.nn.functional as F
from torch.export import Dim

from trtdiag.convert.call import Call
from trtdiag.convert.layer_writers.normalization import normalized
from trtdiag.convert.layer_writers.statistics import affine, by_channel, moments, reciprocal_deviation
from trtdiag.convert.ops import group_norm as converters
from trtdiag.errors import TrtdiagError
from trtdiag.network.dtype import DType
from trtdiag.network.layers.elementwise import ElementWiseOperation as Op
from trtdiag.network.value import Value
from trtdiag.options import CompileOptions
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.targets import get_target
from trtdiag.verification.limits import VerifyLimits

_OWN = converters._normalized


def _parts(call: Call, sizes: Sequence[Any]) -> list[Value | None]:
    x = call.tensor("input")
    given = [by_channel(call.write, x, call.tensor_or_none(name)) for name in ("weight", "bias")]
    return [None if value is None else call.write.reshape(value, sizes) for value in given]


def _five_dims(call: Call, x: Value, groups: int, epsilon: float) -> Value:
    """As for images: one dim of size 1 more."""
    write = call.write
    sizes = [*converters._grouped(call, x, groups), *[1] * (4 - x.rank)]
    own = [1, groups, sizes[2], *[1] * (len(sizes) - 3)]
    y = normalized(
        write,
        write.reshape(x, sizes),
        range(2, len(sizes)),
        epsilon,
        *_parts(call, own),
        shape=own,
    )
    return write.reshape(y, x.shape)


def _row(call: Call, x: Value, groups: int, epsilon: float) -> Value:
    """A group as one row, and scale and bias behind it."""
    write = call.write
    y = normalized(
        write,
        write.reshape(x, converters._grouped(call, x, groups)),
        range(2, x.rank + 1),
        epsilon,
        None,
        None,
        shape=[1] * (x.rank + 1),
    )
    return affine(write, write.reshape(y, x.shape), *_parts(call, [1, x.shape[1], *[1] * (x.rank - 2)]))


def _spelled(call: Call, x: Value, groups: int, epsilon: float) -> Value:
    """Mean and deviation, in float32."""
    write = call.write
    sizes = converters._grouped(call, x, groups)
    own = [1, groups, sizes[2], *[1] * (x.rank - 2)]
    grouped = write.cast(write.reshape(x, sizes), DType.FLOAT32)
    mean, variance = moments(write, grouped, range(2, grouped.rank))
    centred = write.elementwise(Op.SUB, grouped, mean)
    deviation = reciprocal_deviation(write, variance, epsilon)
    y = affine(write, write.elementwise(Op.PROD, centred, deviation), *_parts(call, own))
    return write.cast(write.reshape(y, x.shape), x.dtype)


WAYS: dict[str, Callable[[Call, Value, int, float], Value]] = {
    "own": _OWN,
    "five": _five_dims,
    "row": _row,
    "spelled": _spelled,
}


class Native(torch.nn.Module):
    """A group norm that also gives its mean and deviation."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.GroupNorm(2, 6)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        n, c, size = x.shape
        return torch.native_group_norm(x, self.norm.weight, self.norm.bias, n, c, size, 2, 0.5)


class Norm(torch.nn.Module):
    """A group norm alone."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.GroupNorm(2, 6, eps=0.5)
        torch.nn.init.normal_(self.norm.weight)
        torch.nn.init.normal_(self.norm.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x)


class Attention(torch.nn.Module):
    """Attention of all places of an image, and the norm behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.GroupNorm(16, 128, eps=1e-6), torch.nn.GroupNorm(16, 128, eps=1e-6)
        self.q, self.k, self.v, self.out = (torch.nn.Linear(128, 128) for _ in range(4))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        n, c, h, w = image.shape
        x = self.first(image.view(n, c, h * w)).transpose(1, 2)
        q, k, v = (part(x).view(n, -1, 1, c).transpose(1, 2) for part in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, -1, c)
        y = self.out(y).transpose(1, 2).reshape(n, c, h, w) + image
        return F.silu(self.second(y))


def model(name: str, half: bool) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...], dict[str, Any], Any]:
    dtype = torch.float16 if half else torch.float32
    if name in ("native", "norm"):
        made = Native() if name == "native" else Norm()
        return made.to(dtype).eval(), (torch.randn(1, 6, 3, dtype=dtype),), {}, None
    sizes = {0: Dim("batch", min=1, max=32), 2: Dim("h", min=4, max=64), 3: Dim("w", min=4, max=64)}
    return Attention().to(dtype).eval(), (torch.randn(2, 128, 16, 20, dtype=dtype),), {}, (sizes,)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["norm", "native", "attention"])
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--precisions", nargs="+", default=["float32", "float16"])
    parser.add_argument("--workspace-mib", type=int, nargs="+", default=[4096])
    parser.add_argument("--level", type=int, default=0)
    parser.add_argument("--backend", default="tensorrt")
    parser.add_argument("--target", default=get_target(None).version)
    asked = parser.parse_args()
    for name in asked.models:
        for precision in asked.precisions:
            for workspace in asked.workspace_mib:
                for way in asked.ways:
                    options = CompileOptions(
                        asked.target, asked.backend, optimization_level=asked.level, workspace_mib=workspace, force=True
                    )
                    print(
                        name, precision, workspace, way, _said(name, precision == "float16", way, options), flush=True
                    )


def _said(name: str, half: bool, way: str, options: CompileOptions) -> str:
    """What came of it, on a line."""
    torch.manual_seed(0)
    converters._normalized = WAYS[way]
    begun = time.perf_counter()
    try:
        found = compile_in_stages(model(name, half), options, limits=VerifyLimits(seconds=5.0, total_s=0))
    except TrtdiagError as error:
        return f"{type(error).__name__} {time.perf_counter() - begun:.1f} s: {' '.join(str(error).split())[:700]}"
    checked = found.verification
    assert checked is not None
    results = [(result.passed, result.skipped) for result in checked.results]
    engines = [engine.manifest.backend for engine in found.engines]
    return f"{engines} passed {checked.passed} {time.perf_counter() - begun:.1f} s: {results}"[:700]


if __name__ == "__main__":
    main()
