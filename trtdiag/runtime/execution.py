"""What the custom op does: with tensors it runs the engine, with fake ones it says the shapes."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch

from trtdiag.engine.backend import Runner
from trtdiag.engine.manifest import EngineInput, EngineOutput, Manifest
from trtdiag.engine.manifest_text import manifest_from_text
from trtdiag.engine.size_inputs import read_size
from trtdiag.errors import ShapeOutOfRangeError
from trtdiag.graph.size_check import refuse_size
from trtdiag.graph.unbacked_symbols import expect
from trtdiag.runtime.engine_cache import CACHE
from trtdiag.runtime.engine_inputs import check_engine_inputs, check_kind, out_of_range
from trtdiag.runtime.prepared_engines import learn
from trtdiag.runtime.size_calls import call_now, computed
from trtdiag.runtime.symbol_values import Reading, read_numbers, symbol_values
from trtdiag.symbolic import Num, Range, Sym, free_symbols, holds, to_text


@torch.compiler.disable  # type: ignore[untyped-decorator]  # where a graph breaks at an engine, our Python is not traced
def execute(inputs: Sequence[torch.Tensor], engine: torch.Tensor, text: str) -> list[torch.Tensor]:
    """The outputs of an engine.

    Args:
        inputs: Its tensors and sizes, in the order of the manifest.
        engine: Its bytes; they are read once in a process.
        text: Its manifest.

    Raises:
        ShapeOutOfRangeError: A size is outside of what the engine was built for, or one that the data decides is none
            that the program allows.
        UserError: A dtype or device is another than it was built for.
        ArtifactError: The bytes or the manifest were damaged.
    """
    check_engine_inputs(text, inputs)
    manifest = manifest_from_text(text)
    if manifest.written:  # the op changes no input
        inputs = unshared(manifest, inputs)
    runner = loaded(manifest, inputs, engine)
    outputs = run_checked(runner, manifest, inputs)
    learn(engine, text, manifest, inputs, runner)
    return outputs


def loaded(manifest: Manifest, inputs: Sequence[torch.Tensor], engine: torch.Tensor) -> Runner:
    """The engine, loaded where its inputs are.

    Raises:
        ArtifactError: The bytes were damaged.
    """
    return CACHE.get(manifest, engine, _device(manifest, inputs))


def run_checked(runner: Runner, manifest: Manifest, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The outputs for inputs that were looked at; those that the engine writes to are changed.

    Raises:
        ShapeOutOfRangeError: A size that the data decides is none that the program allows.
    """
    values = [_entered(port, tensor) for port, tensor in zip(manifest.inputs, inputs, strict=True)]
    outputs = list(runner(values))
    if manifest.counts:
        check_counts(manifest, inputs, outputs)
    return outputs


def unshared(manifest: Manifest, inputs: Sequence[torch.Tensor], kept: Collection[int] = ()) -> list[torch.Tensor]:
    """The inputs of an engine, with row-major copies of those that it writes to, but for some by index."""
    written = {*manifest.written.values()}.difference(kept)
    return [
        tensor.clone(memory_format=torch.contiguous_format) if index in written else tensor
        for index, tensor in enumerate(inputs)
    ]


def describe(inputs: Sequence[torch.Tensor], engine: torch.Tensor, text: str) -> list[torch.Tensor]:
    """Empty outputs, their shapes bound to the sizes of these inputs, whatever trace they belong to.

    The engine's ranges become guards of the trace, so that a program exported anew does not promise more than it runs.
    Sizes that the data decides are new symbols of the trace, with their ranges.

    Raises:
        ShapeOutOfRangeError: A size is outside of what the engine was built for.
        UserError: A dtype is another than it was built for.
    """
    del engine
    manifest = manifest_from_text(text)
    for port, tensor in zip(manifest.inputs, inputs, strict=True):
        check_kind(port, tensor.dtype, tensor.dim(), traced=True)
    numbers = read_numbers(manifest, [tensor.shape for tensor in inputs])
    values = symbol_values(numbers)
    for reading, number in numbers.items():
        _expect_size(manifest.inputs[reading.input], reading, number, values)
    values |= {name: _new_size(manifest.ranges[name]) for name in manifest.counts}
    device = _device(manifest, inputs)
    return [
        torch.empty([computed(dim, values, call_now) for dim in port.dims], dtype=port.dtype, device=device)
        for port in manifest.outputs
    ]


