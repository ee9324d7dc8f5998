"""Gives the engines of a compiled program other weights of the same model, without a build."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

import torch

from trtdiag.artifact.lora import Adapter, merged
from trtdiag.artifact.model_weights import Given, Weights, model_weights
from trtdiag.artifact.weightless_engines import not_refittable, refitted
from trtdiag.engine.refit_plan import ParameterFacts, RefitPlan, content_key, dtype_name
from trtdiag.errors import UserError
from trtdiag.graph.program_lines import program_lines
from trtdiag.lower.recipe_text import RecipeError
from trtdiag.network import to_bytes
from trtdiag.options import CompileOptions
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.runtime.compiled_device import on_engine_device
from trtdiag.runtime.engine_nodes import engine_nodes
from trtdiag.runtime.replace_engines import with_engines
from trtdiag.wording import amount

MOST_NAMED = 8
"""Own choice: parameters that an error names."""


@dataclass(frozen=True)
class NewWeights:
    """Weights that fit a compiled program.

    Attributes:
        parameters: Every parameter that it needs, by name.
        stays: Buffers that keep the value that the program has given them.
        unread: Names that were given and that nothing in the program depends on.
        state: All that was given, adapters merged.
    """

    parameters: Mapping[str, torch.Tensor]
    stays: frozenset[str]
    unread: tuple[str, ...]
    state: Mapping[str, torch.Tensor]


def new_weights(
    plan: RefitPlan, weights: Weights | None, lora: Sequence[Adapter] = (), scale: float = 1.0
) -> NewWeights:
    """Weights that fit.

    Args:
        plan: Of the compiled program.
        weights: Of the model; ``None`` for those that the program's file has once beside its engines.
        lora: Adapters to merge into them, one after the other.
        scale: How much of the adapters to take.

    Raises:
        UserError: ``weights-do-not-fit``: names what is missing, unexpected, or of another shape or dtype, ties that
            are none, and where another program is the first op that differs; ``base-weights-missing``; what
            ``model_weights`` and ``merged`` raise.
    """
    if weights is None and not plan.stored:
        raise UserError(
            "an adapter needs the weights that it adapts",
            because="the compiled program has them in its engines alone, cast and merged",
            fix="give them as weights, or compile with engine_weights='once' (--engine-weights once)",
            reference="base-weights-missing",
        )
    given = Given(plan.stored, "the program") if weights is None else model_weights(weights)
    if given.program is not None:
        _refuse_other_program(plan, given)
    state = dict(given.state)
    for each in lora:
        state = merged(_with_ties(plan, state), each, scale)
    return _fitting(plan, state, given.place)


def refit_with(compiled: CompiledProgram, found: NewWeights) -> None:
    """Give a compiled program, as it is, other weights; calls that are under way end with the old ones.

    Raises:
        UserError: ``weights-decide``: sizes, types or layers rest on what the weights were.
        ArtifactError: ``not-refittable``.
        PlatformError: ``refit-missing``; an engine's backend cannot be used here.
    """
    plan = compiled.refit_plan
    if plan is None:
        raise not_refittable("the program cannot take other weights")
    try:
        _refuse_other_answers(plan, found)
        networks = plan.networks(found.parameters)
        steps = {name: step for name, step in plan.in_torch.items() if name not in found.stays}
        values = plan.computed(list(steps.values()), found.parameters)
    except RecipeError as error:
        raise _unfit([f"a weight cannot be computed: {error}"]) from error
    calls = [call for call in engine_nodes(compiled.exported_program) if call.buffer in networks]
    compiled.load_anew()  # engines that only this program runs are changed where they are
    engines = [refitted(call, networks[call.buffer]) for call in calls]
    weights = {name: values[step].clone() for name, step in steps.items()}
    made = with_engines(compiled.exported_program, calls, [(each.blob, each.manifest) for each in engines], weights)
    if any(call.engine.is_cuda for call in calls):
        made = on_engine_device(made, "cuda")
    options = compiled.options or CompileOptions()
    kept = dict(zip([call.buffer for call in engine_nodes(made)], compiled.networks, strict=False))
    if compiled.networks or (options.portable and len(calls) == len(compiled.manifests)):
        kept |= {buffer: to_bytes(network) for buffer, network in networks.items()}
    apart = plan.stored or options.engine_weights != "inside"
    stored = {name: tensor.to("cpu", copy=True) for name, tensor in found.parameters.items() if apart}
    compiled.refit_plan = replace(plan, stored=stored)
    compiled.source = None  # what it was compiled from has other weights
    compiled.load_anew(made, tuple(kept.values()))


def _with_ties(plan: RefitPlan, state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The weights with all names of tied ones, so that an adapter finds the one that it means."""
    return {**{name: state[first] for name, first in plan.same.items() if first in state}, **state}


