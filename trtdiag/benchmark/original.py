"""The program that was compiled, where the engines run, and inputs of given sizes for it."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram

from trtdiag.errors import DimsError, UserError
from trtdiag.frontend.bounds_checked_run import BeyondTensorsError, has_trusting_calls, trusted_calls_checked
from trtdiag.frontend.capture import Source, capture, names_factory
from trtdiag.frontend.dim_sites import Sites
from trtdiag.frontend.factory import Recipe, call_factory, load_factory, recipe_of
from trtdiag.frontend.fake_run import put_back
from trtdiag.frontend.move_to_device import on_device
from trtdiag.frontend.program import Program
from trtdiag.frontend.sized_inputs import InputMaker
from trtdiag.graph.index_inputs import ends_of_offsets, index_inputs
from trtdiag.graph.pytree import leaves_of, rebuilt
from trtdiag.options import CompileOptions, Precision
from trtdiag.shapes.opt_sizes import conditions_of, opt_sizes
from trtdiag.shapes.user_sizes import dim_named
from trtdiag.symbolic import free_symbols
from trtdiag.verification.points import input_ranges, points

ENDS = ("min", "opt", "max")


@dataclass(frozen=True)
class Original:
    """What is compared with.

    Attributes:
        program: As it was captured.
        exported: On the device that everything runs on.
        module: Called like the original: the user's own where there is one, else that of ``exported``.
        device: That.
        precision: What the compiled program computes in.
        opt: The sizes that its engines were tuned for, as they were asked for.
    """

    program: Program
    exported: ExportedProgram
    module: torch.nn.Module
    device: torch.device
    precision: Precision
    opt: tuple[tuple[str, int], ...] = ()

    def sizes(self, asked: str | Sequence[tuple[str, int]]) -> Mapping[str, int]:
        """Return a size for each symbol of the inputs: an end of all ranges, or what is asked for.

        Raises:
            DimsError: An asked name is not known, or ranges and guards do not allow what is asked.
        """
        box = input_ranges(self.program)
        if asked == "min":
            return points(box, {}, conditions_of(self.program, box))[0].sizes
        if asked == "max":
            found = points(box, self.program.hints, conditions_of(self.program, box))
            return next((point for point in found if point.label == "max"), found[0]).sizes
        own = () if isinstance(asked, str) else tuple(asked)
        return opt_sizes(self.program, box, (*self._usual(own, list(box)), *own), cannot="calls cannot have")

    def _usual(self, asked: Sequence[tuple[str, int]], symbols: Sequence[str]) -> Iterator[tuple[str, int]]:
        """What engines were tuned for, as far as nothing is asked of these sizes and they have these names here.

        A file has lost the names of Dims that the program was compiled with; the example's sizes stand for them.
        """
        sites = Sites(self.program)
        taken = {symbol for name, _ in asked for symbol in free_symbols(dim_named(name, sites, symbols))}
        for name, size in self.opt:
            with suppress(DimsError):
                if taken.isdisjoint(free_symbols(dim_named(name, sites, symbols))):
                    yield name, size

    def inputs(self, sizes: Mapping[str, int]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return arguments and keyword arguments of these sizes."""
        exported = self.exported
        example = exported.example_inputs
        leaves = None if example is None else leaves_of(example)
        maker = InputMaker(self.program.inputs, leaves, index_inputs(exported), ends=ends_of_offsets(exported))
        flat = [leaf.to(self.device) if isinstance(leaf, torch.Tensor) else leaf for leaf in maker.at(sizes)]
        args, kwargs = rebuilt(flat, self.exported.call_spec.in_spec)
        return tuple(args), dict(kwargs)

    def check_reach(self, points: Sequence[Mapping[str, int]]) -> None:
        """Run it at sizes that will be timed, where it calls ops that take sizes on trust: the timed runs do not look.

        Raises:
            BeyondTensorsError: Such a call would reach beyond its tensors.
        """
        if not has_trusting_calls(self.module):
            return
        for point in points:
            args, kwargs = self.inputs(point)
            with torch.no_grad(), put_back(self.module.buffers()), trusted_calls_checked(self.module):
                try:
                    self.module(*args, **kwargs)
                except BeyondTensorsError:
                    raise
                except Exception:  # a row says what it fails with
                    continue


def original(source: Source, device: torch.device, options: CompileOptions) -> Original:
    """Return the original on the device that everything runs on.

    Raises:
        CaptureError: The source cannot be read into a program.
        UserError: ``bench-without-program`` where its export failed.
    """
    recipe = _recipe(source)
    program = capture(source if recipe is None else (recipe.module, recipe.args, recipe.kwargs, recipe.dynamic_shapes))
    exported = program.exported
    if exported is None:
        raise UserError(
            "there is nothing to compare with",
            because="the export of the original failed",
            fix="give a program that exports",
            reference="bench-without-program",
        )
    exported = on_device(exported, device)
    # The user's module stays where it is.
    module = exported.module() if recipe is None else copy.deepcopy(recipe.module).to(device)
    return Original(program, exported, module, device, options.precision, options.opt)


def _recipe(source: Source) -> Recipe | None:
    """The user's module with its example, where the source has one."""
    if isinstance(source, str) and names_factory(source):
        source = load_factory(source)
    if isinstance(source, tuple):
        return recipe_of(source, "the given tuple")
    if callable(source) and not isinstance(source, (ExportedProgram, torch.nn.Module)):
        made = call_factory(source, getattr(source, "__qualname__", "factory"))
        return made if isinstance(made, Recipe) else None
    return None
