"""From ``package.module:factory`` to an export, with the guards' source lines noted on the way."""

from __future__ import annotations

import inspect
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, replace
from io import StringIO
from operator import attrgetter
from pathlib import Path
from typing import Any

import torch
from torch.export import Dim, ExportedProgram
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from trtdiag.errors import CaptureError
from trtdiag.frontend.failed_export import export_failure, failed_env, partial_graphs_as_warnings
from trtdiag.frontend.guard_stacks import GuardStacks, recording
from trtdiag.frontend.merged_inputs import given_apart
from trtdiag.frontend.program import ExportFailure
from trtdiag.frontend.user_code import imported, imported_file, refuse_torchscript, users_code
from trtdiag.options import Progress
from trtdiag.timed_steps import timed
from trtdiag.wording import one_of_type, shown

SPEC_MODULE = "torch.fx.experimental.dynamic_spec"  # of ShapesSpec, which torch takes from 2.14 on


@dataclass(frozen=True)
class Recipe:
    """What a factory returns: a module and how to export it."""

    module: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    dynamic_shapes: Any

    def __post_init__(self) -> None:
        refuse_torchscript(self.module)
        vars(self).update(given_apart(args=self.args, kwargs=self.kwargs))  # a tensor that is given twice

    def parameter_names(self) -> list[str]:
        """The name of each positional argument, ``*`` for those of ``*args``, then of each keyword."""
        parameters = list(inspect.signature(self.module.forward).parameters.values())
        plain = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        names = plain[: len(self.args)] + ["*"] * max(0, len(self.args) - len(plain))
        return [*names, *self.kwargs]

    def export(self, **options: Any) -> ExportedProgram:
        """The program that ``torch.export.export`` makes of it, not strictly; ``options`` are further ones of it."""
        with partial_graphs_as_warnings():
            return torch.export.export(
                self.module, self.args, self.kwargs or None, dynamic_shapes=self.dynamic_shapes, strict=False, **options
            )

    def rest_name(self) -> str:
        """The name of the ``*args`` parameter, ``args`` where there is none."""
        parameters = inspect.signature(self.module.forward).parameters.values()
        return next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "args")


Again = Callable[[BaseException], "Recipe | None"]


@dataclass(frozen=True)
class Exported:
    """How an export ended, or no more than the program of one that happened elsewhere.

    Attributes:
        program: ``None`` when neither the asked-for nor a relaxed export passed.
        recipe: What was exported last, before anything was relaxed.
        failure: How the asked-for export failed.
        env: What a failed export left behind.
        stacks: The lines of its guards, noted meanwhile.
        seconds: What all exports took.
    """

    program: ExportedProgram | None
    recipe: Recipe | None = None
    failure: ExportFailure | None = None
    env: ShapeEnv | None = None
    stacks: GuardStacks | None = None
    seconds: float | None = None


def load_factory(text: str) -> Callable[[], Any]:
    """The callable named by ``package.module:factory`` or ``path/to/file.py:factory``.

    The current folder is importable, as is that of the file.
    """
    module_name, _, attribute = text.rpartition(":")
    if module_name.endswith(".py"):
        module = imported_file(Path(module_name))
    else:
        module = imported(module_name, repr(text), "factory-not-importable")
    found: Any = None
    fix = "name a function of the module after the colon"
    with users_code(f"{text!r}", reference="factory-failed", fix=fix), suppress(AttributeError):
        found = attrgetter(attribute)(module)
    if found is None:
        near = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
        raise CaptureError(
            f"{module_name!r} has no {attribute!r}",
            because=f"its callables are: {', '.join(sorted(near)[:8]) or 'none'}",
            fix="name one of them after the colon",
            reference="factory-not-found",
        )
    if not callable(found):
        raise CaptureError(
            f"{text!r} is not callable",
            because=f"it is {one_of_type(found)}",
            fix="write a function without arguments that returns (module, args, kwargs, dynamic_shapes)",
            reference="factory-not-callable",
        )
    return found  # type: ignore[no-any-return]  # checked one line above


