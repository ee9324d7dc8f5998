"""What an engine is given against its manifest, before it runs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import torch

from trtdiag.engine.backend import get_backend
from trtdiag.engine.manifest import EngineInput, Manifest
from trtdiag.engine.manifest_text import manifest_from_text
from trtdiag.engine.size_inputs import carrier_rank
from trtdiag.errors import ArtifactError, InternalError, ShapeOutOfRangeError, UserError
from trtdiag.runtime.symbol_values import read_numbers, symbol_values
from trtdiag.shapes.profile import DimProfile
from trtdiag.symbolic import Expr, Num, Range, evaluate, free_symbols, holds, to_text

Described = tuple[tuple[torch.dtype, str, tuple[int, ...]], ...]
"""Dtype, type of device and shape of each input."""


def check_engine_inputs(text: str, inputs: Sequence[torch.Tensor]) -> None:
    """Refuse what the engine was not built for; what was looked at before costs a lookup.

    Args:
        text: The manifest.
        inputs: As the op is given them.

    Raises:
        ShapeOutOfRangeError: ``engine-shape``: names the input, what it is and what is allowed.
        UserError: ``engine-dtype``, ``engine-device``.
    """
    _check(text, tuple((tensor.dtype, tensor.device.type, tuple(tensor.shape)) for tensor in inputs))


@lru_cache(maxsize=4096)
def _check(text: str, given: Described) -> None:
    manifest = manifest_from_text(text)
    if len(given) != len(manifest.inputs):
        raise InternalError(
            "an engine is called with another number of inputs than it has",
            because=f"it has {len(manifest.inputs)}, and there are {len(given)}",
            fix="compile the program again; report this if it comes back",
            reference="engine-input-count",
        )
    for port, (dtype, device, shape) in zip(manifest.inputs, given, strict=True):
        check_kind(port, dtype, len(shape))
        if device != manifest.device and not port.is_size:
            _require_fitting_gpu(manifest)
            raise UserError(
                f"input {port.name!r} of an engine is on {device}",
                because=f"engines of the backend {manifest.backend!r} run on {manifest.device}, and move nothing",
                fix=f"move the inputs to {manifest.device}, or compile with another backend",
                reference="engine-device",
            )
    _check_numbers(manifest, [shape for _, _, shape in given])


def check_kind(port: EngineInput, dtype: torch.dtype, rank: int, *, traced: bool = False) -> None:
    """Refuse a tensor of another dtype or rank than an input of the engine has.

    Raises:
        InternalError: It is given for a number, and does not carry one.
        ShapeOutOfRangeError: ``engine-shape``.
        UserError: ``engine-dtype``.
    """
    if port.is_size:
        if rank != carrier_rank(port):
            raise InternalError(
                f"input {port.name!r} of an engine is a number, and the tensor that is given for it carries none",
                because=f"a carrier has {carrier_rank(port)} dims",
                fix="call engines by compiled programs only; report this if one did it",
                reference="engine-size-carrier",
            )
    elif dtype is not port.dtype:
        raise UserError(
            f"input {port.name!r} of an engine is {dtype}",
            because=f"the engine was built for {port.dtype}",
            fix="give the dtypes that the program was exported with",
            reference="engine-dtype",
        )
    elif rank != len(port.dims):
        raise out_of_range(port.name, f"it has {rank} dims", f"{len(port.dims)} dims", traced=traced)


def _check_numbers(manifest: Manifest, shapes: Sequence[tuple[int, ...]]) -> None:
    numbers = read_numbers(manifest, shapes)
    values = symbol_values(numbers)
    for reading, actual in numbers.items():
        port = manifest.inputs[reading.input]
        seen = f"it is {actual}" if reading.dim is None else f"dim {reading.dim} has size {actual}"
        allowed = port.profile[reading.dim or 0]
        if actual < allowed.min or (allowed.max is not None and actual > allowed.max):
            raise out_of_range(port.name, seen, _range_words(reading.expr, allowed))
        if evaluate(reading.expr, values) != actual:
            where = ", ".join(f"{name} = {value}" for name, value in sorted(values.items()))
            expected = f"{to_text(reading.expr)}, which is {evaluate(reading.expr, values)} for {where}"
            raise out_of_range(port.name, seen, expected)
        for name in sorted(free_symbols(reading.expr)):
            if values[name] not in manifest.ranges.get(name, Range()):
                raise out_of_range(port.name, seen, f"{to_text(reading.expr)} with {manifest.ranges[name].of(name)}")
    for condition in manifest.conditions:
        if not free_symbols(condition) & manifest.counts.keys() and not holds(condition, values):
            names = free_symbols(condition)
            port = next(manifest.inputs[r.input] for r in numbers if free_symbols(r.expr) & names)
            sizes = ", ".join(f"{name} is {values[name]}" for name in sorted(names))
            raise out_of_range(port.name, sizes, to_text(condition))


def _range_words(expr: Expr, allowed: DimProfile) -> str:
    if isinstance(expr, Num):
        return to_text(expr)
    if allowed.max is None:
        return f"{allowed.min} or more"
    return f"{allowed.min}" if allowed.min == allowed.max else f"{allowed.min} to {allowed.max}"


def out_of_range(name: str, seen: str, allowed: str, *, traced: bool = False) -> ShapeOutOfRangeError:
    """The error of a size that the engine was not built for; a tracer shows the message alone, so all is in that."""
    told = f" ({seen}, allowed is {allowed})" if traced else ""
    return ShapeOutOfRangeError(
        f"input {name!r} of an engine has a size that it was not built for{told}",
        because=f"{seen}; allowed is {allowed}",
        fix="give an input inside the ranges, or compile again with wider ones",
        reference="engine-shape",
    )


def _require_fitting_gpu(manifest: Manifest) -> None:
    """Refuse an engine that was built for a GPU that is not here: inputs on a GPU would not help.

    Raises:
        ArtifactError: ``engine-elsewhere``.
    """
    gpus = manifest.compatibility.gpus
    why = get_backend(manifest.backend).cannot_run(gpus) if gpus else ""
    if why:
        raise ArtifactError(
            "an engine cannot run here",
            because=why,
            fix="run the program where there is such a GPU; for outputs here compile with backend='reference'",
            reference="engine-elsewhere",
        )