def _fitting(plan: RefitPlan, given: Mapping[str, torch.Tensor], place: str) -> NewWeights:
    faults = list(_faults(plan, given))
    if faults:
        raise _unfit([f"{fault} ({place})" if index == 0 else fault for index, fault in enumerate(faults)])
    found: dict[str, torch.Tensor] = {}
    for name in plan.parameters:
        first = plan.same.get(name, name)
        tensor = given.get(name)
        if tensor is not None and (first not in found or first == name):
            found[first] = tensor.detach()
    stays = frozenset(name for name, facts in plan.parameters.items() if facts.may_stay and name not in given)
    unread = tuple(name for name in given if not plan.parameters[name].used and name not in plan.same)
    return NewWeights(found, stays, unread, given)


def _faults(plan: RefitPlan, given: Mapping[str, torch.Tensor]) -> Iterator[str]:
    names: dict[str, list[str]] = {}
    for name in plan.parameters:
        names.setdefault(plan.same.get(name, name), []).append(name)
    missing = [
        first
        for first, every in names.items()
        if any(plan.parameters[name].used and not plan.parameters[name].may_stay for name in every)
        and not any(name in given for name in every)
    ]
    if missing:
        yield f"missing: {_listed(missing)}"
    unexpected = [name for name in given if name not in plan.parameters]
    if unexpected:
        yield f"unexpected: {_listed(unexpected)}"
    for name, facts in plan.parameters.items():
        if name in given:
            yield from _misfits(name, facts, given[name])
    for first, every in names.items():
        there = [name for name in every if name in given and tuple(given[name].shape) == plan.parameters[name].shape]
        if any(not torch.equal(_bits(given[there[0]]), _bits(given[other])) for other in there[1:]):
            yield f"{' and '.join(every)} are one tensor in the program, and have different values; {first} is used"


def _misfits(name: str, facts: ParameterFacts, tensor: torch.Tensor) -> Iterator[str]:
    if tensor.is_meta or tensor.layout is not torch.strided:
        yield f"{name} has no elements that can be read ({'meta' if tensor.is_meta else tensor.layout})"
    elif tuple(tensor.shape) != facts.shape:
        yield f"{name} is {list(tensor.shape)}, and the program has {list(facts.shape)}"
    elif dtype_name(tensor.dtype) != facts.dtype:
        yield f"{name} is {dtype_name(tensor.dtype)}, and the program has {facts.dtype}"
    elif facts.fixed is not None and content_key(tensor) != facts.fixed:
        yield f"{name} has other values, and what is in the engines was decided by them"


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)


def _refuse_other_program(plan: RefitPlan, given: Given) -> None:
    """Another export of the same model has the same ops; the first that differs is named."""
    assert given.program is not None
    lines = program_lines(given.program, content_key)
    for index, (own, other) in enumerate(zip_longest(plan.graph, lines)):
        if own != other:
            says = f"node {index} is {_short(other)}, and in the compiled one {_short(own)}"
            raise _unfit([f"{given.place} is another program: {says}"])


def _short(line: str | None) -> str:
    return "missing" if line is None else line if len(line) <= 100 else f"{line[:97]}..."


def _refuse_other_answers(plan: RefitPlan, found: NewWeights) -> None:
    steps = [step for step, _ in plan.answers]
    answers = plan.computed(steps, found.parameters)
    for step, answer in plan.answers:
        if answers[step] != answer:
            names = plan.parameters_of(step)
            raise UserError(
                "the engines cannot take these weights",
                because=f"what is in them was decided by values of {_listed(sorted(names))}: with the old weights"
                f" {plan.question(step)} was {answer}, with the new ones it is {answers[step]}",
                fix="compile the program with the new weights",
                reference="weights-decide",
            )


def _listed(names: Iterable[str]) -> str:
    every = list(names)
    more = len(every) - MOST_NAMED
    return ", ".join(every[:MOST_NAMED]) + (f" and {amount(more, 'other')}" if more > 0 else "")


def _unfit(faults: Sequence[str]) -> UserError:
    more = len(faults) - MOST_NAMED
    return UserError(
        "the weights are not those of this program",
        because="; ".join(faults[:MOST_NAMED]) + (f"; and {amount(more, 'other')}" if more > 0 else ""),
        fix="give the weights of the model that was compiled, or compile the model that they are of",
        reference="weights-do-not-fit",
    )
