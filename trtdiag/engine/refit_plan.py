"""How the weights of a compiled program are made of the parameters of the model: what a refit computes anew.

It is a JSON text beside the program, and tensors that come from no parameter.  Reading one runs nothing.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import torch

from trtdiag.errors import ArtifactError
from trtdiag.files.typed_json import TypedJson
from trtdiag.lower.recipe_text import RecipeError, computed, reads
from trtdiag.network import Network
from trtdiag.network.file_format import with_weights
from trtdiag.network.weights import weight_bytes

SCHEMA = "trtdiag-refit/1"
_SMALL_BYTES = 256
"""Own choice: about what a member of an archive takes beside its bytes."""


@dataclass(frozen=True)
class ParameterFacts:
    """What a parameter or buffer of the model must be.

    Attributes:
        dtype: Its dtype, ``float32``.
        shape: Its sizes.
        used: Whether anything of the compiled program depends on it.
        fixed: The digest that its content must have, where sizes, types or layers were decided by it.
        may_stay: Whether the program writes to it, so that it has a value of its own.
    """

    dtype: str
    shape: tuple[int, ...]
    used: bool = True
    fixed: str | None = None
    may_stay: bool = False


@dataclass(frozen=True)
class EngineWeights:
    """The weights of one engine.

    Attributes:
        network: Its network as a JSON text, without the content of weights.
        weights: What each constant is, by the place of its layer in the network: the place of a step, or the name of a
            tensor that comes from no parameter.
    """

    network: str
    weights: Mapping[str, int | str]


@dataclass(frozen=True)
class Tensor:
    """Dtype and sizes of a tensor that is kept beside the text."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class RefitPlan:
    """How all weights of a compiled program are computed from the parameters of the model.

    Attributes:
        parameters: The model's parameters and buffers, by name.
        same: Names of a parameter that has another name, too, with that name: tied weights.
        engines: The weights of each engine, by the name of its buffer.
        in_torch: The step of each tensor that ops left to PyTorch read, by its name in the compiled program.
        answers: Steps that were asked for a number while the program was compiled, with the answer.
        graph: The original program, a line for each node.
        steps: How tensors are computed, as JSON values.
        held: Tensors that come from no parameter, by a digest of their content.
        stored: The parameters themselves, where engines are saved without weights.
        known: The networks of ``engines`` that were read before, without weights.
    """

    parameters: Mapping[str, ParameterFacts]
    same: Mapping[str, str]
    engines: Mapping[str, EngineWeights]
    in_torch: Mapping[str, int]
    answers: tuple[tuple[int, bool | int | float], ...]
    graph: tuple[str, ...]
    steps: tuple[Any, ...] = ()
    held: Mapping[str, torch.Tensor] = field(default_factory=dict)
    stored: Mapping[str, torch.Tensor] = field(default_factory=dict)
    known: dict[str, Network] = field(default_factory=dict, compare=False, repr=False)

    def networks(self, parameters: Mapping[str, torch.Tensor]) -> dict[str, Network]:
        """The network of each engine, with the weights that these parameters make.

        Raises:
            RecipeError: A step cannot be computed.
            ArtifactError: ``damaged-network``.
        """
        made = {}
        for buffer, engine in self.engines.items():
            found = self.computed([each for each in engine.weights.values() if isinstance(each, int)], parameters)
            contents = {
                int(place): found[each] if isinstance(each, int) else self._held(each)
                for place, each in engine.weights.items()
            }
            made[buffer] = with_weights(engine.network, contents, self.known.get(buffer))
            self.known[buffer] = replace(made[buffer], weights={})
        return made

    def computed(self, wanted: list[int], parameters: Mapping[str, torch.Tensor]) -> dict[int, Any]:
        """What steps give, by their place.

        Raises:
            RecipeError: One cannot be computed.
        """
        return computed(self.steps, wanted, parameters, self.held)

    def parameters_of(self, step: int) -> frozenset[str]:
        """The parameters that a step rests on."""
        return frozenset(self.steps[place]["parameter"] for place in self._behind(step))

    def question(self, step: int) -> str:
        """What was asked of tensors, in the terms of torch: ``isinf``."""
        asked = [self.steps[place].get("op", "") for place in (step, *reads(self.steps[step], step))]
        names = [op.partition(".")[2].partition(".")[0] for op in asked]
        return next((name for name in names if name and name != "_local_scalar_dense"), "a value")

    def _behind(self, step: int) -> list[int]:
        seen: set[int] = set()
        waiting = [step]
        while waiting:
            place = waiting.pop()
            if place not in seen:
                seen.add(place)
                waiting += reads(self.steps[place], place)
        return [place for place in sorted(seen) if "parameter" in self.steps[place]]

    def _held(self, name: str) -> torch.Tensor:
        if name not in self.held:
            raise RecipeError(f"the tensor {name[:16]} is missing")
        return self.held[name]


