"""What the user declared for each input dim: ``dynamic_shapes`` laid beside the inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import Dim
from torch.utils import _pytree as pytree

from trtdiag.frontend.dim_names import bounds_text
from trtdiag.frontend.factory import Recipe
from trtdiag.frontend.program import InputDim
from trtdiag.symbolic import INT64_MAX, Expr, Range
from trtdiag.wording import shown


@dataclass(frozen=True)
class Declared:
    """One dim's declaration: its text, name and range where it is a named Dim, whether dynamic, its root's name."""

    text: str
    name: str | None
    range: Range | None
    dynamic: bool
    root: str | None = None


def declared_dims(recipe: Recipe) -> list[dict[int, Declared]]:
    """For each leaf of ``(args, kwargs)``, in pytree order, the declaration of its dims by index."""
    if callable(getattr(recipe.dynamic_shapes, "dynamic_shapes", None)):
        return []  # ShapesCollection and AdditionalInputs turn into the plain form themselves
    values, names = [*recipe.args, *recipe.kwargs.values()], recipe.parameter_names()
    specs = _per_argument(values, names, recipe.dynamic_shapes)
    return [dims for value, spec in zip(values, specs, strict=False) for dims in _leaves(value, spec)]


def _per_argument(values: Sequence[Any], names: Sequence[str], spec: Any) -> list[Any]:
    if spec is None:
        return [None] * len(values)
    if isinstance(spec, Mapping):
        # forward(*args) is declared under the parameter's name, which is that of no argument.
        gathered = [entry for key, entry in spec.items() if key not in names and isinstance(entry, (list, tuple))]
        rest = iter(gathered[-1] if gathered else ())
        return [next(rest, None) if name == "*" and "*" not in spec else spec.get(name) for name in names]
    listed = list(spec)
    # forward(*args) is declared by one nested entry for all of its positional arguments, even where there is one.
    count, first = names.count("*"), names.index("*") if "*" in names else 0
    nested = listed[first] if count and len(listed) == len(names) - count + 1 else None
    if isinstance(nested, (list, tuple)) and len(nested) == count:
        listed[first : first + 1] = nested
    return listed + [None] * (len(values) - len(listed))


def _leaves(value: Any, spec: Any) -> list[dict[int, Declared]]:
    leaves = pytree.tree_leaves(value)
    if isinstance(value, torch.Tensor):
        return [_tensor_dims(value, spec)]
    if spec is None:
        return [{} for _ in leaves]
    if isinstance(value, Mapping) and isinstance(spec, Mapping):
        return [d for key, child in value.items() for d in _leaves(child, spec.get(key))]
    if isinstance(value, (list, tuple)):
        if len(value) == 1 and isinstance(spec, Mapping):
            return _leaves(value[0], spec)
        children = list(spec) if isinstance(spec, (list, tuple)) else []
        children += [None] * (len(value) - len(children))
        return [d for child, entry in zip(value, children, strict=False) for d in _leaves(child, entry)]
    if not isinstance(spec, (Mapping, list, tuple)) and isinstance(value, int):
        return [{0: read_dim(spec)}]  # an integer input that is itself declared dynamic
    children_specs = pytree.tree_leaves(spec, is_leaf=lambda s: isinstance(s, Mapping) and _by_index(s))
    if len(children_specs) == len(leaves):
        return [_tensor_dims(leaf, s) for leaf, s in zip(leaves, children_specs, strict=True)]
    return [{} for _ in leaves]


def _by_index(spec: Mapping[Any, Any]) -> bool:
    return all(isinstance(key, int) for key in spec)


def _tensor_dims(value: Any, spec: Any) -> dict[int, Declared]:
    rank = value.dim() if isinstance(value, torch.Tensor) else 0
    if isinstance(spec, Mapping):
        written = [(index, entry) for index, entry in spec.items() if entry is not None and isinstance(index, int)]
        return {index % rank if rank else index: read_dim(entry) for index, entry in written}
    if isinstance(spec, (list, tuple)):
        return {index: read_dim(entry) for index, entry in enumerate(spec) if entry is not None}
    return {}


def read_dim(entry: Any) -> Declared:
    """The declaration behind one leaf of ``dynamic_shapes``: a Dim, a derived Dim, a hint, an int."""
    if isinstance(entry, int):
        return Declared(shown(entry), None, Range(entry, entry), dynamic=False)
    kind = getattr(getattr(entry, "type", None), "name", None)  # Dim.AUTO, Dim.DYNAMIC, Dim.STATIC
    if kind is not None and not hasattr(entry, "root"):
        bounds = Range(getattr(entry, "min", None), getattr(entry, "max", None))
        given = bounds_text(bounds)
        text, said = (f"Dim.{kind}({given})", bounds) if given else (f"Dim.{kind}", None)
        return Declared(text, None, said, dynamic=kind != "STATIC")
    if not isinstance(entry, Dim):  # torch refuses it, which is the finding
        return Declared(shown(entry), None, None, dynamic=False)
    name = str(entry.__name__)
    low, high = int(getattr(entry, "min", 0)), getattr(entry, "max", None)
    top = None if high is None or not isinstance(high, int) or high >= INT64_MAX - 1 else int(high)
    root = getattr(entry, "root", None)
    if root is None:
        return Declared(name, name, Range(low, top), dynamic=True)
    return Declared(name, None, Range(low, top), dynamic=True, root=str(root.__name__))


def input_dim(
    name: str, index: int, expr: Expr, hint: int | None, said: Declared | None, *, known: bool = True
) -> InputDim:
    """One dim with what was declared for it; ``known`` says whether any declaration is."""
    if said is None:
        return InputDim(name, index, expr, hint=hint, dynamic=False if known else None)
    return InputDim(name, index, expr, said.text, said.name, said.range, said.dynamic, hint, said.root)
