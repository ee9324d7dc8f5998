"""OPS506."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from trtdiag.analysis.fallbacks import PartitionFacts
from trtdiag.analysis.places import at_origin
from trtdiag.analysis.rules import Evidence, Fix, Hit, Severity, rule
from trtdiag.frontend.program import Program
from trtdiag.lower.lowered_facts import FourierProducts, whole_of
from trtdiag.partition.facts import EnginePlan
from trtdiag.symbolic import BoundsCache, evaluate, free_symbols, to_text


@rule("OPS506", "fourier-as-products", Severity.INFO)
def fourier_as_products(program: Program, facts: PartitionFacts) -> Iterator[Hit]:
    """A Fourier transform is written as products with matrices, so that it can be in an engine.

    Why:
        TensorRT has no FFT and no complex numbers.  A transform of n points is a product with an n x n
        matrix of constants, or, of more than 512 points, two products with smaller ones.  Where the input
        decides the length, the matrix is computed at each call, for up to 512 points.  That is more
        arithmetic than an FFT, in the operations that GPUs are made for, and it keeps the engine in one
        piece.  Transforms whose products would have sums of more than 512 terms stay in PyTorch: OPS502
        says so.

    Example:
        torch.stft(audio, n_fft=400, hop_length=160, window=window, return_complex=True)  # 400 points: products
        torch.stft(audio, n_fft=1021, ...)                           # prime and long: stays in PyTorch

    Fix safety:
        Manual: nothing has to change.  keep_in_torch=["aten._fft_r2c"] leaves the transforms to PyTorch.

    Source:
        The complex-numbers pass of lowering; an FFT is counted as 5 n log2 n, half as much of real numbers.
    """
    calls = Counter((each.target, each.points, each.fixed) for each in facts.plan.lowered.transforms)
    for each in facts.plan.lowered.transforms:
        count = calls[each.target, each.points, each.fixed]
        told = f"{each.target} ({count} calls)" if count > 1 else each.target
        points = " x ".join(map(str, each.points))
        times = round(each.operations / each.of_fft)
        more = f", {times} times the arithmetic of an FFT" if times > 1 else ""
        made = "constant matrices" if each.fixed else "matrices that are computed at each call"
        least = "" if each.fixed else "up to "
        told += f" of {least}{points} points {'are' if count > 1 else 'is'} written as products with {made}"
        yield Hit(
            told + more,
            _evidence(each, facts.plan),
            at_origin(whole_of(each.node, program.origins), each.origin, each.target),
            fix=Fix(
                "nothing has to change; where the FFT is faster, leave it to PyTorch",
                code=f"--keep-in-torch {each.target.removesuffix('.default')}",
            ),
            cause=f"{each.target} {least}{points}",
            identity=f"{each.target} {least}{points}",
        )


def _evidence(each: FourierProducts, plan: EnginePlan) -> tuple[Evidence, ...]:
    once = f"{_count(each.operations)} for one transform; an FFT takes about {_count(each.of_fft)}"
    told = Evidence(once, each.target)
    usual = {name: profile.opt for name, profile in plan.sizes.profiles().items()}
    if each.times is None or not free_symbols(each.times) <= usual.keys():
        return (told,)
    most = BoundsCache(plan.sizes.box).of(each.times).range.max
    end = "no maximum" if most is None else f"{_count(most * each.operations)} at the maximum"
    if each.fixed:
        end = f"{_count(int(evaluate(each.times, usual)) * each.operations)} at usual sizes, {end}"
    return told, Evidence(end, f"{to_text(each.times)} transforms")


def _count(operations: int) -> str:
    """``8 FLOP``, ``320 kFLOP``, ``1.2 GFLOP``."""
    for unit, size in (("T", 10**12), ("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if operations >= size:
            return f"{operations / size:.3g} {unit}FLOP"
    return f"{operations} FLOP"
