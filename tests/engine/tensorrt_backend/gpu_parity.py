"""Networks on TensorRT beside the reference functions, at the least, usual and greatest sizes."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from layer_samples import Case, In, case_for, in_half, in_place_of_float32
from seed_models import seeds

import trtdiag
from trtdiag.engine.backend import Profile, get_backend
from trtdiag.engine.build import build_engine
from trtdiag.engine.profiles import network_profile
from trtdiag.network import DType, Layer, Network, Tensor, run, size_at
from trtdiag.network.layers.convolution import Convolution, Deconvolution
from trtdiag.network.layers.matmul import MatrixMultiply, MatrixOperation
from trtdiag.options import CompileOptions, PartitionOptions, Precision
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.symbolic import Num, Sym
from trtdiag.targets import get_target

# Of a difference, relative to the reference where that is above 1.  float32: TensorRT's own exp, erf and sums in
# another order, of up to 108 terms.  float16 has 11 bits, 5e-4 an operation.
TOLERANCE = {"float32": 2e-4, "float16": 3e-2}
HALF_EPSILON = 2.0**-11
PRECISIONS = ("float32", "float16")
LAYER_DTYPES = (*PRECISIONS, "int32", "bool")
"""A layer's float32 is replaced by each of these that it takes."""


@dataclass
class Parity:
    """How far an engine is from the reference.

    ``worst`` is the largest difference of floats, of the reference's magnitude where that is above 1; ``wrong`` counts
    integers, bools, infinities and NaNs that are not the same; ``terms`` is the longest sum of products.
    """

    points: int = 0
    worst: float = 0.0
    wrong: int = 0
    build_s: float = 0.0
    half: bool = False
    terms: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def tolerance(self) -> float:
        if not self.half:
            return TOLERANCE["float32"]
        # TensorRT sums products of float16 in float16 too: each sum so far is rounded to 11 bits.
        return max(TOLERANCE["float16"], self.terms * HALF_EPSILON)

    @property
    def agrees(self) -> bool:
        return self.points > 0 and not self.wrong and self.worst <= self.tolerance


def sample(name: str, precision: str, target: str) -> Case | None:
    """A layer's case; ``None`` where there is none of that precision."""
    case = case_for(name, target)
    if precision == "float16":
        return in_half(case)
    return case if precision == "float32" else in_place_of_float32(case, DType(precision))


def layer_parity(name: str, precision: str, options: CompileOptions) -> Parity | None:
    """One layer; ``None`` where it has no such precision."""
    target = get_target(options.target)
    case = sample(name, precision, target.version)
    if case is None:
        return None
    network = case.network()
    usual = case.points[1]
    profile = network_profile(network, {key: value for key, value in usual.items() if key in network.ranges})

    def inputs() -> Iterator[list[torch.Tensor]]:
        for seed, point in enumerate(case.points):
            drawn = case.tensors(point, seed)
            yield [tensor for one, tensor in zip(case.inputs, drawn, strict=True) if isinstance(one, In)]

    return compared(network, profile, options, inputs())


def seed_parity(name: str, precision: str, options: CompileOptions) -> Parity:
    """The networks of a small model."""
    chosen = Precision.FP16 if precision == "float16" else Precision.KEEP
    reference = CompileOptions(
        options.target, "reference", chosen, verify=False, partition=PartitionOptions(min_segment_ops=0)
    )
    found = compile_in_stages(seeds()[name], reference)
    whole = Parity()
    for converted, engine in zip(found.converted, found.engines, strict=True):
        profile = {port.name: port.profile for port in engine.manifest.inputs}
        one = compared(converted.network, profile, options, _drawn(converted.network, profile))
        whole.points += one.points
        whole.worst = max(whole.worst, one.worst)
        whole.wrong += one.wrong
        whole.half |= one.half
        whole.terms = max(whole.terms, one.terms)
        whole.build_s += one.build_s
        whole.notes += one.notes
    return whole


def compared(
    network: Network, profile: Profile, options: CompileOptions, inputs: Iterator[Sequence[torch.Tensor]]
) -> Parity:
    """The network on the options' backend and on the reference, for all inputs."""
    backend = get_backend(options.backend)
    begun = time.perf_counter()
    engine = build_engine(backend, network, profile, options, get_target(options.target))
    half = any(tensor.dtype is DType.FLOAT16 for tensor in network.tensors)
    parity = Parity(build_s=time.perf_counter() - begun, half=half, terms=longest_sum(network))
    runner = backend.load(engine.blob, engine.manifest)
    for given in inputs:
        expected = run(network, given)
        on_gpu = [
            tensor if port.is_size else tensor.to(backend.device)
            for tensor, port in zip(given, engine.manifest.inputs, strict=True)
        ]
        for index, (actual, wanted) in enumerate(zip(runner(on_gpu), expected, strict=True)):
            _compare(parity, index, actual.cpu(), wanted)
        parity.points += 1
    return parity


