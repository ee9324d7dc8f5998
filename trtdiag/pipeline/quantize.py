"""INT8 by calibration: between capturing a program and diagnosing it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from torch.export import ExportedProgram

from trtdiag.calibration.batches import Batches, calls_of, read_batches
from trtdiag.calibration.calibrate import calibrated
from trtdiag.calibration.facts import QuantizationFacts, Quantizers
from trtdiag.calibration.insert import folded, quantized
from trtdiag.calibration.observe import require_torchao
from trtdiag.errors import UserError
from trtdiag.frontend.program import Program
from trtdiag.graph.inputs import held_tensors
from trtdiag.graph.node_kinds import walk
from trtdiag.graph.operators import operator_of
from trtdiag.graph.quantizers import QUANTIZED_DTYPES, is_quantizer
from trtdiag.option_warnings import OptionWarning
from trtdiag.options import CompileOptions, Precision
from trtdiag.pipeline.stages import Clock
from trtdiag.runtime.compiled_device import compiled_device
from trtdiag.runtime.program_inputs import ProgramInputs, names_by_place

AS_QUANTIZED = "the original is compared as it was quantized when it was compiled"


@dataclass
class Quantizing:
    """The step that makes a quantized program of a captured one, where that is asked for.

    Args:
        options: Of the compilation.
        given: What to calibrate with; ``None``: the program has quantizers already.
        clock: Runs the stage.

    Attributes:
        quantizers: What was made, to make it again.
        facts: What it costs.

    Raises:
        UserError: ``calibration-data``; ``int8-not-refittable``.
        PlatformError: ``torchao-missing``.
    """

    options: CompileOptions
    given: Batches | None
    clock: Clock
    quantizers: Quantizers | None = None
    facts: QuantizationFacts | None = None

    def __post_init__(self) -> None:
        # What can be told before the program is captured, is.
        if not self.asked:
            return
        if self.options.refittable:
            raise UserError(
                "a program that is calibrated cannot be refitted",
                because="its scales and INT8 weights are those of the weights that it was calibrated with",
                fix="leave refittable and engine_weights out, and calibrate again for other weights",
                reference="int8-not-refittable",
            )
        require_torchao()
        assert self.given is not None
        self._batches = read_batches(self.given)

    @property
    def asked(self) -> bool:
        """Whether anything is calibrated."""
        return self.options.precision is Precision.INT8 and self.given is not None

    def warnings(self) -> Iterator[OptionWarning]:
        """A warning for what was asked for and changed nothing, once the program was examined."""
        if self.given is not None and not self.asked:
            why = f"precision is {self.options.precision.value}: nothing is quantized"
            named = os.fspath(self.given) if isinstance(self.given, (str, os.PathLike)) else "[...]"
            yield OptionWarning("calibrate", named, why)
        elif self.facts is None and self.options.precision is Precision.INT8:
            for entry in self.options.keep_float:
                yield OptionWarning("keep_float", entry, "the program has quantizers already")
        elif self.facts is not None:
            own = (entry for entry in self.facts.unused if entry in self.options.keep_float)
            for entry in own:
                yield OptionWarning("keep_float", entry, "it names no op that could be quantized")

    def __call__(self, program: Program) -> Program:
        """The quantized program; the same where nothing is to be quantized.

        Raises:
            UserError: ``int8-without-data``, ``already-quantized``, ``nothing-to-quantize``, and what is wrong with
                the data.
        """
        exported = program.exported
        if self.options.precision is not Precision.INT8 or exported is None:
            return program
        has = _holds_quantizers(exported)
        if self.given is None:
            if has:
                return program
            raise UserError(
                "precision int8 needs data to calibrate with",
                because="the program has no quantizers, and nothing says which range its tensors have",
                fix="give --calibrate data.pt (calibrate= in Python), or quantize the program with torchao or ModelOpt",
                reference="int8-without-data",
            )
        if has:
            raise UserError(
                "the program is quantized already",
                because="it has quantizers with scales of their own",
                fix="compile it with precision int8 and without calibrate, or calibrate the program of before",
                reference="already-quantized",
            )
        with self.clock("calibrate"):
            inputs = ProgramInputs(exported, program if program.failure is None else None, self.options.max_sizes)
            calls = calls_of(
                self._batches, inputs.leaves, inputs.check, names_by_place(exported), compiled_device(exported)
            )
            keep = (*self.options.keep_float, *self.options.keep_fp32)
            made, self.quantizers, self.facts = calibrated(folded(program), calls, keep, self.clock.progress)
            return made


def _holds_quantizers(exported: ExportedProgram) -> bool:
    """Whether a program has quantizers, or weights of few bits."""
    ops = (operator_of(each.node) for each in walk(exported.graph_module))
    if any(op is not None and is_quantizer(op) for op in ops):
        return True
    return any(tensor.dtype in QUANTIZED_DTYPES and tensor.dim() > 1 for tensor in held_tensors(exported))


def again(quantizers: Quantizers) -> Callable[[Program], Program]:
    """What quantizes a program as it was quantized before.

    Raises:
        UserError: ``other-quantizers``, when it is called with another program.
    """
    return lambda program: program if program.exported is None else quantized(folded(program), quantizers)
