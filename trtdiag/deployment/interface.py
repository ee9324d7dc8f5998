"""What a compiled program takes and gives as flat, named tensors, and sets of sizes at the corners of its ranges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, OutputKind, TensorArgument

from trtdiag.errors import DimsError, UserError
from trtdiag.frontend.call_leaves import result_ways
from trtdiag.frontend.capture import capture
from trtdiag.frontend.program import Program
from trtdiag.graph.values import NodeReader, TensorValue
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.shapes.opt_sizes import EngineSizes, conditions_of
from trtdiag.symbolic import Condition, Expr, Num, Range, evaluate
from trtdiag.symbolic.size_names import named_sizes
from trtdiag.verification.points import input_ranges, points
from trtdiag.wording import identifier, told_name

_PLAIN = (bool, int, float, str, type(None))
USUAL = "usual"
"""The name of the set of sizes that engines are tuned for."""


@dataclass(frozen=True)
class Port:
    """One tensor that a program takes or gives.

    Attributes:
        name: An identifier: torch's name of an input, and of an output the way to it in the result.
        said: As the user writes it: ``batch['image'][0]``.
        dtype: Its dtype.
        dims: The size of each dim over the symbols of the program.
        leaf: Which of the program's flat inputs or results it is.
        node: The node of the program's graph.
    """

    name: str
    said: str
    dtype: torch.dtype
    dims: tuple[Expr, ...]
    leaf: int
    node: str


@dataclass(frozen=True)
class Interface:
    """What a program takes and gives.

    Attributes:
        program: As it was captured of the compiled one.
        inputs: The tensors that it takes.
        outputs: The tensors that it gives; numbers among the results are left out.
        constants: The plain values that it was exported with, by their place among the flat inputs.
        left_out: The results that are no tensors, by name.
        sizes: Sets of sizes by name, symbol -> size: the usual ones, and those at the corners of the ranges.
        ranges: Of each symbol of the inputs, what the program's conditions leave of it.
        conditions: Of the program, on the sizes of its inputs.
    """

    program: Program
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    constants: Mapping[int, Any]
    left_out: tuple[str, ...]
    sizes: Mapping[str, Mapping[str, int]]
    ranges: Mapping[str, Range]
    conditions: tuple[Condition, ...]

    def shape(self, port: Port, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The sizes of an input at a set of sizes, as numbers."""
        return tuple(int(evaluate(dim, sizes)) for dim in port.dims)

    def fixed(self, dim: Expr) -> int | None:
        """The one size of a dim; ``None`` where it varies, or is none (which Triton cannot say)."""
        return int(dim.value) if isinstance(dim, Num) and dim.value > 0 else None


def interface_of(compiled: CompiledProgram) -> Interface:
    """The interface of a compiled program.

    Raises:
        UserError: ``served-input``: it takes a number that varies, which is no tensor, or something that is neither.
    """
    exported = compiled.exported_program
    program = capture(exported)
    inputs, constants = _inputs(program, exported)
    outputs, left_out = output_ports(exported, [port.name for port in inputs])
    asked = () if compiled.options is None else compiled.options.opt
    engine_sizes = EngineSizes(program, asked)
    ranges = {name: engine_sizes.box.get(name, range_) for name, range_ in input_ranges(program).items()}
    given = conditions_of(program, program.ranges)
    return Interface(
        program, inputs, outputs, constants, left_out, _sizes(engine_sizes, ranges, given), ranges, tuple(given)
    )


def _inputs(program: Program, exported: ExportedProgram) -> tuple[tuple[Port, ...], dict[int, Any]]:
    specs = [spec.arg for spec in exported.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
    ports: list[Port] = []
    constants: dict[int, Any] = {}
    names: set[str] = set()
    for leaf, (known, spec) in enumerate(zip(program.inputs, specs, strict=True)):
        if known.dtype is not None:
            dims = tuple(dim.expr for dim in known.dims)
            name = _free(known.placeholder, names)
            ports.append(Port(name, told_name(known.name), known.dtype, dims, leaf, known.placeholder))
        elif isinstance(spec, ConstantArgument) and isinstance(spec.value, _PLAIN):
            constants[leaf] = spec.value
        else:
            raise UserError(
                f"the program takes {told_name(known.name)}, which is no tensor",
                because="a server hands tensors over, and numbers only where the program has them fixed",
                fix="export the program with a tensor in its place, or with the number as a constant",
                reference="served-input",
            )
    return tuple(ports), constants


def output_ports(exported: ExportedProgram, taken: Iterable[str] = ()) -> tuple[tuple[Port, ...], tuple[str, ...]]:
    """The tensors that a program gives, under names that are not taken, and the names of results that are none."""
    specs = [spec.arg for spec in exported.graph_signature.output_specs if spec.kind is OutputKind.USER_OUTPUT]
    nodes = {node.name: node for node in exported.graph.nodes}
    reader, names = NodeReader(), set(taken)
    ports: list[Port] = []
    left_out: list[str] = []
    for leaf, (spec, said) in enumerate(zip(specs, _ways(exported, len(specs)), strict=True)):
        value = reader.node(nodes[spec.name]).tensor if isinstance(spec, TensorArgument) else None
        if not isinstance(value, TensorValue):
            left_out.append(said)
            continue
        assert isinstance(spec, TensorArgument)
        ports.append(Port(_free(identifier(said), names), said, value.dtype, value.dims, leaf, spec.name))
    return tuple(ports), tuple(left_out)


def _ways(exported: ExportedProgram, count: int) -> list[str]:
    """The way to each result: ``logits`` of a dict, ``output_0`` of a tuple, ``output`` where it is one tensor."""
    ways = result_ways(exported)
    if len(ways) != count:
        return [f"output_{index}" for index in range(count)] if count > 1 else ["output"] * count
    return [_word(way) for way in ways]


def _word(way: tuple[str, ...]) -> str:
    word = "_".join(way)
    return word if word and not word[0].isdigit() else "_".join(("output", *way))


def _free(name: str, taken: set[str]) -> str:
    """The name, or where another port has it the first that is free."""
    free, number = name, 1
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    taken.add(free)
    return free


def _sizes(
    sizes: EngineSizes, ranges: Mapping[str, Range], given: Iterable[Condition]
) -> Mapping[str, Mapping[str, int]]:
    """The usual sizes and those at the corners, each set once; a size without an end takes its usual one there."""
    program = sizes.program
    try:
        usual = {name: size for name, size in sizes.opt.items() if name in ranges}
    except DimsError:  # of no use to anyone who calls it; the corners say what can be
        usual = dict(program.hints)
    found: dict[str, Mapping[str, int]] = {}
    for point in points(ranges, usual, list(given)):
        label = USUAL if point.label == "example" else point.label
        if label != "in between" and point.sizes not in found.values():
            found[label] = point.sizes
    return {_said(label, program.words): point for label, point in found.items()}


def _said(label: str, names: Mapping[str, str]) -> str:
    """``h min, x.shape[3] max`` in the user's names of the symbols, or by the dims that they size."""
    parts = (part.rsplit(" ", 1) for part in label.split(", "))
    return ", ".join(" ".join([*named_sizes({part[0]: 1}, names), *part[1:]]) for part in parts)
