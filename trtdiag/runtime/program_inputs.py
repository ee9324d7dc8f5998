"""What a compiled program is called with against what it was compiled for, before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind

from trtdiag.errors import ShapeOutOfRangeError, UserError
from trtdiag.frontend.call_leaves import call_leaves, nested_leaves
from trtdiag.frontend.capture import capture
from trtdiag.frontend.dim_sites import Sites
from trtdiag.frontend.program import InputDim, InputTensor, Program, integer_names
from trtdiag.frontend.read_guards import read_guards
from trtdiag.network.symbol_values import solvable
from trtdiag.symbolic import Condition, Expr, Num, Range, Sym, evaluate, free_symbols, holds, to_text
from trtdiag.symbolic.build import affine
from trtdiag.symbolic.size_names import Home, SizeNames
from trtdiag.wording import one_of_type, shown, told_name

Described = tuple[object, ...]
"""All that decides whether a call is refused: of each tensor what but its elements, each number as it is."""

_MOST_TOLD_DIMS = 8
_MOST_TOLD = 4  # inputs in the text of a program
_WIDER = "give an input inside the range, or export and compile with a wider one"
_PLAIN = (bool, int, float, str, type(None))


def described(leaves: Sequence[Any]) -> Described | None:
    """What decides whether a call with these leaves is refused; ``None`` where it is more than can be remembered."""
    found: list[object] = []
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            if leaf.layout is not torch.strided or leaf.is_nested:  # of these not all have sizes and strides
                return None
            found.append((leaf.dtype, leaf.device, leaf.shape, leaf.stride()))
        elif type(leaf) in _PLAIN:
            found.append((type(leaf), leaf))
        else:
            return None
    return tuple(found)


class ProgramInputs:
    """Checks the arguments of calls.

    Args:
        exported: The program; its ranges and the sizes of its inputs say what it takes.
        program: What it was compiled from, which has the same inputs and guards; captured of it where not given.
        max_sizes: The greatest sizes that it was given when it was compiled.
    """

    def __init__(
        self, exported: ExportedProgram, program: Program | None = None, max_sizes: Sequence[tuple[str, int]] = ()
    ) -> None:
        program = program or capture(exported)
        self._spec = exported.call_spec.in_spec  # made anew whenever it is asked for
        self._inputs = program.inputs
        values = {node.name: node.meta.get("val") for node in exported.graph.find_nodes(op="placeholder")}
        given = {name: value for name, value in values.items() if isinstance(value, torch.Tensor)}
        self._constants = _constants(exported)
        self._devices = {name: value.device.type for name, value in given.items()}
        self._layouts = {name: value.layout for name, value in given.items()} | _example_layouts(exported)
        self._ranges = program.ranges
        told = " ".join(f"--max {name}={size}" for name, size in max_sizes)
        self._beyond = f"give an input inside the range, or compile with greater sizes than {told}" if told else _WIDER
        self._sites = Sites(program)
        self._solutions = _solutions(self._sites.dims)
        self._names = _by_sites(self._sites.dims, program.inputs)
        # torch checks the other conditions itself when it is called.
        read = [guard.condition for guard in read_guards(program)]
        self._guards = [condition for condition in read if condition is not None and free_symbols(condition)]
        self._plain = _tensors_by_place(exported)
        self._by_place = names_by_place(exported)

    def leaves(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Sequence[Any]:
        """The arguments as a flat list, in the order of the program's inputs.

        Raises:
            UserError: ``call-arguments`` where they are nested in another way than those of the export.
        """
        if not kwargs and len(args) == self._plain and all(isinstance(arg, torch.Tensor) for arg in args):
            return args
        return nested_leaves(self._spec, args, kwargs, self._by_place)

    def words(self) -> str:
        """The first tensors with their dtypes and the sizes that they may have: ``takes x: float32[1..8, 3]``."""
        told = list(self._words())
        more = f", and {len(told) - _MOST_TOLD} more" if len(told) > _MOST_TOLD else ""
        return f"takes {', '.join(told[:_MOST_TOLD])}{more}" if told else "takes no tensors"

    def _words(self) -> Iterator[str]:
        for known in self._inputs:
            if known.dtype is not None:
                sizes = ", ".join(self._size_words(dim) for dim in known.dims[:_MOST_TOLD_DIMS])
                more = ", ..." if len(known.dims) > _MOST_TOLD_DIMS else ""
                yield f"{told_name(known.name)}: {str(known.dtype).removeprefix('torch.')}[{sizes}{more}]"

    def _size_words(self, dim: InputDim) -> str:
        """The sizes that a dim takes: ``1..8``, ``16..160 in steps of 8``, ``x.shape[0] + y.shape[0]``."""
        made = affine(dim.expr)
        if made is None:
            return told_name(to_text(dim.expr, self._names))
        symbol, factor, offset = made
        sizes = self._ranges.get(symbol, Range()).scaled(factor, offset)
        return str(sizes) if abs(factor) == 1 or sizes.single is not None else f"{sizes} in steps of {abs(factor)}"

    def _allowed_words(self, dim: InputDim) -> str:
        return self._size_words(dim).replace("..", " to ")

    def check(self, leaves: Sequence[Any]) -> None:
        """Refuse arguments that the program was not compiled for.

        Raises:
            ShapeOutOfRangeError: ``input-size``: the input's name, what it is and what is allowed.
            UserError: ``input-dtype``, ``input-device``, ``input-kind``, ``input-layout``, ``input-value``.
        """
        tensors: list[tuple[InputTensor, torch.Tensor]] = []
        integers: dict[str, int] = {}
        for place, (known, leaf) in enumerate(zip(self._inputs, leaves, strict=True)):
            if known.dtype is not None:
                self._check_kind(known, leaf)
                tensors.append((known, leaf))
            elif known.number is not None:
                integers.update(self._integer(known, known.number, leaf))
            elif place in self._constants and not _is_constant(leaf, self._constants[place]):
                raise _refused(known.name, f"it is {shown(leaf)}", shown(self._constants[place]), "input-value")
        self._check_sizes(tensors, integers)

    def _integer(self, known: InputTensor, number: Expr, leaf: object) -> dict[str, int]:
        """The value of the symbol that an integer is, where it is one."""
        if not isinstance(leaf, Integral) or isinstance(leaf, bool):
            raise _refused(known.name, f"it is {shown(leaf)}", "an int", "input-kind")
        allowed = self._ranges.get(number.name, Range()) if isinstance(number, Sym) else Range()
        if int(leaf) not in allowed:
            raise _refused(known.name, f"it is {leaf}", f"{allowed}".replace("..", " to "), "input-value")
        return {number.name: int(leaf)} if isinstance(number, Sym) else {}

    def _check_kind(self, known: InputTensor, leaf: object) -> None:
        if not isinstance(leaf, torch.Tensor):
            raise _refused(known.name, f"it is {one_of_type(leaf)}", "a tensor", "input-kind")
        layout = self._layouts[known.placeholder]
        if leaf.is_nested or leaf.layout is not layout:
            seen = "it is a nested tensor" if leaf.is_nested else f"its layout is {leaf.layout}"
            raise _refused(known.name, seen, str(layout), "input-layout")
        if leaf.dtype is not known.dtype:
            raise _refused(known.name, f"it is {leaf.dtype}", str(known.dtype), "input-dtype")
        device = self._devices[known.placeholder]
        if leaf.device.type != device:
            raise _refused(known.name, f"it is on {leaf.device}", device, "input-device")
        if leaf.dim() != len(known.dims):
            raise _out_of_range(known.name, f"it has {leaf.dim()} dims", f"{len(known.dims)} dims")

    def _check_sizes(self, tensors: Sequence[tuple[InputTensor, torch.Tensor]], integers: Mapping[str, int]) -> None:
        dims = [(dim, leaf.shape[dim.index]) for known, leaf in tensors for dim in known.dims]
        values = dict(integers)
        # A dim that is the symbol itself decides before one that is made of it.
        for dim, size in sorted(dims, key=lambda entry: not isinstance(entry[0].expr, Sym)):
            solution = self._solutions.get(dim.site)
            if solution is not None and solution[0] not in values:
                name, times, less, share = solution
                values[name], rest = divmod(size * times - less, share)
                if rest:
                    raise _size_refused(dim, size, self._allowed_words(dim))
        for dim, size in dims:
            self._check_size(dim, size, values)
        for guard in self._guards:
            if free_symbols(guard) <= values.keys() and not holds(guard, values):
                raise self._against(guard, values)

    def _against(self, guard: Condition, values: Mapping[str, int]) -> UserError:
        """The refusal of sizes that a condition of the program forbids, in the user's names."""
        symbols = sorted(free_symbols(guard))
        dims = [dim for symbol in symbols for dim in self._sites.sized_by(symbol)[:1]]
        integers = {self._names[symbol]: values[symbol] for symbol in symbols if symbol in self._names}
        seen = [f"{dim.site} is {evaluate(dim.expr, values)}" for dim in dims]
        told = ", ".join([*seen, *(f"{name} is {value}" for name, value in integers.items())])
        if not dims:
            return _refused(next(iter(integers)), told, to_text(guard, self._names), "input-value")
        return _out_of_range(dims[0].input, told, to_text(guard, self._names))

    def _check_size(self, dim: InputDim, size: int, values: Mapping[str, int]) -> None:
        if isinstance(dim.expr, Num):
            if dim.expr.value != size:
                raise _size_refused(dim, size, to_text(dim.expr))
            return
        names = sorted(free_symbols(dim.expr))
        for name in names:
            allowed = self._ranges.get(name, Range())
            if values.get(name, allowed.min or 0) not in allowed:
                large = allowed.max is not None and values.get(name, 0) > allowed.max
                raise _size_refused(dim, size, self._allowed_words(dim), self._beyond if large else _WIDER)
        if all(name in values for name in names):
            expected = evaluate(dim.expr, values)
            if expected != size:
                raise _size_refused(dim, size, f"{expected}, as another input with this dim says")


