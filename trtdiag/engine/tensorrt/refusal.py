"""Refusals of TensorRT as errors that name the layer, its op and its source line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from trtdiag.engine.tensorrt.log import Lines, errors_of, last_lines
from trtdiag.errors import EngineBuildError, PlatformError
from trtdiag.network import Network, Placed
from trtdiag.targets import Target

_MEMORY = re.compile(
    r"out of memory|OutOfMemory|cudaErrorMemoryAllocation|Requested amount of GPU memory",
    re.IGNORECASE,
)
_NO_KERNEL = re.compile(r"find any implementation", re.IGNORECASE)
_NO_RUNNER = re.compile(r"has no runners that implement", re.IGNORECASE)
"""TensorRT-RTX 1.7.1.116 of a layer kind without any kernel (NonZero), for which more memory is of no use."""
_NOT_COMPILED = re.compile(
    rf"{_NO_KERNEL.pattern}|{_NO_RUNNER.pattern}|Error Code \d+: Myelin(?!.*HW-specific)", re.IGNORECASE
)
"""A stretch without kernels, or one that TensorRT's compiler of stretches (Myelin) gives up on; not for a type that the
GPU does not have, which no single op brings."""
_TOO_LITTLE = re.compile(r"workspace|insufficient memory", re.IGNORECASE)
_WORKSPACE = re.compile(f"{_NO_KERNEL.pattern}|{_TOO_LITTLE.pattern}", re.IGNORECASE)
_ADVICE: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"tensor volume|volume exceeds|2147483647|2\^31", re.IGNORECASE),
        "declare smaller ranges: no tensor of an engine may have more than 2^31 - 1 elements at its greatest sizes",
    ),
    (
        _MEMORY,
        "free GPU memory (nvidia-smi shows who holds it), or declare smaller ranges: an engine is built for the"
        " greatest sizes",
    ),
    (
        _WORKSPACE,
        "give the build more memory (workspace_mib), allow more tactic sources (tactic_sources), or leave the op to"
        " PyTorch ({keep})",
    ),
    (
        re.compile(r"optimization profile|profile|kMIN|kOPT|kMAX|negative dim|invalid dim", re.IGNORECASE),
        "declare ranges in which every size is possible, and compile again",
    ),
    (
        re.compile(r"\bSM\b|compute capability|CUDA initialization|driver", re.IGNORECASE),
        "use a TensorRT release that supports this GPU and driver",
    ),
)
_LITTLE_MIB = 512
"""Own choice: a builder of 8.6.0 takes 1.4 GiB for its kernels; without them it says many things, but not "memory"."""
_LEAVE = "leave the op to PyTorch ({keep}), and report it with the model"
_STRETCH = re.compile(r"ForeignNode\[(.+?)\.\.\.(.+?)\]")
"""How 8.6 names what it compiles as one: the first and the last of its layers."""


def refused_layer(network: Network, placed: Placed, lines: Lines, why: str = "") -> EngineBuildError:
    """The error for a layer that TensorRT does not take."""
    said = last_lines(lines)
    return EngineBuildError(
        f"TensorRT refuses {network.describe(placed)}",
        because=f"{why}; {said}" if why else said,
        fix=_advice(f"{why}; {said}", placed),
        reference="layer-refused",
    )


def refused_builder(version: str, lines: Lines, why: str) -> PlatformError:
    """The error for a GPU that TensorRT makes no builder for."""
    said = last_lines(lines)
    full = _MEMORY.search(said) is not None
    return PlatformError(
        "the GPU has too little memory left to build engines" if full else f"TensorRT {version} cannot use this GPU",
        because=f"{said} ({why})",
        fix=_advice(said) if full else "update the driver, or install a TensorRT release for this GPU and driver",
        reference="builder-memory" if full else "builder-missing",
    )


def lacking(network: Network, placed: Placed, target: Target, what: str) -> EngineBuildError:
    """The error for a layer that the version does not have."""
    return EngineBuildError(
        f"{target.name} has no {what}, which {network.describe(placed)} needs",
        because=f"the network was not written for {target.name}",
        fix=f"compile with target={target.version!r}, so that the op is written with the layers that it has",
        reference="layer-missing",
    )


def refused_build(
    network: Network, layers: Mapping[str, Placed], lines: Lines, *, great: str = "", free: int | None = None
) -> EngineBuildError:
    """The error for a network that TensorRT does not build, with the layers that its log names.

    Args:
        network: It.
        layers: Its layers by the names that TensorRT knows them by.
        lines: What TensorRT said.
        great: Which of its tensors may be too great; told where TensorRT may mean that.
        free: MiB of the GPU's memory that are free; told where that is little, whatever TensorRT says.
    """
    errors = errors_of(lines)
    named = named_layers(layers, errors)
    stretch = _stretch(layers, errors)
    if stretch is not None:
        first, last = (network.describe(placed) for placed in stretch)
        named, where = [stretch[1]], f"what it compiles as one, from {first} to {last}"
    else:
        where = "; ".join(network.describe(placed) for placed in named[:3])
    said = last_lines(lines)
    why = "; ".join(errors) or said
    told = f"; {great}" if great and _WORKSPACE.search(why) else ""
    if free is not None and free < _LITTLE_MIB:
        told += f"; {free:,} MiB of the GPU's memory are free (out of memory)"
    error = EngineBuildError(
        f"TensorRT does not build the engine: {where}" if where else "TensorRT does not build the engine",
        because=said + told,
        fix=_advice(why + told, named[0] if named else None),
        reference="engine-refused",
    )
    if _NOT_COMPILED.search(why) and not told and not _MEMORY.search(why) and not _TOO_LITTLE.search(why):
        # Where no layer of ours is named, it may be any.
        ends = stretch or named or (network.layers[0], network.layers[-1])
        error.without_kernel = tuple(placed.origin.node for placed in ends)
    return error


def _stretch(layers: Mapping[str, Placed], errors: Sequence[str]) -> tuple[Placed, Placed] | None:
    """The first and the last layer of the stretch that the last error names, in the order of their lines."""
    match = next((found for line in reversed(errors) if (found := _STRETCH.search(line))), None)
    if match is None:
        return None
    first, last = (named_layers(layers, [match[index]]) for index in (1, 2))
    if not first or not last:
        return None
    # A constant is of no line: where such a stretch begins nobody can look up, its end says more.
    begin = next((placed for placed in first if placed.origin.frame is not None), last[0])
    return begin, last[0]


def named_layers(layers: Mapping[str, Placed], lines: Sequence[str]) -> list[Placed]:
    """The layers that the lines name, last line first, each op once; those of a source line before the others."""
    found: dict[str, Placed] = {}
    for line in reversed(lines):
        hits = [name for name in layers if name in line]
        # A name that begins another is in the line with it.
        for name in (hit for hit in hits if not any(hit != other and hit in other for other in hits)):
            found.setdefault(layers[name].origin.node, layers[name])
    return sorted(found.values(), key=lambda placed: placed.origin.frame is None)


def _advice(said: str, placed: Placed | None = None) -> str:
    """What to try; names the op of the layer where there is one that can be kept."""
    op = "" if placed is None else placed.origin.op
    keep = f"keep_in_torch={op!r}" if op.startswith("aten.") else "keep_in_torch"
    return next((advice for pattern, advice in _ADVICE if pattern.search(said)), _LEAVE).replace("{keep}", keep)
