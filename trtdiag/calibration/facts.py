"""The facts of a calibration: where quantizers stand, and what each costs."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class QuantizedInput:
    """The place of an argument, and the scale of its tensor."""

    at: int
    scale: float


@dataclass(frozen=True)
class QuantizedOp:
    """One op that takes quantized numbers.

    Attributes:
        node: Its name in the exported graph.
        op: As one writes it: ``aten.conv2d.default``.
        module: The path of its module.
        inputs: The inputs that are computed, each with one scale.
        weight: The place of the argument that is a constant, quantized by output channel; ``None`` of a residual sum.
        axis: The dim of output channels in the weight.
    """

    node: str
    op: str
    module: str
    inputs: tuple[QuantizedInput, ...]
    weight: int | None = None
    axis: int = 0


@dataclass(frozen=True)
class Quantizers:
    """All that makes the quantized program of the original one.

    Attributes:
        ops: In graph order.
    """

    ops: tuple[QuantizedOp, ...]


@dataclass(frozen=True)
class OpLoss:
    """What one op loses by its quantizers.

    Attributes:
        node: Its name in the exported graph.
        op: As one writes it.
        module: The path of its module.
        error: The root mean square of what its result is off, of that of the result, where only this op is quantized.
        error_without: The error of the program's outputs where only this op is not quantized; ``None`` where that was
            not measured.
    """

    node: str
    op: str
    module: str
    error: float
    error_without: float | None = None

    @property
    def snr_db(self) -> float | None:
        """The signal-to-noise ratio of ``error`` in decibels; ``None`` where nothing or everything is off."""
        return -20.0 * math.log10(self.error) if self.error and math.isfinite(self.error) else None


@dataclass(frozen=True)
class QuantizationFacts:
    """What quantizing a program costs, measured on calibration data in float32.

    Attributes:
        batches: How many batches the scales are made of.
        measured: How many of them errors were measured on.
        ops: Each quantized op, the one that wins back most first; those where that was not measured by their error.
        error: The root mean square of what the outputs are off, of that of the outputs; the worst output counts.
        kept: Ops that could be quantized and were kept in floats, since the user named them.
        unused: Entries of the user's that name no op that could be quantized.
    """

    batches: int
    measured: int
    ops: tuple[OpLoss, ...]
    error: float
    kept: int = 0
    unused: tuple[str, ...] = ()
