"""The captured program: what every later stage starts from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch.export import ExportedProgram

from trtdiag.graph.source import NO_STACK, Stack
from trtdiag.symbolic import Expr, Range, Sym, affine, free_symbols
from trtdiag.symbolic.size_names import Home, SizeNames

if TYPE_CHECKING:
    from trtdiag.frontend.factory import Recipe


class SourceKind(Enum):
    """Where a program came from."""

    FILE = "file"
    LIVE = "live"
    FACTORY = "factory"


@dataclass(frozen=True)
class Versions:
    """The torch that exported a program and the one that reads it; schema is the file's ``major.minor``."""

    running_torch: str
    exporting_torch: str | None = None
    schema: str | None = None
    running_schema: str | None = None


@dataclass(frozen=True)
class InputDim:
    """One dim of one user input.

    Attributes:
        input: The user's name of the input (``x``, ``kwargs['mask']``, ``batch['image'][0]``).
        index: Which dim, from 0.
        expr: Its size over the graph's symbols; a ``Num`` where it is static.
        declared: The text of what ``dynamic_shapes`` said (``h``, ``2*_seq``, ``Dim.AUTO``), where known.
        declared_name: The name of the declared ``Dim``, where it is a named one.
        declared_root: The name of the ``Dim`` that a derived one is made of.
        declared_range: The range of the declared ``Dim`` as the user wrote it, where known.
        dynamic: Whether the user asked for it to be dynamic; ``None`` when not known (a saved file).
        hint: The size in the example input, where known.
    """

    input: str
    index: int
    expr: Expr
    declared: str | None = None
    declared_name: str | None = None
    declared_range: Range | None = None
    dynamic: bool | None = None
    hint: int | None = None
    declared_root: str | None = None

    @property
    def site(self) -> str:
        """The dim in Python: ``x.shape[2]``."""
        return f"{self.input}.shape[{self.index}]"


@dataclass(frozen=True)
class InputTensor:
    """One user input: its placeholder, the user's name, dtype (``None`` for a plain number) and dims.

    ``number`` is what an integer is that was exported to vary, over the graph's symbols.
    """

    placeholder: str
    name: str
    dtype: torch.dtype | None
    dims: tuple[InputDim, ...]
    number: Expr | None = None


def integer_names(inputs: Iterable[InputTensor]) -> dict[str, str]:
    """The names of integer inputs that may vary, by the symbols that they are."""
    return {each.number.name: each.name for each in inputs if isinstance(each.number, Sym)}


@dataclass(frozen=True)
class OpOrigin:
    """Where an op comes from.

    Attributes:
        module_path: The qualified name of the innermost module (``layers.3.attn``), empty for the root.
        module_type: That module's class, with its package.
        stack: The Python stack at the call, where the program kept one.
    """

    module_path: str
    module_type: str
    stack: Stack = NO_STACK


@dataclass(frozen=True)
class RawGuard:
    """A condition that torch recorded, before it is parsed.

    Attributes:
        condition: Its text (over ``L['x'].size()[1]``) or torch's sympy object.
        found_in: ``_guards_code``, ``ShapeEnv``, ``_assert_scalar``, ``export error``; ``squeeze``, of which torch
            writes none.
        stack: The Python lines that caused it, where known.
        node: The graph node that carries it, where there is one.
        op: The op that asked for it (``aten.view.default``), where it was seen while tracing.
    """

    condition: object
    found_in: str
    stack: Stack = NO_STACK
    node: str | None = None
    op: str | None = None


@dataclass(frozen=True)
class Pin:
    """An input dim that was dynamic when tracing began and took one value: where, which, and the line that did it."""

    site: str
    value: int
    condition: str
    stack: Stack = NO_STACK
    op: str | None = None


@dataclass(frozen=True)
class Join:
    """Two input dims that began apart, the first of which tracing made of the second: where, and the line."""

    sites: tuple[str, str]
    condition: str
    stack: Stack = NO_STACK
    op: str | None = None


@dataclass(frozen=True)
class SizeEscape:
    """A line that asked of a size what torch answers without a guard: how (``makes text of a size``), and where."""

    how: str
    stack: Stack = NO_STACK


