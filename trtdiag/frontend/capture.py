"""From any source to a Program."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import sympy
import torch
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from trtdiag.arguments import checked, function, optional
from trtdiag.errors import CaptureError
from trtdiag.files.memory_map import MappedFile
from trtdiag.frontend import factory as factories
from trtdiag.frontend.archive.errors import refusal
from trtdiag.frontend.archive.read import ReadResult, read_archive
from trtdiag.frontend.deferred_compiler import import_compiler
from trtdiag.frontend.dim_sites import Sites
from trtdiag.frontend.failed_export import failed_guards
from trtdiag.frontend.hugging_face import folder_source
from trtdiag.frontend.module_inputs import ModuleInputs, SharedDims
from trtdiag.frontend.move_to_device import missing_device, on_device
from trtdiag.frontend.pinned_dims import joined_dims, pinned_dims
from trtdiag.frontend.program import InputTensor, Program, RawGuard, SourceKind
from trtdiag.frontend.program_of_export import program_of
from trtdiag.frontend.shapes_spec import with_plain_shapes
from trtdiag.frontend.torch_lock import TORCH_TURN
from trtdiag.frontend.torch_private import replacements, shape_env_of, symbol_sources
from trtdiag.graph.inputs import held_tensors, mapped_files
from trtdiag.symbolic import Range, Sym
from trtdiag.wording import one_of_type

PROGRAM_SUFFIXES = (".pt2", ".ep")
"""Of the files that ``torch.export.save`` writes."""
Source = ExportedProgram | ModuleInputs | str | PathLike[str] | tuple[Any, ...] | Callable[[], Any]


@checked(progress=optional(function))
def capture(source: Source, *, progress: Callable[[str], None] | None = None) -> Program:
    """The Program behind a ``.pt2``/``.ep`` file, a live program, a factory, or a factory's result.

    Args:
        source: A path, an ``ExportedProgram``, ``"package.module:factory"``, a callable, or a tuple
            ``(module, args, kwargs, dynamic_shapes)``.
        progress: Called with the name of each long step as it begins.

    Raises:
        CaptureError: The source is missing, damaged, unsafe, of a newer schema, or no program.
    """
    return captured(source, progress or (lambda _step: None))


def captured(source: Source, step: Callable[[str], None], *, whole: bool = True) -> Program:
    """``capture``; where it need not be ``whole``, nothing of large weights of a file is read, nor their checksums."""
    with TORCH_TURN:
        return _captured(source, step, whole=whole)


def _captured(source: Source, step: Callable[[str], None], *, whole: bool) -> Program:
    source = factories.program_in(source, "the given object")
    if isinstance(source, ExportedProgram):
        return program_of(factories.Exported(source), "live program", SourceKind.LIVE)
    if isinstance(source, ModuleInputs):
        program = _from_recipe(source.recipe(), source.label, step, SharedDims(source))
        return replace(program, notes=(*source.notes, *program.notes))
    if isinstance(source, tuple):
        return _from_recipe(factories.recipe_of(source, "the given tuple"), "live module", step)
    if isinstance(source, (str, PathLike)):
        text = str(source)
        if names_factory(text):
            return _from_factory(factories.load_factory(text), text, step)
        _refuse_other_names(text)
        if os.path.isdir(text):
            return _captured(folder_source(Path(text)), step, whole=whole)
        return _from_file(Path(text), step, whole=whole)
    if isinstance(source, torch.nn.Module):
        raise CaptureError(
            "a module alone cannot be analysed",
            because="example inputs and dynamic_shapes are not known",
            fix="give inputs=[trtdiag.Input(...)] beside it, or (module, args, kwargs, dynamic_shapes), or a program"
            " made by torch.export.export",
            reference="module-without-inputs",
        )
    if callable(source):
        return _from_factory(source, getattr(source, "__qualname__", "factory"), step)
    raise CaptureError(
        f"{one_of_type(source)} cannot be analysed",
        because="it is no ExportedProgram, path, factory or tuple",
        fix="give a .pt2 file, an ExportedProgram, 'package.module:factory' or (module, args, kwargs, dynamic_shapes)",
        reference="source-unknown",
    )


def unchanged(program: Program) -> tuple[MappedFile, ...]:
    """The file that a program's weights are read from, where they are: it is as it was when the program was captured.

    Raises:
        CaptureError: ``file-changed``.
    """
    if program.kind is not SourceKind.FILE or program.exported is None:
        return ()
    files = mapped_files(held_tensors(program.exported))
    for file in files:
        if file.changed:
            raise refusal("file-changed", file.file, file.changed)
    return files


def names_factory(text: str) -> bool:
    """Whether ``text`` is ``package.module:factory`` or ``path/to/file.py:factory``, and no existing file."""
    module, colon, attribute = text.rpartition(":")
    named = attribute if module.endswith(".py") else f"{module}.{attribute}"
    dotted = all(part.isidentifier() for part in named.split("."))
    return bool(colon) and dotted and not os.path.exists(text)  # of a name that no file system takes, too


def _refuse_other_names(text: str) -> None:
    """Say what can be named where there is nothing of this name, and it is not called like an exported program."""
    if not text.endswith(PROGRAM_SUFFIXES) and text.isprintable() and not os.path.lexists(text):
        raise CaptureError(
            f"there is no file or folder {text}",
            because="it is not of the form package.module:function",
            fix="give a .pt2 file, a folder of Hugging Face on this machine, or package.module:function (or"
            " path/to/file.py:function) of a function that gives the model with its inputs",
            reference="file-not-found",
        )


def _from_file(path: Path, step: Callable[[str], None], *, whole: bool) -> Program:
    step("load")
    read = _read(path, step, whole=whole)
    exported, notes = read.exported, read.notes
    missing = missing_device(exported)
    if missing is not None:
        exported = on_device(exported, "cpu")
        notes = (*notes, f"it was exported on {missing.type}, which this machine lacks: it is read as one for the CPU")
    return program_of(factories.Exported(exported), path.name, SourceKind.FILE, summary=read.summary, notes=notes)


def _read(path: Path, step: Callable[[str], None], *, whole: bool) -> ReadResult:
    try:
        return read_archive(path, progress=_percent(step), whole=whole)
    except CaptureError:
        if not import_compiler():  # which registers some ops, such as those of torch.onnx
            raise
        return read_archive(path, progress=_percent(step), whole=whole)


def _percent(step: Callable[[str], None]) -> Callable[[str, int, int], None]:
    """Turn bytes read into a step for each whole percent: weights of gigabytes take minutes."""
    last = -1

    def told(member: str, done: int, total: int) -> None:
        nonlocal last
        del member
        percent = 100 * done // max(1, total)
        if percent != last:
            last = percent
            step(f"load {percent} %")

    return told


def _from_factory(factory: Callable[[], Any], label: str, step: Callable[[str], None]) -> Program:
    step("build the model")
    made = factories.call_factory(factory, label)
    if isinstance(made, ExportedProgram):
        return program_of(factories.Exported(made), label, SourceKind.FACTORY)
    return _from_recipe(made, label, step)


def _from_recipe(
    recipe: factories.Recipe, label: str, step: Callable[[str], None], again: factories.Again | None = None
) -> Program:
    outcome = factories.export(with_plain_shapes(recipe), step, again)
    env, stacks = outcome.env, outcome.stacks
    program = program_of(outcome, label, SourceKind.FACTORY)
    if env is not None and stacks is not None and outcome.program is not None:
        lost, own = failed_guards(env, stacks), shape_env_of(outcome.program.graph_module)
        lost, names, asked = _of_pinned_dims(_renamed(lost, env, own), env if own is None else own, program)
        program = replace(
            program,
            names={**names, **program.names},
            ranges={**asked, **program.ranges},
            guards=(*lost, *program.guards),
            pins=pinned_dims(env, program.inputs, stacks) or pinned_dims(own, program.inputs, None),
            joins=joined_dims(env, program.inputs, stacks),
        )
    ranges = _declared_ranges(program.ranges, program.inputs)
    return replace(program, ranges=ranges, recipe=outcome.recipe)


def _declared_ranges(ranges: Mapping[str, Range], inputs: Sequence[InputTensor]) -> dict[str, Range]:
    """Ranges as the user wrote them where an input dim is one plain symbol; torch's for the others."""
    merged = dict(ranges)
    for tensor in inputs:
        for dim in tensor.dims:
            if isinstance(dim.expr, Sym) and dim.declared_range is not None:
                merged[dim.expr.name] = dim.declared_range
    return merged