def call_factory(factory: Callable[[], Any], label: str) -> Recipe | ExportedProgram:
    """Run the factory; a failure inside it is the user's, shown with its own line."""
    made = made_by(factory, label)
    return made if isinstance(made, ExportedProgram) else recipe_of(made, label)


def made_by(factory: Callable[[], Any], label: str) -> Any:
    """What the factory returns, whatever that is; a model that transformers exported is its program.

    Raises:
        CaptureError: ``factory-failed``; ``factory-wrong-result`` for an export of several programs.
    """
    with suppress(ValueError):  # some callables of C have no signature
        try:
            inspect.signature(factory).bind()
        except TypeError as error:
            raise CaptureError(
                f"{label!r} cannot be called without arguments",
                because=str(error),
                fix="name a function without arguments that calls it with them",
                reference="factory-failed",
            ) from error
    fix = "run the factory on its own and mend it; --debug shows the whole traceback"
    try:
        with users_code(f"the factory {label!r}", reference="factory-failed", fix=fix):
            made = factory()
    except CaptureError as error:
        if not _came_from_export(error.__cause__):
            raise
        raise CaptureError(
            error.message,
            because=error.because,
            fix="leave the export to trtdiag: return (module, args, kwargs, dynamic_shapes), it says what to declare",
            reference="factory-failed",
        ) from error.__cause__
    return program_in(made, label)


def _came_from_export(error: BaseException | None) -> bool:
    frames = [] if error is None else traceback.extract_tb(error.__traceback__)
    return any(Path(frame.filename).parts[-3:] == ("torch", "export", "__init__.py") for frame in frames)


def program_in(made: Any, label: str) -> Any:
    """The program of an ``ExportedModel`` of transformers' exporters; anything else as it is.

    Raises:
        CaptureError: ``factory-wrong-result``: it has several, or none of torch.export.
    """
    parts = getattr(made, "components", None)
    if not isinstance(parts, dict) or isinstance(made, torch.nn.Module):
        return made
    programs = {name: getattr(part, "program", None) for name, part in parts.items()}
    if len(programs) == 1 and isinstance(program := next(iter(programs.values())), ExportedProgram):
        return program
    names = ", ".join(map(repr, programs))
    raise _wrong_result(
        f"{label!r} is an export of {len(programs)} programs: {names}"
        if len(programs) > 1
        else f"{label!r} is no export of torch.export",
        "one program is analysed at a time" if len(programs) > 1 else f"it holds {names or 'nothing'}",
        "give one of them: exported.components[name].program, made by transformers' DynamoExporter",
    )


def recipe_of(made: Any, label: str) -> Recipe:
    """A ``(module, args[, kwargs[, dynamic_shapes]])`` tuple as a Recipe."""
    parts = list(made) if isinstance(made, (tuple, list)) else [made]
    if not 2 <= len(parts) <= 4 or not isinstance(parts[0], torch.nn.Module) or not isinstance(parts[1], (tuple, list)):
        kinds = f"({', '.join(type(part).__name__ for part in parts)})"
        given = kinds if isinstance(made, (tuple, list)) else one_of_type(made)
        form = "return (module, args, kwargs, dynamic_shapes): a torch.nn.Module, a tuple, a dict, a dict or None"
        if isinstance(made, torch.nn.Module):
            form += "; or say what to export the module with: --inputs NAME=SIZES, for example x=1..8x3x224x224"
        raise _wrong_result(f"{label!r} did not give what can be exported", f"it gave {given}", form)
    kwargs, spec = [*parts[2:], None, None][:2]
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise _wrong_result(
            f"{label!r} gave {one_of_type(kwargs)} for kwargs",
            "the third item must be a dict or None",
            "return (module, args, kwargs, dynamic_shapes)",
        )
    if spec is None and kwargs and _holds_dims(kwargs):
        raise _wrong_result(
            f"{label!r} gave dynamic_shapes as the third item",
            f"that is kwargs, and {shown(kwargs)} holds dims",
            "return (module, args, {}, dynamic_shapes)",
        )
    strange = next((key for key in kwargs or {} if not isinstance(key, str)), None)
    if strange is not None:
        raise _wrong_result(
            f"{label!r} gave kwargs with the name {shown(strange)}",
            "keyword arguments are named by texts",
            "write the names of forward's parameters, for example {'mask': mask}",
        )
    if not _may_be_shapes(spec):
        raise _wrong_result(
            f"{label!r} gave {shown(spec)} for dynamic_shapes",
            "the fourth item must be a dict, a sequence or None",
            "write for example {'x': {0: Dim('batch', min=1, max=8)}}",
        )
    return Recipe(parts[0], tuple(parts[1]), dict(kwargs or {}), spec)