def _solutions(dims: Sequence[InputDim]) -> dict[str, tuple[str, int, int, int]]:
    """How a dim gives the value of a symbol: ``(size * times - less) / share``, in ints, which a trace can follow."""
    found = {}
    for dim in dims:
        solution = solvable(dim.expr)
        if solution is not None:
            name, factor, offset = solution
            times = offset.denominator * factor.denominator
            found[dim.site] = name, times, offset.numerator * factor.denominator, offset.denominator * factor.numerator
    return found


def _by_sites(dims: Sequence[InputDim], inputs: Sequence[InputTensor]) -> SizeNames:
    """Each symbol by a dim that it sizes, or the integer that it is: who calls the program knows no other names."""
    made = [(dim.site, affine(dim.expr)) for dim in sorted(dims, key=lambda dim: not isinstance(dim.expr, Sym))]
    homes: dict[str, Home] = {}
    for site, of in made:
        if of is not None and of[1] > 0:
            homes.setdefault(of[0], Home(site, *of[1:]))
    sized = {name for dim in dims for name in free_symbols(dim.expr)}
    return SizeNames({name: said for name, said in integer_names(inputs).items() if name not in sized}, homes)


def _constants(exported: ExportedProgram) -> dict[int, Any]:
    """What the program was exported for besides tensors and integers that may vary, by the place among its inputs."""
    specs = [spec.arg for spec in exported.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT]
    return {place: arg.value for place, arg in enumerate(specs) if isinstance(arg, ConstantArgument)}