def _renamed(lost: list[RawGuard], old: ShapeEnv, new: ShapeEnv | None) -> list[RawGuard]:
    """Guards of the failed export over the symbols of the relaxed one, matched by the input dim they stand for."""
    if new is None:
        return lost
    symbol_at = {source: symbol for symbol, sources in symbol_sources(new).items() for source in sources}
    swaps = {
        symbol: sympy.Symbol(symbol_at[source], integer=True, positive=True)
        for symbol, sources in symbol_sources(old).items()
        for source in sources[:1]
        if symbol_at.get(source, symbol) != symbol
    }
    return [replace(guard, condition=_swap(guard.condition, swaps)) for guard in lost] if swaps else lost


def _of_pinned_dims(
    lost: list[RawGuard], env: ShapeEnv, program: Program
) -> tuple[list[RawGuard], dict[str, str], dict[str, Range]]:
    """The guards over one symbol for each Dim that the relaxed export took for a number, their names and ranges.

    No input of the relaxed program has such a symbol: it would be said in torch's words, and its guards were undecided.
    """
    sites, taken = Sites(program), set(program.names.values())
    numbers = {symbol for symbol, expr in replacements(env).items() if getattr(expr, "is_Integer", False)}
    symbol_of: dict[str, str] = {}
    ranges: dict[str, Range] = {}
    swaps: dict[str, sympy.Symbol] = {}
    for symbol, sources in symbol_sources(env).items():
        dim = next(filter(None, map(sites.find, sources)), None) if symbol in numbers else None
        if dim is not None:
            name = sites.label(dim) if sites.label(dim) not in taken else dim.site
            swaps[symbol] = sympy.Symbol(symbol_of.setdefault(name, symbol), integer=True, positive=True)
            if dim.declared_range is not None:
                ranges[symbol] = dim.declared_range
    guards = [replace(guard, condition=_swap(guard.condition, swaps)) for guard in lost]
    held = [guard for guard in guards if guard.condition is not sympy.true]
    return held, {symbol: name for name, symbol in symbol_of.items()}, ranges


def _swap(condition: Any, by_name: Mapping[str, sympy.Symbol]) -> Any:
    return condition.xreplace({s: by_name[str(s)] for s in condition.free_symbols if str(s) in by_name})