@dataclass(frozen=True)
class Bound:
    """What the user says of a symbol beyond what the program does.

    Attributes:
        symbol: The symbol.
        name: The user's name for it.
        before: Its range as the program has it.
        range: Its range with what was said.
        assumed: Whether the data decides the size, so that what was said is an assumption; else it is a dim of an
            input, which is looked at before anything runs.
        place: Of a size from data: what makes it, the op with its source line.
    """

    symbol: str
    name: str
    before: Range
    range: Range
    assumed: bool
    place: str = ""

    @property
    def unneeded(self) -> bool:
        """Whether the program has it all without being told."""
        return self.range == self.before

    @property
    def said(self) -> tuple[int | None, int | None]:
        """The ends that the user gave: ``None`` where the program has the same."""
        least = None if self.range.min == self.before.min else self.range.min
        return least, None if self.range.max == self.before.max else self.range.max


@dataclass(frozen=True)
class ExportFailure:
    """An export that failed while the program was captured from a factory.

    Attributes:
        error_type: The class of torch's exception.
        message: Its text, as torch wrote it.
        relaxed: How the graph was obtained all the same, in words; ``None`` where there is no graph.
        stack: The user's frames at the failure, where known.
        traced: Whether the model had been traced to its end by then, so that every guard is known.
        values_of_data: Symbol -> what bears it, of the sizes and numbers that data decides, where torch told.
    """

    error_type: str
    message: str
    relaxed: str | None
    stack: Stack = NO_STACK
    traced: bool = True
    values_of_data: Mapping[str, str] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class Program:
    """An exported program with the origin of every symbol and op, never edited by any stage.

    Attributes:
        label: How to name the program to the user (file name, ``package.module:factory``).
        kind: Where it came from.
        exported: torch's program; ``None`` only when an export failed and no relaxed one was possible.
        inputs: The user's inputs in order.
        ranges: Each graph symbol's range as the user's declaration and torch's constraints give it; symbols that
            are used in the graph and have no entry in ``range_constraints`` are absent.
        hints: Each backed symbol's size in the example inputs.
        names: Each symbol's name for the user: the declared ``Dim``'s, else the first site (``x.shape[2]``).
        guards: Every condition that was recorded, in torch's order.
        origins: Each op's origin by node name (nested subgraphs as ``sub.node``).
        versions: torch versions.
        failure: Set when the asked-for export failed.
        export_s: How long the export took in seconds, where it happened here.
        file_bytes: The size of the file it was read from.
        notes: What had to be left out while reading, in words.
        pins: Dims that tracing narrowed to one value, where that can still be seen.
        joins: Dims that tracing made equal, where that can still be seen.
        escapes: Lines that asked of sizes what torch guards nowhere, where the export happened here.
        recipe: The module with its inputs and ``dynamic_shapes`` as the user gave them, where it was exported here.
        bounds: What the user said of sizes beyond all that; the program's ranges and graph have it.
    """

    label: str
    kind: SourceKind
    exported: ExportedProgram | None
    inputs: tuple[InputTensor, ...]
    ranges: Mapping[str, Range]
    hints: Mapping[str, int]
    names: Mapping[str, str]
    guards: tuple[RawGuard, ...]
    origins: Mapping[str, OpOrigin]
    versions: Versions
    failure: ExportFailure | None = None
    export_s: float | None = None
    file_bytes: int | None = None
    notes: tuple[str, ...] = field(default=())
    pins: tuple[Pin, ...] = field(default=())
    joins: tuple[Join, ...] = field(default=())
    escapes: tuple[SizeEscape, ...] = field(default=())
    recipe: Recipe | None = field(default=None, repr=False, compare=False)
    bounds: tuple[Bound, ...] = field(default=())

    @property
    def unassumed(self) -> Program:
        """The program with what is known of sizes from data, without what the user assumed of them."""
        before = {bound.symbol: bound.before for bound in self.bounds if bound.assumed}
        return replace(self, ranges={**self.ranges, **before}) if before else self

    @cached_property
    def words(self) -> SizeNames:
        """``names`` for people: a symbol without a name, of which a dim is made (``2*s70 + 1``), goes by that dim."""
        dims = [dim for tensor in self.inputs for dim in tensor.dims]
        plain = {dim.expr.name for dim in dims if isinstance(dim.expr, Sym)}
        named = plain.union(*(free_symbols(dim.expr) for dim in dims if dim.declared_root is not None))
        homes: dict[str, Home] = {}
        for dim in dims:
            made = affine(dim.expr)
            if made is not None and made[0] not in named and made[1] > 0:
                homes.setdefault(made[0], Home(dim.site, *made[1:]))
        return SizeNames(self.names, homes)