def _entered(port: EngineInput, tensor: torch.Tensor) -> torch.Tensor:
    return torch.tensor(read_size(port, tensor.shape), dtype=port.dtype, device="cpu") if port.is_size else tensor


def _device(manifest: Manifest, inputs: Sequence[torch.Tensor]) -> str:
    """Where the outputs are: with the first tensor, else on the current device of the engine's type."""
    given = zip(manifest.inputs, inputs, strict=True)
    return next((str(tensor.device) for port, tensor in given if not port.is_size), manifest.device)


def _new_size(allowed: Range) -> torch.SymInt:
    found: torch.SymInt = torch.library.get_ctx().new_dynamic_size(min=allowed.min or 0, max=allowed.max)
    return found


def _expect_size(port: EngineInput, reading: Reading, number: int | torch.SymInt, values: dict[str, object]) -> None:
    """Let torch know that a size is what the engine was built for."""
    place = f"dim {reading.dim} of " if reading.dim is not None else ""
    allowed = port.profile[reading.dim or 0]
    if not isinstance(reading.expr, Num):
        _expect(port, number >= allowed.min, number, f"{allowed.min} or more", place)
        if allowed.max is not None:
            _expect(port, number <= allowed.max, number, f"{allowed.max} or less", place)
    expected = computed(reading.expr, values, call_now)
    if expected is not number:
        _expect(port, number == expected, number, to_text(reading.expr), place)


def _expect(
    port: EngineInput, condition: bool | torch.SymBool, number: int | torch.SymInt, allowed: str, place: str
) -> None:
    if condition is False:
        raise out_of_range(port.name, f"{place}it is {number}", allowed, traced=True)
    if condition is not True:
        expect(condition, f"{place}input {port.name!r} of an engine must be {allowed}")


# The sizes that an engine found against what the program asserts of them, after it ran.


def check_counts(manifest: Manifest, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> None:
    """Refuse a result whose size PyTorch would not have gone on with: an ``amax`` of nothing, for example.

    Raises:
        ShapeOutOfRangeError: ``engine-count``: names the output, its size and what is allowed; ``assumed-size`` where
            the user assumed it.
    """
    values = symbol_values(read_numbers(manifest, [tensor.shape for tensor in inputs]))
    seen: dict[str, EngineOutput] = {}
    for port, tensor in zip(manifest.outputs, outputs, strict=True):
        for dim, size in zip(port.dims, tensor.shape, strict=True):
            if isinstance(dim, Sym) and dim.name in manifest.counts:
                seen.setdefault(dim.name, port)
                if values.setdefault(dim.name, size) != size:
                    raise _refused(port, size, f"{values[dim.name]}, as many as {seen[dim.name].name!r} has")
    for name, port in seen.items():
        if values[name] not in manifest.ranges[name]:
            if (said := manifest.assumed.get(name)) is not None:
                raise refuse_size(values[name], said.least, said.most, said.name, said.place)
            raise _refused(port, values[name], f"{manifest.ranges[name]}")
    for condition in manifest.conditions:
        names = free_symbols(condition) & seen.keys()
        if names and not holds(condition, values):
            name = min(names)
            raise _refused(seen[name], values[name], f"{name} where {to_text(condition)}")


def _refused(port: EngineOutput, size: int, allowed: str) -> ShapeOutOfRangeError:
    return ShapeOutOfRangeError(
        f"an engine found {size} elements for {port.name!r}, which the program does not take",
        because=f"the values of its inputs decide how many there are; allowed is {allowed}",
        fix="look at the values of the inputs, and at what the model asserts about this size",
        reference="engine-count",
    )
