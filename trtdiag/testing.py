"""What tests of packages with ops of their own ask: whether a converter does what its op does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import Dim, ExportedProgram, export

from trtdiag.convert.registry import converter_of
from trtdiag.converter_packages import failures
from trtdiag.errors import ShapeOutOfRangeError
from trtdiag.graph.operators import operator_of, target_name
from trtdiag.graph.pytree import flattened, leaves_of, rebuilt
from trtdiag.options import CompileOptions, PartitionOptions
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.targets import TARGETS

TOLERANCES = {torch.float32: (1e-5, 1e-5), torch.float16: (4e-3, 4e-3), torch.bfloat16: (3e-2, 3e-2)}
"""Relative and absolute, by dtype: a few roundings to 11 or 8 bits add up; float32 sums in another order."""
CHANGES: tuple[Callable[[int], int], ...] = (
    lambda size: size + 1,
    lambda size: size + 7,
    lambda size: max(2, size - 1),
    lambda size: 2 * size,
)
"""Of all sizes at once, and of each alone: by one, by a prime, shrunk by one, and doubled, as many ops demand."""
_MOST = 64
"""Of dynamic dims, or twice what the example has and 7 more: TensorRT takes a tensor with five such dims."""


@dataclass(frozen=True)
class CheckedConverter:
    """What was compared; all of it agreed.

    Attributes:
        op: The op, as one writes it: ``acme.swiglu.default``.
        package: The package that its converter comes from.
        targets: The TensorRT versions that it was written for.
        sizes: The shapes of the tensors among its arguments in each comparison, of static and dynamic exports.
    """

    op: str
    package: str
    targets: tuple[str, ...]
    sizes: tuple[tuple[tuple[int, ...], ...], ...]


def check_converter(
    op: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic: bool = True,
    targets: Sequence[str] = (),
    tolerance: tuple[float, float] | None = None,
) -> CheckedConverter:
    """Run an op and what its converter writes on the same inputs, and compare all outputs.

    The op is exported alone, once with static sizes and once with every dim of 2 or more dynamic, and compiled for the
    reference backend, which runs the layers of an engine with PyTorch.  The dynamic program runs at other sizes, too,
    each size and all of them changed by 1, 7 and -1, and doubled, where the op takes that.  Dtype and
    symbolic shape of each output are held to the op's fake implementation on the way, the results to the op itself.

    Args:
        op: The op: ``torch.ops.acme.swiglu``, an overload of it, or what ``torch.library.custom_op`` gave.
        args: Its arguments.  Tensors among them become inputs of the engine, all else stays as it is.
        kwargs: By name.
        dynamic: Whether there are dynamic dims at all; without them ``args`` are compared alone.
        targets: TensorRT versions to write it for, as ``--target`` takes them; where none is given, the oldest and the
            newest that are known, which differ most in the layers that they have.
        tolerance: Relative and absolute, as of ``torch.testing.assert_close``; where it is not given, 1e-5 for
            float32, 4e-3 for float16, 3e-2 for bfloat16, and equal for all else.

    Raises:
        AssertionError: The op has no converter, or that refuses the call, raises, or writes an output that differs from
            the op's in dtype, shape or values; or no dim stays dynamic.
    """
    example = _Example(op, args, kwargs or {})
    versions = tuple(targets) or (TARGETS[0].version, TARGETS[-1].version)
    programs = [example.exported(dynamic=False), *([example.exported(dynamic=True)] if dynamic else [])]
    (name, package), *_ = [_converted(program) for program in programs]
    if dynamic and not programs[-1].range_constraints:
        raise AssertionError(
            f"no dim of {name} stays dynamic: its fake implementation, or the op, needs each as a number; pass "
            "dynamic=False where that is meant"
        )
    compared: dict[tuple[tuple[int, ...], ...], None] = {}
    for version in versions:
        for program in programs:
            compiled = _compiled(program, version)
            for tensors in example.sizes(program):
                shapes = tuple(tuple(tensor.shape) for tensor in tensors)
                try:
                    wanted = example(*tensors)
                except (RuntimeError, ValueError, IndexError):
                    if tensors is example.tensors:
                        raise
                    continue  # sizes that the op itself refuses
                try:
                    got = compiled(*tensors)
                except ShapeOutOfRangeError:
                    continue  # those that its trace rules out
                _compare(wanted, got, tolerance, f"{name} for TensorRT {version} at {shapes}")
                compared[shapes] = None
    return CheckedConverter(name, package, versions, tuple(compared))


class _Example(torch.nn.Module):
    """A program of one op: the tensors among its arguments are the inputs."""

    def __init__(self, op: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        super().__init__()
        self._op = op
        flat, self._spec = flattened((list(args), dict(kwargs)))
        self._places = [place for place, item in enumerate(flat) if isinstance(item, torch.Tensor)]
        self._flat = [None if place in self._places else item for place, item in enumerate(flat)]
        self.tensors = tuple(flat[place].detach() for place in self._places)

    def forward(self, *tensors: torch.Tensor) -> Any:
        flat = list(self._flat)
        for place, tensor in zip(self._places, tensors, strict=True):
            flat[place] = tensor
        args, kwargs = rebuilt(flat, self._spec)
        return self._op(*args, **kwargs)

    def exported(self, *, dynamic: bool) -> ExportedProgram:
        if not dynamic:
            return export(self, self.tensors)
        dims = [
            {axis: Dim.AUTO(max=max(_MOST, 2 * size + 7)) for axis, size in enumerate(tensor.shape) if size > 1}
            for tensor in self.tensors
        ]
        return export(self, self.tensors, dynamic_shapes={"tensors": tuple(dims)})

    def sizes(self, program: ExportedProgram) -> Iterator[tuple[torch.Tensor, ...]]:
        """The example, and where dims are dynamic, it with them changed: longer by repeating what is there."""
        yield self.tensors
        placeholders = program.graph_module.graph.find_nodes(op="placeholder")
        shapes = [node.meta["val"].shape for node in placeholders]
        known = {
            size.node.expr: given
            for shape, tensor in zip(shapes, self.tensors, strict=True)
            for size, given in zip(shape, tensor.shape, strict=True)
            if isinstance(size, torch.SymInt) and size.node.expr.is_symbol
        }
        for names in dict.fromkeys((tuple(known), *((name,) for name in known))) if known else ():
            for change in CHANGES:
                values = {**known, **{name: change(known[name]) for name in names}}
                yield tuple(_resized(*each, values) for each in zip(self.tensors, shapes, strict=True))


def _resized(tensor: torch.Tensor, shape: Sequence[int | torch.SymInt], values: Mapping[Any, int]) -> torch.Tensor:
    for axis, size in enumerate(shape):
        if isinstance(size, torch.SymInt):
            places = torch.arange(int(size.node.expr.xreplace(values))) % tensor.shape[axis]
            tensor = tensor.index_select(axis, places)
    return tensor


def _converted(program: ExportedProgram) -> tuple[str, str]:
    """The op that the program is of, and the package of its converter."""
    ops = [node for node in program.graph_module.graph.nodes if operator_of(node) is not None]
    with_one = [(target_name(node.target), made) for node in ops if (made := converter_of(node.target)) is not None]
    if len(with_one) < len(ops) or not ops:
        without = [target_name(node.target) for node in ops if converter_of(node.target) is None]
        told = "".join(f"; {warning}" for warning in failures())
        raise AssertionError(
            f"{', '.join(without) or 'the call'} has no converter: import the module that registers it{told}"
        )
    name, made = with_one[0]
    return name, made.package


def _compiled(program: ExportedProgram, version: str) -> CompiledProgram:
    options = CompileOptions(
        target=version, backend="reference", verify=False, force=True, partition=PartitionOptions(min_segment_ops=1)
    )
    state = compile_in_stages(program, options)
    left = [each for each in state.plan.partitioned.fallback if each.computes]
    if left:
        told = "; ".join(f"{each.op}: {each.limit.why} [{each.limit.code}]" for each in left)
        raise AssertionError(f"not in an engine of TensorRT {version}: {told}")
    return state.compiled


def _compare(expected: Any, actual: Any, tolerance: tuple[float, float] | None, where: str) -> None:
    wanted, given = leaves_of(expected), leaves_of(actual)
    assert len(wanted) == len(given), f"{where}: {len(given)} outputs, and the op has {len(wanted)}"
    for place, (one, other) in enumerate(zip(wanted, given, strict=True)):
        if not isinstance(one, torch.Tensor):
            assert one == other, f"{where}: output {place} is {other}, and the op gives {one}"
            continue
        relative, absolute = tolerance or TOLERANCES.get(one.dtype, (0.0, 0.0))
        torch.testing.assert_close(
            other, one, rtol=relative, atol=absolute, equal_nan=True,
            msg=lambda text, place=place: f"output {place} of {where}: {text}",
        )  # fmt: skip
