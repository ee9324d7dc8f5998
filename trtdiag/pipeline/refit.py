"""``refit``: other weights for a compiled program, compared with the model before anybody relies on them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from trtdiag.arguments import checked, flag, function, optional, path, path_or, wrong
from trtdiag.artifact.load import load_anywhere
from trtdiag.artifact.lora import Adapter
from trtdiag.artifact.model_weights import Weights, model_weights
from trtdiag.artifact.refit import NewWeights, new_weights, refit_with
from trtdiag.artifact.save import save
from trtdiag.artifact.weightless_engines import not_refittable
from trtdiag.errors import UserError, VerificationError
from trtdiag.files.same_file import Named, refuse_same
from trtdiag.frontend.archive.read import read_archive
from trtdiag.frontend.rebuilt_program import rebuilt_program
from trtdiag.graph.garbage_collection import uncollected
from trtdiag.options import Progress
from trtdiag.pipeline.verify import verify_saved
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.verification.facts import Verification
from trtdiag.verification.limits import VerifyLimits

_MOST = 1e6
"""Own choice: no adapter is meant to count more."""


def _adapters(name: str, value: Any) -> tuple[Any, ...]:
    """One adapter or several, as several."""
    several = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    if not all(isinstance(each, (str, os.PathLike, Mapping)) for each in several):
        raise wrong(name, value, "adapters", "wrong-argument", fix="give folders of PEFT, files, or tensors by name")
    return several


def _factor(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= _MOST:
        raise wrong(name, value, "a number", "wrong-argument", fix="give a number, such as 1.0")
    return float(value)


@dataclass(frozen=True)
class Refitted:
    """What became of a refit.

    Attributes:
        compiled: The program with its new weights.
        weights: What was given and what of it was used.
        verification: The comparison with the model; ``None`` where it was not asked for or the model is not at hand.
        names: Of the comparison, the names of the program's dims.
    """

    compiled: CompiledProgram
    weights: NewWeights
    verification: Verification | None = None
    names: Any = None


@dataclass(frozen=True)
class RefitRequest:
    """What is asked of a refit, as ``refit`` says it; the command has more.

    Attributes:
        limits: Of the comparison.
        must_verify: Refuse where no model is at hand.
    """

    compiled: str | os.PathLike[str] | CompiledProgram
    weights: Weights | None
    lora: Adapter | Sequence[Adapter]
    lora_scale: float
    output: str | os.PathLike[str] | None
    model: str | os.PathLike[str] | ExportedProgram | None
    verify: bool
    progress: Progress | None
    limits: VerifyLimits | None = None
    must_verify: bool = False


@checked(
    compiled=path_or(CompiledProgram),
    lora=_adapters,
    lora_scale=_factor,
    output=optional(path),
    model=optional(path_or(ExportedProgram)),
    verify=flag,
    progress=optional(function),
)
def refit(
    compiled: str | os.PathLike[str] | CompiledProgram,
    weights: Weights | None = None,
    *,
    lora: Adapter | Sequence[Adapter] = (),
    lora_scale: float = 1.0,
    output: str | os.PathLike[str] | None = None,
    model: str | os.PathLike[str] | ExportedProgram | None = None,
    verify: bool = True,
    progress: Progress | None = None,
) -> CompiledProgram:
    """A compiled program with other weights of the same model; its engines are not built again.

    Args:
        compiled: A program that was compiled with ``refittable=True``; it has the new weights from the next call on.
            Or its file, which stays as it is.
        weights: A state dict, a module, an ``ExportedProgram``; a ``.safetensors`` file or a folder of them, a file of
            ``torch.save``, a ``.pt2``.  ``None``: those of a program with ``engine_weights="once"``, for ``lora``.
        lora: Adapters to merge into the weights: folders of PEFT, files, or tensors by name.
        lora_scale: How much of the adapters to take.
        output: Where to save it; of a file without weights (``engine_weights="none"``) one with weights in its engines.
        model: The exported model to compare with; where not given, ``weights`` if they are a program, else the file
            that ``compiled`` was compiled from, with the new weights.
        verify: Compare the outputs with the model's; only what agrees is kept.  Where no model is at hand nothing is
            compared, which the command refuses and this function warns of.
        progress: Called with the name of each step as it begins.

    Raises:
        UserError: ``weights-do-not-fit``: names what is missing, unexpected or of another shape or dtype;
            ``weights-decide``; ``weights-not-read``; ``adapter-not-read``; ``adapter-does-not-fit``;
            ``base-weights-missing``; ``same-file``.
        ArtifactError: ``not-refittable``; the file is damaged or foreign; ``file-not-written``.
        PlatformError: ``refit-missing``; an engine's backend cannot be used here.
        VerificationError: ``verification-failed``: outputs differ; ``compiled`` has the weights of before again, and
            nothing was saved.
    """
    found = refit_in_steps(RefitRequest(compiled, weights, lora, lora_scale, output, model, verify, progress))
    if found.verification is not None and not found.verification.passed:
        raise differs(found.verification)
    return found.compiled


def refit_in_steps(request: RefitRequest) -> Refitted:
    """``refit`` with everything that was found on the way; a program that differs is not saved, and not raised."""
    tell = request.progress or (lambda _step: None)
    adapters = list(_adapters("lora", request.lora))
    if request.output is not None:
        refuse_same(_read(request, adapters), [Named("output", os.fspath(request.output))])
    tell("load")
    with uncollected():
        program, new = _with_plan(request, adapters)
    assert program.refit_plan is not None
    against = _model(program, request, new) if request.verify else None
    if request.verify and against is None and request.must_verify:
        raise UserError(
            "the program cannot be compared with its model",
            because="the file that it was compiled from is not at hand, and the weights are no exported program",
            fix="name the exported model with --model, or leave the comparison out with --no-verify",
            reference="not-verified",
        )
    if request.verify and against is None:
        warnings.warn(
            "outputs with the new weights were not compared with the model's: the file that the program was compiled "
            "from is not at hand; give the exported model as model=, or verify=False",
            stacklevel=4,  # of who calls ``refit``
        )
    before = program.exported_program, program.networks, program.refit_plan, program.source
    tell("refit")
    verification, names = None, None
    try:
        with uncollected():  # copying a graph makes many objects, and they stay
            refit_with(program, new)
        if against is not None:
            checked_state = verify_saved(program, against, progress=request.progress, limits=request.limits)
            verification, names = checked_state.verified, checked_state.report.analysis.program.names
    except BaseException:  # Ctrl-C too: nobody may rely on what was not compared to its end
        _put_back(program, before)
        raise
    if verification is not None and not verification.passed:
        _put_back(program, before)
        return Refitted(program, new, verification, names)
    if request.output is not None:
        tell("save")
        save(program, request.output)
    return Refitted(program, new, verification, names)


def _put_back(program: CompiledProgram, before: tuple[Any, Any, Any, Any]) -> None:
    exported, networks, program.refit_plan, program.source = before
    if program.exported_program is not exported:
        program.load_anew(exported, networks)


def _with_plan(request: RefitRequest, lora: Sequence[Adapter]) -> tuple[CompiledProgram, NewWeights]:
    compiled = request.compiled
    program = compiled if isinstance(compiled, CompiledProgram) else load_anywhere(compiled, bare=True)
    if program.refit_plan is None:
        what = "the program" if isinstance(compiled, CompiledProgram) else os.fspath(compiled)
        raise not_refittable(f"{what} cannot take other weights")
    if program is not compiled and program.options is not None and program.options.engine_weights == "none":
        program.options = replace(program.options, engine_weights="inside")  # a file that is given weights has them
    return program, new_weights(program.refit_plan, request.weights, lora, request.lora_scale)


def _model(program: CompiledProgram, request: RefitRequest, new: NewWeights) -> ExportedProgram | None:
    """The exported model with the new weights, to compare with."""
    model, weights = request.model, request.weights
    found: ExportedProgram | None = None
    if isinstance(model, ExportedProgram):
        found = model
    elif model is not None:
        found = read_archive(model).exported
    elif isinstance(weights, ExportedProgram) or (isinstance(weights, (str, os.PathLike)) and _is_program(weights)):
        found = model_weights(weights).program
    elif program.source is not None and _is_program(program.source) and os.path.isfile(program.source):
        found = read_archive(program.source).exported
    if found is None or program.refit_plan is None:
        return None
    same = program.refit_plan.same
    state: dict[str, Any] = dict(found.state_dict)
    for name, before in found.state_dict.items():
        tensor = new.parameters.get(same.get(name, name), new.state.get(name))
        if tensor is not None and isinstance(before, torch.Tensor):
            tensor = tensor.to(before.device)
            state[name] = torch.nn.Parameter(tensor, before.requires_grad) if _is_parameter(before) else tensor
    return rebuilt_program(found, found.graph_module, found.graph, state=state)


def _is_parameter(tensor: torch.Tensor) -> bool:
    return isinstance(tensor, torch.nn.Parameter)


def _is_program(place: str | os.PathLike[str]) -> bool:
    return Path(place).suffix in (".pt2", ".ep")


def _read(request: RefitRequest, lora: Sequence[Adapter]) -> list[Named]:
    """The files that are read: nothing is written over one of them."""
    named: list[tuple[str, object]] = [("an adapter", each) for each in lora]
    named = [("COMPILED", request.compiled), ("the weights", request.weights), ("the model", request.model), *named]
    found = [Named(what, os.fspath(place)) for what, place in named if isinstance(place, (str, os.PathLike))]
    for each in list(found):
        if os.path.isdir(each.path):  # not even a name that is too long is an error here
            found += [Named(f"a file of {each.argument}", str(file)) for file in Path(each.path).iterdir()]
    source = getattr(request.compiled, "source", None)
    return [*found, Named("the original of COMPILED", source)] if isinstance(source, str) else found


def differs(verification: Verification) -> VerificationError:
    """The error about a program that does not compute what the model with the new weights does."""
    skipped = next((each.skipped for each in verification.results if each.skipped), "it has no sizes")
    return VerificationError(
        "the program gives something else than the model with these weights, and was not saved"
        if verification.differs
        else "the program could not be compared, and was not saved",
        because="at least one output differs at one point" if verification.differs else skipped,
        fix="compile the model with the new weights, and report it",
        reference="verification-failed" if verification.differs else "not-verified",
    )
