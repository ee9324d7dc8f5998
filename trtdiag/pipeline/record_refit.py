"""What a compilation writes down so that its engines can take other weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from trtdiag.engine.refit_plan import (
    EngineWeights,
    ParameterFacts,
    RefitPlan,
    content_key,
    dtype_name,
    same_names,
)
from trtdiag.graph.program_lines import program_lines
from trtdiag.lower.recipe_text import RecipeError, computed, written
from trtdiag.lower.recipes import RECIPES, Parameter, Recipe, Tape, parameters_of
from trtdiag.network import QUANTIZED, DType, Network, to_json
from trtdiag.network.layers.constant import Constant
from trtdiag.pipeline.state import State
from trtdiag.runtime.engine_nodes import engine_nodes

_FREE = (torch.int8, torch.uint8)
"""Integers that may be weights; others are places and sizes, which layers and types rest on."""


def refit_plan(tape: Tape, state: State) -> RefitPlan:
    """How the engines of a compiled program, and what stays with PyTorch, are made of the program's state.

    Each weight is computed once as it is written down.  One that does not come out as it is in the engine keeps its
    content, and so must the parameters that it is made of.
    """
    exported = state.program.exported
    assert exported is not None, "what was compiled has a graph"
    return _Plan(tape, exported.state_dict).made(state, exported)


def own_parameters(state: State, plan: RefitPlan) -> dict[str, torch.Tensor]:
    """A copy of the parameters that a compiled program is made of, each once."""
    exported = state.program.exported
    assert exported is not None, "what was compiled has a graph"
    return {
        name: exported.state_dict[name].detach().cpu().clone()
        for name, facts in plan.parameters.items()
        if facts.used and name not in plan.same
    }


class _Plan:
    def __init__(self, tape: Tape, state: Mapping[str, Any]) -> None:
        self._tape, self._state = tape, state
        self._held: dict[str, torch.Tensor] = {}
        self._fixed: set[str] = set()
        self._used: set[str] = set()
        self._good: dict[int, tuple[Recipe, bool]] = {}

    def made(self, state: State, exported: ExportedProgram) -> RefitPlan:
        networks = {
            node.buffer: one.network for node, one in zip(state.engine_nodes()[0], state.converted, strict=True)
        }
        weights = {buffer: self._of_engine(network) for buffer, network in networks.items()}
        in_torch, may_stay = self._of_torch(state)
        answers = self._answers()
        wanted = [recipe for found in weights.values() for recipe in found.values() if isinstance(recipe, RECIPES)]
        wanted += [*in_torch.values(), *(recipe for recipe, _ in answers)]
        read = {self._name(self._state[name]) or name for name in _read_by_ops(exported)}
        self._fixed |= read - self._used  # what its influence was cannot be told
        steps, places = written(wanted, self._keep)
        at = {id(recipe): place for recipe, place in zip(wanted, places, strict=True)}
        engines = {
            buffer: EngineWeights(
                to_json(networks[buffer]),
                {str(place): at[id(each)] if isinstance(each, RECIPES) else each for place, each in found.items()},
            )
            for buffer, found in weights.items()
        }
        return RefitPlan(
            parameters=self._parameters(may_stay),
            same=same_names(self._state, self._name),
            engines=engines,
            in_torch={name: at[id(recipe)] for name, recipe in in_torch.items()},
            answers=tuple((at[id(recipe)], answer) for recipe, answer in answers),
            graph=program_lines(exported, content_key),
            steps=tuple(steps),
            held=self._held,
            known={buffer: replace(network, weights={}) for buffer, network in networks.items()},
        )

    def _of_engine(self, network: Network) -> dict[int, Recipe | str]:
        """What each constant of a network is made of."""
        found: dict[int, Recipe | str] = {}
        for place, placed in enumerate(network.layers):
            layer = placed.layer
            if not isinstance(layer, Constant):
                continue
            recipe: Any = network.recipes.get(placed.outputs[0])
            content = network.weights[layer.weights]
            if recipe is not None:
                self._note_integers(recipe, layer.dtype)
            if recipe is None or not self._is_good(recipe, content):
                found[place] = self._keep(content)
            else:
                found[place] = recipe
        return found

    def _note_integers(self, recipe: Recipe, dtype: DType) -> None:
        for name in parameters_of(recipe):
            own = self._state[name].dtype
            if not (own.is_floating_point or own.is_complex or (own in _FREE and dtype in (*QUANTIZED, DType.FLOAT32))):
                self._fixed.add(name)

    def _of_torch(self, state: State) -> tuple[dict[str, Recipe], set[str]]:
        """What the tensors beside the engines are made of, and which of them the program changes."""
        compiled = state.compiled.exported_program
        engines = {node.buffer for node in engine_nodes(compiled)}
        written_to = set(compiled.graph_signature.buffers_to_mutate.values())
        found: dict[str, Recipe] = {}
        may_stay: set[str] = set()
        for spec in compiled.graph_signature.input_specs:
            name = spec.target
            if name is None or name in engines or spec.kind in (InputKind.USER_INPUT, InputKind.TOKEN):
                continue
            content = compiled.state_dict.get(name, compiled.constants.get(name))
            if not isinstance(content, torch.Tensor):
                continue
            if name in self._state:
                recipe: Recipe | None = self._tape.of(self._state[name]) or Parameter(name)
                may_stay |= {name} & written_to
            else:
                recipe = self._tape.of(content)
            if recipe is not None and self._is_good(recipe, content):
                found[name] = recipe
        return found, may_stay

    def _answers(self) -> list[tuple[Recipe, bool | int | float]]:
        found: dict[tuple[int, Any], tuple[Recipe, bool | int | float]] = {}
        for recipe, answer in self._tape.read:
            if answer == answer and self._is_good(recipe, answer):
                found[id(recipe), answer] = recipe, answer
        return list(found.values())

    def _is_good(self, recipe: Recipe, content: torch.Tensor | bool | float) -> bool:
        """Whether a recipe can be written, and gives what is there; its parameters are fixed where it does not."""
        names = parameters_of(recipe)
        self._used |= names
        if id(recipe) not in self._good:
            self._good[id(recipe)] = recipe, self._gives(recipe, content)
        good = self._good[id(recipe)][1]
        if not good:
            self._fixed |= names
        return good

    def _gives(self, recipe: Recipe, content: torch.Tensor | bool | float) -> bool:
        held: dict[str, torch.Tensor] = {}
        try:
            steps, places = written([recipe], lambda tensor: _kept(tensor, held))
            (found,) = computed(steps, places, self._state, held).values()
        except RecipeError:
            return False
        if not isinstance(content, torch.Tensor):
            return bool(found == content)
        return isinstance(found, torch.Tensor) and _is_same(found, content.detach().cpu())

    def _keep(self, tensor: torch.Tensor) -> str:
        return _kept(tensor, self._held)

    def _parameters(self, may_stay: Iterable[str]) -> dict[str, ParameterFacts]:
        staying = set(may_stay)
        return {
            name: ParameterFacts(
                dtype_name(tensor.dtype),
                tuple(tensor.shape),
                name in self._used,
                content_key(tensor) if name in self._fixed else None,
                name in staying,
            )
            for name, tensor in self._state.items()
            if isinstance(tensor, torch.Tensor)
        }

    def _name(self, tensor: torch.Tensor) -> str | None:
        found = self._tape.of(tensor)
        return found.name if isinstance(found, Parameter) else None


def _read_by_ops(exported: ExportedProgram) -> set[str]:
    """The parameters and buffers that an op of a program reads."""
    nodes = {node.name: node for node in exported.graph.find_nodes(op="placeholder")}
    signature = exported.graph_signature
    targets = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    return {target for name, target in targets.items() if target in exported.state_dict and nodes[name].users}


def _kept(tensor: torch.Tensor, held: dict[str, torch.Tensor]) -> str:
    name = content_key(tensor)
    held.setdefault(name, tensor.detach().cpu())
    return name


def _is_same(found: torch.Tensor, content: torch.Tensor) -> bool:
    """Equal to the last bit, or where another device computed it, nearly."""
    if found.dtype is not content.dtype or found.shape != content.shape:
        return False
    if not found.dtype.is_floating_point:
        return torch.equal(found, content)
    step = torch.finfo(found.dtype).eps
    return torch.allclose(found.double(), content.double(), rtol=4 * step, atol=0, equal_nan=True)
