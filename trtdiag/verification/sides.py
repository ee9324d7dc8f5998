"""The original and the compiled program, on one device, as they are called at each point."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch.export import ExportedProgram

from trtdiag.frontend.bounds_checked_run import trusted_calls_checked
from trtdiag.frontend.move_to_device import on_device, program_device
from trtdiag.frontend.program import Program
from trtdiag.frontend.sized_inputs import SEED, InputMaker
from trtdiag.graph.index_inputs import ends_of_offsets, index_bounds, index_inputs
from trtdiag.graph.pytree import leaves_of, rebuilt
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.runtime.compiled_device import compiled_device
from trtdiag.verification.compare import compare
from trtdiag.verification.facts import OutputError, PointResult, Tolerance
from trtdiag.wording import first_line

NO_EXAMPLE = (
    "the program has no example inputs: integers were drawn from 0 and 1, "
    "indices into tables of fixed size from all of their places"
)
"""Told of a program that brings none."""


class Sides:
    """Both programs; each call gets inputs of its own, for a program may write into them.

    Args:
        program: The original.
        exported: Its program.
        compiled: Called like its module.

    Attributes:
        original: The original's module.
        has_example: Whether it brings example inputs.
        lost: Why no further point can run; empty where one can.
    """

    def __init__(self, program: Program, exported: ExportedProgram, compiled: Callable[..., Any]) -> None:
        self.original = exported.module()
        self.has_example = exported.example_inputs is not None
        self.lost = ""
        own = getattr(compiled, "named_state", None)
        # A module shares its buffers with the program that it is made of, which is the caller's.
        self._original_state = dict(self.original.named_buffers())
        self._compiled_state: dict[str, torch.Tensor] = {} if own is None else own()
        self._state = [*self._original_state.values(), *self._compiled_state.values()]
        self._input_names = [each.name for each in program.inputs]
        self._wrote: list[tuple[str, torch.Tensor]] = []
        self._given: list[Any] = []
        self._before = [buffer.clone() for buffer in self._state]
        self._in_spec = exported.call_spec.in_spec
        example = leaves_of(exported.example_inputs) if self.has_example else None
        indices, bounds, ends = index_inputs(exported), index_bounds(exported), ends_of_offsets(exported)
        self._maker = InputMaker(program.inputs, example, indices, bounds, ends)

    def inputs(self, sizes: Mapping[str, int]) -> list[Any]:
        """Flat inputs of these sizes, for calls that begin with the state of the first."""
        self.restore()
        return self._maker.at(sizes)

    def call(self, function: Callable[..., Any], flat: Sequence[Any]) -> Any:
        """What a program gives, once it is there; with random numbers of one seed, beside those of the caller."""
        own = [leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in flat]
        args, kwargs = rebuilt(own, self._in_spec)
        checked = trusted_calls_checked(self.original) if function is self.original else nullcontext()
        devices = {leaf.device for leaf in flat if isinstance(leaf, torch.Tensor)}
        gpus = sorted(device.index or 0 for device in devices if device.type == "cuda")
        with torch.random.fork_rng(gpus), torch.no_grad(), checked:
            torch.manual_seed(SEED)
            result = function(*args, **kwargs)
        self._given = own
        if function is self.original:
            state = zip(self._original_state.items(), self._before, strict=False)
            self._wrote = [(name, buffer) for (name, buffer), before in state if _changed(before, buffer)]
            leaves = zip(self._input_names, flat, own, strict=True)
            self._wrote += [(name, after) for name, before, after in leaves if _changed(before, after)]
        return finished(result) if on_gpu(flat) else result

    def with_written(self, result: PointResult, tolerance: Tolerance) -> PointResult:
        """A result that agrees, with what the original wrote into buffers and inputs and the compiled program did not.

        That was called after it.  Outputs that differ are told first: what follows from them says no more.
        """
        return replace(result, outputs=(*result.outputs, *self._unwritten(tolerance))) if result.passed else result

    def _unwritten(self, tolerance: Tolerance) -> Iterator[OutputError]:
        mine = {**dict(zip(self._input_names, self._given, strict=True)), **self._compiled_state}
        for name, wanted in self._wrote:
            got = mine.get(name)
            found = None if got is None else compare(name, wanted, got, tolerance)
            if found is not None and not found.passed:
                yield replace(found, why=found.why or "the call leaves other values in it")

    def look_for_gpu(self, flat: Sequence[Any], who: str) -> None:
        """Note where a call with these inputs has ended all that this process does on the GPU."""
        why = gpu_lost() if on_gpu(flat) else ""
        if why:
            self.lost = f"{who} ended all work of this process on the GPU: {why}"

    def restore(self) -> None:
        """Both sides begin each point with the state of the first call, and are left with it."""
        if self.lost:
            return  # nothing there can be read or written
        with torch.no_grad():
            for buffer, before in zip(self._state, self._before, strict=True):
                buffer.copy_(before)


def _changed(before: Any, after: Any) -> bool:
    """Whether something else stands in a tensor; of what PyTorch cannot compare that is not known."""
    if not isinstance(before, torch.Tensor) or before.layout is not torch.strided or before.is_nested:
        return False
    return before.dtype is not torch.complex32 and not torch.equal(before, after)


def on_gpu(flat: Sequence[Any]) -> bool:
    """Whether some of the inputs are on a GPU."""
    return any(isinstance(leaf, torch.Tensor) and leaf.is_cuda for leaf in flat)


def finished(result: Any) -> Any:
    """The result once it is there, or its failure; what was computed on the way is given back, for engines to use."""
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return result


def gpu_lost() -> str:
    """Why the GPU cannot be used any more in this process; empty where it can.

    A kernel that fails, such as one with an index outside of its tensor, ends all that this process does on the GPU.
    """
    try:
        torch.cuda.synchronize()
    except RuntimeError as error:
        return first_line(error, "no reason is given")
    return ""


def beside(program: Program, compiled: object) -> Program:
    """The original on the device of the compiled program, where that is another.

    Args:
        program: The original; it stays as it is.
        compiled: What it is compared with; a callable that is no compiled program runs where the original is.

    Cost: the memory of the original's weights on that device.
    """
    if program.exported is None or not isinstance(compiled, CompiledProgram):
        return program
    device = compiled_device(compiled.exported_program)
    if device is None or device.type == _type_of(program):
        return program
    return replace(program, exported=on_device(program.exported, device))


def inputs_of(program: Program, flat: Sequence[Any]) -> list[Any]:
    """Flat inputs on the device of a program."""
    device = _type_of(program)
    return [leaf.to(device) if device and isinstance(leaf, torch.Tensor) else leaf for leaf in flat]


def _type_of(program: Program) -> str | None:
    device = None if program.exported is None else program_device(program.exported)
    return None if device is None else device.type