def longest_sum(network: Network) -> int:
    """How many products a convolution or a product of matrices adds up; 0 where that is no number."""
    return max(
        (_terms(placed.layer, network.tensors[placed.inputs[1]]) for placed in network.layers if placed.inputs[1:]),
        default=0,
    )


def _terms(layer: Layer, weight: Tensor) -> int:
    if isinstance(layer, Convolution):
        summed = weight.shape[1:]
    elif isinstance(layer, Deconvolution):
        summed = (weight.shape[0], *weight.shape[2:])
    elif isinstance(layer, MatrixMultiply):
        summed = weight.shape[-2:-1] if layer.op1 is MatrixOperation.NONE else weight.shape[-1:]
    else:
        return 0
    sizes = [size.value for size in summed if isinstance(size, Num)]
    return math.prod(sizes) if len(sizes) == len(summed) else 0


def _compare(parity: Parity, index: int, actual: torch.Tensor, wanted: torch.Tensor) -> None:
    if actual.shape != wanted.shape or actual.dtype is not wanted.dtype:
        parity.wrong += 1
        parity.notes.append(
            f"output {index}: {actual.dtype} {tuple(actual.shape)}, not {wanted.dtype} {tuple(wanted.shape)}"
        )
        return
    if not wanted.is_floating_point():
        off = int((actual != wanted).sum())
    else:
        one, other = actual.double(), wanted.double()
        finite = other.isfinite()
        same = torch.where(finite, one.isfinite(), (one == other) | (one.isnan() & other.isnan()))
        off = int((~same).sum())
        both = finite & one.isfinite()
        gap = ((one - other).abs() / other.abs().clamp(min=1))[both]
        parity.worst = max(parity.worst, float(gap.max()) if gap.numel() else 0.0)
    if off:
        parity.wrong += off
        parity.notes.append(f"output {index}: {off} of {wanted.numel()} are not the same")


def _drawn(network: Network, profile: Profile) -> Iterator[list[torch.Tensor]]:
    """Inputs where every symbol is least, usual and greatest; integers are a permutation along the last dim."""
    for end in ("min", "opt", "max"):
        values = _symbols(network, profile, end)
        generator = torch.Generator().manual_seed(7)
        given = []
        for tensor in network.input_types:
            if tensor.values is not None:
                given.append(torch.tensor(size_at(tensor.values[0], values), dtype=tensor.dtype.torch))
                continue
            drawn = torch.randn([size_at(size, values) for size in tensor.shape], generator=generator)
            elements = drawn if tensor.dtype.is_float else drawn.argsort(-1)
            given.append(elements.to(tensor.dtype.torch))
        yield given


def _symbols(network: Network, profile: Profile, end: str) -> Mapping[str, int]:
    """The symbols' values where each plain size has its least, usual or greatest value."""
    found: dict[str, int] = {}
    for port, tensor in zip(network.inputs, network.input_types, strict=True):
        for size, own in zip(tensor.values or tensor.shape, profile[port.name], strict=True):
            if isinstance(size, Sym):
                found.setdefault(size.name, getattr(own, end))
    for name, own in network.ranges.items():
        found.setdefault(name, {"min": own.min, "max": own.max}.get(end) or own.min or 0)
    return found


def program_parity(name: str, precision: str, options: CompileOptions) -> Parity:
    """A small model compiled where its engines run, saved, loaded and run, beside PyTorch in float32 on the CPU."""
    module, args, kwargs, dims = seeds()[name]
    chosen = Precision.FP16 if precision == "float16" else Precision.KEEP
    asked = replace(options, precision=chosen, verify=False, partition=PartitionOptions(min_segment_ops=0))
    device = get_backend(options.backend).device
    with torch.inference_mode():
        expected = module(*args, **kwargs)
    begun = time.perf_counter()
    there = tuple(arg.to(device) for arg in args)
    compiled = compile_in_stages((module.to(device), there, kwargs, dims), asked).compiled
    parity = Parity(build_s=time.perf_counter() - begun, half=precision == "float16")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "compiled.ep"
        trtdiag.save(compiled, path)
        ways: list[Any] = [compiled, torch.export.load(path).module()]
    for way in ways:
        with torch.inference_mode():
            actual = way(*there)
        for index, (got, wanted) in enumerate(zip(_tuple(actual), _tuple(expected), strict=True)):
            _compare(parity, index, got.cpu(), wanted)
        parity.points += 1
    return parity


def _tuple(value: Any) -> tuple[torch.Tensor, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)