def _is_constant(leaf: object, value: object) -> bool:
    """Whether a number, a text or ``None`` is that of the export: torch itself does not look at ``None``.

    1, 1.0 and True are equal, and a tensor of integers has another dtype after each.
    """
    kind = next((kind for kind in (bool, Integral, Real) if isinstance(value, kind)), type(value))
    other = next((kind for kind in (bool, Integral, Real) if isinstance(leaf, kind)), type(leaf))
    return kind is other and (leaf == value or (leaf != leaf and value != value))


def _tensors_by_place(exported: ExportedProgram) -> int:
    """The number of arguments where all are given by place and none is nested, else -1."""
    spec = exported.call_spec.in_spec
    if spec is None:
        return -1
    places, names = spec.child(0), spec.child(1)
    flat = places.num_children == places.num_leaves and not names.num_leaves
    # An empty list beside a list of one has as many leaves as children.
    nested = any(places.child(index).num_children for index in range(places.num_children))
    return places.num_children if flat and not nested else -1


def names_by_place(exported: ExportedProgram) -> tuple[str, ...]:
    """What the module calls the arguments that the export gave by place; empty where the program does not say."""
    signature = exported.module_call_graph[0].signature if exported.module_call_graph else None
    names = getattr(signature, "forward_arg_names", None) or ()
    keywords = exported.call_spec.in_spec.child(1).context if exported.call_spec.in_spec is not None else ()
    return tuple(name for name in names if name not in keywords)


def _example_layouts(exported: ExportedProgram) -> dict[str, torch.layout]:
    """The layouts of the example inputs by placeholder: what torch saves of the graph knows of dense inputs alone."""
    if exported.example_inputs is None:
        return {}
    try:
        leaves = call_leaves(exported, *exported.example_inputs)
    except UserError:  # an example that does not fit says nothing
        return {}
    pairs = zip(exported.graph_signature.user_inputs, leaves, strict=False)
    return {str(name): leaf.layout for name, leaf in pairs if isinstance(leaf, torch.Tensor)}


def _size_refused(dim: InputDim, size: int, allowed: str, fix: str = _WIDER) -> ShapeOutOfRangeError:
    return _out_of_range(dim.input, f"{dim.site} is {size}", allowed, fix)


def _out_of_range(name: str, seen: str, allowed: str, fix: str = _WIDER) -> ShapeOutOfRangeError:
    return ShapeOutOfRangeError(
        f"the input {name} has a size that the program was not compiled for",
        because=f"{seen}; allowed is {allowed}",
        fix=fix,
        reference="input-size",
    )


def _refused(name: str, seen: str, allowed: str, reference: str) -> UserError:
    return UserError(
        f"the input {name} is not what the program was compiled for",
        because=f"{seen}; it takes {allowed}",
        fix="give what the program was exported with",
        reference=reference,
    )