@dataclass(frozen=True)
class _Text:
    """What of a plan the text says, in forms that JSON has."""

    parameters: Mapping[str, ParameterFacts]
    same: Mapping[str, str]
    engines: Mapping[str, EngineWeights]
    in_torch: Mapping[str, int]
    graph: tuple[str, ...]
    held: Mapping[str, Tensor]
    stored: Mapping[str, Tensor]
    small: Mapping[str, str] = field(default_factory=dict)


_FORMS = TypedJson(added={ParameterFacts: ("used", "fixed", "may_stay"), _Text: ("small",)})


def stands_in_text(tensor: torch.Tensor) -> bool:
    """Whether the text has the content of a tensor that comes from no parameter, too."""
    return tensor.nbytes <= _SMALL_BYTES


def plan_to_text(plan: RefitPlan) -> str:
    """The plan as a JSON text, without the content of tensors, but for small ones that come from no parameter."""
    said = _Text(
        plan.parameters,
        plan.same,
        plan.engines,
        plan.in_torch,
        plan.graph,
        {name: _described(tensor) for name, tensor in plan.held.items()},
        {name: _described(tensor) for name, tensor in plan.stored.items()},
        {name: bytes(weight_bytes(tensor)).hex() for name, tensor in plan.held.items() if stands_in_text(tensor)},
    )
    answers = [[step, answer.hex() if isinstance(answer, float) else answer] for step, answer in plan.answers]
    document = {"schema": SCHEMA, **_FORMS.written(_Text, said), "steps": list(plan.steps), "answers": answers}
    return json.dumps(document, separators=(",", ":"), sort_keys=True)


def plan_from_text(text: str, content: Callable[[str], bytearray], file: str) -> RefitPlan:
    """The plan of ``plan_to_text``.

    Args:
        text: The text.
        content: Gives the bytes of a tensor that is kept beside it: ``held/<name>`` or ``stored/<name>``; in earlier
            files small ones are, too.
        file: The file, for errors.

    Raises:
        ArtifactError: ``damaged-artifact``.
    """
    try:
        document = json.loads(text)
        steps, answers = document.pop("steps"), document.pop("answers")
        _require(document.pop("schema") == SCHEMA, f"it is not written as {SCHEMA!r}")
        _require(all(isinstance(step, dict) for step in steps), "a step is no JSON object")
        read = [(int(step), float.fromhex(a) if isinstance(a, str) else a) for step, a in answers]
        said = cast(_Text, _FORMS.read(_Text, document))
        plan = RefitPlan(said.parameters, said.same, said.engines, said.in_torch, tuple(read), said.graph, tuple(steps))
        texts = {f"held/{name}": digits for name, digits in said.small.items()}

        def tensor(name: str, told: Tensor) -> torch.Tensor:
            return _tensor(told, lambda: bytearray.fromhex(texts[name]) if name in texts else content(name))

        held = {name: tensor(f"held/{name}", each) for name, each in said.held.items()}
        stored = {name: tensor(f"stored/{name}", each) for name, each in said.stored.items()}
        _require(all(content_key(each) == name for name, each in held.items()), "a tensor was changed")
        return replace(plan, held=held, stored=stored)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise ArtifactError(
            f"what {file} says of its weights cannot be read",
            because=f"{type(error).__name__}: {error}",
            fix="copy the file again from where it was saved, or compile the program again",
            reference="damaged-artifact",
        ) from error


def _tensor(said: Tensor, content: Callable[[], bytearray]) -> torch.Tensor:
    """The tensor with these bytes.

    Raises:
        ValueError: There is no such tensor, or it has other bytes.
    """
    dtype = getattr(torch, said.dtype, None)
    if not isinstance(dtype, torch.dtype) or any(size < 0 for size in said.shape):
        raise ValueError(f"{said.dtype} of {list(said.shape)} is no tensor")
    if 0 in said.shape:
        return torch.empty(said.shape, dtype=dtype)
    found = content()
    if len(found) != math.prod(said.shape) * dtype.itemsize:
        raise ValueError(f"{len(found):,} bytes are no {said.dtype} of {list(said.shape)}")
    return torch.frombuffer(found, dtype=torch.uint8).view(dtype).reshape(said.shape)


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)


def content_key(tensor: torch.Tensor) -> str:
    """A digest of dtype, shape and elements."""
    digest = hashlib.sha256(f"{tensor.dtype}{list(tensor.shape)}".encode())
    digest.update(weight_bytes(tensor))
    return digest.hexdigest()


def _described(tensor: torch.Tensor) -> Tensor:
    return Tensor(dtype_name(tensor.dtype), tuple(tensor.shape))


def dtype_name(dtype: torch.dtype) -> str:
    """``float32``."""
    return str(dtype).removeprefix("torch.")


def same_names(state: Mapping[str, Any], known: Callable[[torch.Tensor], str | None]) -> dict[str, str]:
    """Names of tensors that have another name, with that name."""
    found = {name: known(tensor) for name, tensor in state.items() if isinstance(tensor, torch.Tensor)}
    return {name: first for name, first in found.items() if first is not None and first != name}