def _wrong_result(what: str, because: str, fix: str) -> CaptureError:
    return CaptureError(what, because=because, fix=fix, reference="factory-wrong-result")


def _holds_dims(part: Any) -> bool:
    """Whether dims stand in it, by which dynamic shapes are known; no model takes them as arguments."""
    if isinstance(part, (Mapping, list, tuple)):
        return any(map(_holds_dims, part.values() if isinstance(part, Mapping) else part))
    return isinstance(part, (Dim, type(Dim.AUTO)))


def _may_be_shapes(spec: Any) -> bool:
    """Whether torch reads such an object as ``dynamic_shapes``: a container, or a collection that makes one."""
    made = callable(getattr(spec, "dynamic_shapes", None)) and not isinstance(spec, type)
    return spec is None or isinstance(spec, (Mapping, list, tuple)) or made or type(spec).__module__ == SPEC_MODULE


def export(recipe: Recipe, progress: Progress, again: Again | None = None) -> Exported:
    """Export as asked; where torch refuses, once more with what it refuses turned into run-time checks.

    Args:
        recipe: What to export.
        progress: Called with each long step as it begins.
        again: Asked first for another recipe where torch refuses one; ``None`` where there is none.

    The relaxed program has the same ops and ranges, so everything but the refused guards can be analysed; with dims
    that torch pinned to a constant, the last attempt leaves their ranges to torch.
    """
    started = time.perf_counter()
    with recording() as stacks:
        other: Recipe | None = recipe
        while other is not None:
            recipe = other
            progress("export")
            try:
                with timed("export", "torch.export"):
                    program = recipe.export()
                return Exported(program, recipe, None, None, stacks, time.perf_counter() - started)
            except Exception as error:  # torch raises anything here; every kind becomes a finding
                first = error
            other = None if again is None else again(first)
        env = failed_env(first)
        if env is not None:
            for how, spec, deferred in (
                ("the same ranges, guards as run-time checks", recipe.dynamic_shapes, True),
                ("dims left to torch (Dim.AUTO)", as_auto(recipe.dynamic_shapes), False),
            ):
                progress("export again, relaxed")
                try:
                    # torch prints whole graphs
                    with (
                        redirect_stdout(StringIO()),
                        redirect_stderr(StringIO()),
                        timed("export", "torch.export", how=how),
                    ):
                        program = replace(recipe, dynamic_shapes=spec).export(
                            prefer_deferred_runtime_asserts_over_guards=deferred
                        )
                except Exception:  # the first error is the one to report
                    continue
                failure = export_failure(first, how)
                return Exported(program, recipe, failure, env, stacks, time.perf_counter() - started)
    return Exported(None, recipe, export_failure(first, None), env, stacks, time.perf_counter() - started)


def as_auto(spec: Any) -> Any:
    """``dynamic_shapes`` with every Dim replaced by ``Dim.AUTO`` of the same bounds."""
    if isinstance(spec, Mapping):
        return {key: as_auto(value) for key, value in spec.items()}
    if isinstance(spec, (list, tuple)):
        return type(spec)(as_auto(value) for value in spec)
    if isinstance(spec, Dim):
        return Dim.AUTO
    return spec
