"""Recipes as JSON values, and what they give for parameters.  Reading one runs nothing; computing, plain ops alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._pytree import tree_flatten

from trtdiag.lower.recipes import RECIPES, Computed, Held, Parameter, Recipe, Unknown

_NAMED = {torch.dtype: "dtype", torch.layout: "layout", torch.memory_format: "memory_format", torch.device: "device"}
_SIZED = frozenset(
    ("repeat", "tile", "full", "new_full", "zeros", "ones", "empty", "arange", "eye", "repeat_interleave", "pad")
)
"""Ops that can make much of little; none of a tensor that a plan did not measure."""


class RecipeError(ValueError):
    """A recipe that cannot be written, read or computed; says why."""


def written(recipes: Iterable[Recipe], keep: Callable[[torch.Tensor], str]) -> tuple[list[Any], list[int]]:
    """The steps of recipes, each once and after what it reads, and the place of each recipe among them.

    Args:
        recipes: What is written; none of them ``Unknown``.
        keep: Keeps a tensor that comes from no parameter, and gives its name.

    Raises:
        RecipeError: One has something that JSON cannot say, or is not known.
    """
    steps: list[Any] = []
    places: dict[int, int] = {}
    wanted = list(recipes)
    waiting = wanted[::-1]
    while waiting:
        each = waiting[-1]
        read = tree_flatten((each.args, dict(each.kwargs)))[0] if isinstance(each, Computed) else []
        missing = [one for one in read if isinstance(one, RECIPES) and id(one) not in places]
        if id(each) in places or not missing:
            waiting.pop()
            if id(each) not in places:
                places[id(each)] = len(steps)
                steps.append(_step(each, places, keep))
        else:
            waiting += missing
    return steps, [places[id(each)] for each in wanted]


def _step(recipe: Recipe, places: Mapping[int, int], keep: Callable[[torch.Tensor], str]) -> Any:
    if isinstance(recipe, Parameter):
        return {"parameter": recipe.name}
    if isinstance(recipe, Held):
        return {"held": keep(recipe.tensor)}
    if isinstance(recipe, Unknown):
        raise RecipeError("it is written to in place while it is computed")
    said = {"op": str(recipe.op), "args": _value(list(recipe.args), places)}
    if recipe.kwargs:
        said["kwargs"] = {name: _value(value, places) for name, value in recipe.kwargs.items()}
    return said if recipe.output is None else {**said, "output": recipe.output}


def _value(value: Any, places: Mapping[int, int]) -> Any:
    if isinstance(value, RECIPES):
        return {"step": places[id(value)]}
    if value is None or isinstance(value, (bool, str)) or type(value) is int:
        return value
    if type(value) is float:
        return {"float": value.hex()}
    if isinstance(value, (list, tuple)):
        return [_value(each, places) for each in value]
    for kind, name in _NAMED.items():
        if isinstance(value, kind):
            return {name: "cpu" if kind is torch.device else str(value).removeprefix("torch.")}
    raise RecipeError(f"{str(value)[:60]!r} cannot be written")


def computed(
    steps: Sequence[Any],
    wanted: Sequence[int],
    parameters: Mapping[str, torch.Tensor],
    held: Mapping[str, torch.Tensor],
) -> dict[int, Any]:
    """What steps give, by their place.

    Args:
        steps: Those of ``written``.
        wanted: The places of those that are asked for.
        parameters: By name; one that a wanted step needs and that is not there is an error.
        held: The tensors that come from no parameter.

    Raises:
        RecipeError: A step is none, or cannot be computed of these tensors.
    """
    needed, waiting = set[int](), list(wanted)
    while waiting:
        place = waiting.pop()
        if place not in needed:
            if not 0 <= place < len(steps):
                raise RecipeError(f"there is no step {place}")
            needed.add(place)
            waiting += reads(steps[place], place)
    uses = Counter(used for place in needed for used in reads(steps[place], place))
    uses.update(wanted)
    values: dict[int, Any] = {}
    with torch.no_grad():
        for place in sorted(needed):
            values[place] = _run(steps[place], values, parameters, held)
            for used in reads(steps[place], place):
                uses[used] -= 1
                if not uses[used]:
                    del values[used]  # what nobody reads any more takes memory
    return {place: values[place] for place in wanted}


def reads(step: Any, place: int) -> list[int]:
    """The steps that one reads."""
    found: list[int] = []
    waiting = [step.get("args"), *(step.get("kwargs") or {}).values()] if isinstance(step, dict) else []
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            waiting += each
        elif isinstance(each, dict) and "step" in each:
            if type(each["step"]) is not int or not 0 <= each["step"] < place:
                raise RecipeError(f"step {place} reads {each['step']!r}")
            found.append(each["step"])
    return found


def _run(
    step: Any, values: Mapping[int, Any], parameters: Mapping[str, torch.Tensor], held: Mapping[str, torch.Tensor]
) -> Any:
    try:
        if "parameter" in step:
            return parameters[step["parameter"]].detach().cpu()
        if "held" in step:
            return held[step["held"]]
        op = plain_op(step["op"])
        args = _argument(step["args"], values)
        kwargs = {name: _argument(value, values) for name, value in step.get("kwargs", {}).items()}
        made = op(*args, **kwargs)
        return made if step.get("output") is None else made[step["output"]]
    except RecipeError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, RuntimeError, AttributeError) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        raise RecipeError(f"{str(step)[:80]}: {lines[0][:160]}") from error


def _argument(value: Any, values: Mapping[int, Any]) -> Any:
    if isinstance(value, list):
        return [_argument(each, values) for each in value]
    if not isinstance(value, dict):
        return value
    ((name, said),) = value.items()
    if name == "step":
        return values[said]
    if name == "float":
        return float.fromhex(said)
    kind = next((kind for kind, known in _NAMED.items() if known == name), None)
    if kind is torch.device:
        return torch.device("cpu")
    found = getattr(torch, str(said), None)
    if kind is None or not isinstance(found, kind):
        raise RecipeError(f"{str(value)[:60]} is no argument")
    return found


def plain_op(text: str) -> OpOverload:
    """The op of a name such as ``aten.mul.Tensor``: one that computes and does nothing else.

    Raises:
        RecipeError: It is none of these.
    """
    namespace, _, rest = str(text).partition(".")
    name, _, overload = rest.partition(".")
    found = None
    if namespace in ("aten", "prims") and name.isidentifier() and overload.isidentifier() and not name.startswith("__"):
        packet = getattr(getattr(torch.ops, namespace), name, None)
        found = getattr(packet, overload, None)
    if not isinstance(found, OpOverload):
        raise RecipeError(f"there is no op {str(text)[:60]!r}")
    if found._schema.is_mutable or torch.Tag.nondeterministic_seeded in found.tags or name in _SIZED:
        raise RecipeError(f"{text} is no op of recipes")
    return found
