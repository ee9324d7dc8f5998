"""The original where the compiled program is, so that both are given the same inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from trtdiag.frontend.move_to_device import on_device, program_device
from trtdiag.frontend.program import Program
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.runtime.compiled_device import compiled_device


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
