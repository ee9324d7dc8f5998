"""``ShapesSpec`` read as ``dynamic_shapes``: ``torch.export`` takes none of it before 2.14, unbacked from then on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.export import Dim

from trtdiag.errors import DimsError
from trtdiag.frontend.dim_names import free_name
from trtdiag.frontend.factory import SPEC_MODULE, Recipe
from trtdiag.frontend.input_tree import KEYWORDS, REST, Node, nested_inputs
from trtdiag.symbolic import ExpressionError, affine, expr_from_sympy

_BELOW = {"DictSpec": "_entries", "SeqSpec": "_entries", "ObjectSpec": "_fields"}


def with_plain_shapes(recipe: Recipe) -> Recipe:
    """The recipe with ``dynamic_shapes`` that say what its ``ShapesSpec`` or ``ParamsSpec`` says; others as they are.

    A ``ShapeVar`` becomes a ``Dim`` of its range, one wherever it stands; ``2*a + 1`` a derived ``Dim``; a variable at
    an integer input ``Dim.DYNAMIC`` with its range.  What the specification leaves out is static, as it is to torch.

    Raises:
        DimsError: It says what no ``dynamic_shapes`` can: an assumption, a size made of several variables; or it does
            not fit the inputs.
        CaptureError: ``forward`` does not take the inputs.
    """
    kind = _kind(recipe.dynamic_shapes)
    if kind not in ("ShapesSpec", "ParamsSpec"):
        return recipe
    spec = recipe.dynamic_shapes
    if kind == "ShapesSpec" and spec.assumptions:
        raise _unsayable(
            f"the ShapesSpec assumes {_shown(spec.assumptions[0])}",
            "a Dim says sizes only, and no conditions beside them",
            "leave the assumptions out: fix-dims finds what the model needs of its sizes; or give analyze the program "
            "that torch.export (2.14 or later) makes with them",
        )
    # torch has no public way to the parts that keeps which variables are the same.
    params = spec._params if kind == "ShapesSpec" else spec
    top: dict[str, Any] = {} if params is None else dict(params._named_args)
    inputs = nested_inputs(recipe)
    gathered = {REST: getattr(params, "_varargs", None), KEYWORDS: getattr(params, "_varkw", None)}
    written = {
        node.name: gathered[node.gathers] if node.gathers else top.pop(node.name, None) for node in inputs.children
    }
    if top:
        raise _unsayable(
            f"the ShapesSpec names {next(iter(top))!r}",
            f"the inputs are {', '.join(node.name for node in inputs.children)}",
            "name the parameters of forward",
        )
    reader = _Reader([entry for entry in written.values() if entry is not None])
    shapes = {node.name: reader.node(node, written[node.name]) for node in inputs.children}
    return replace(recipe, dynamic_shapes=shapes)


def _kind(value: Any) -> str:
    """The name of a class of torch's specifications; empty for anything else, and in torch that has none."""
    return next((base.__name__ for base in type(value).__mro__ if base.__module__ == SPEC_MODULE), "")


class _Reader:
    """Turns entries into what stands in ``dynamic_shapes``; each variable becomes one ``Dim``."""

    def __init__(self, entries: Sequence[Any]) -> None:
        self._variables: dict[str, Any] = {}
        self._dims: dict[str, Any] = {}
        taken: set[str] = set()
        for variable in (found for entry in entries for found in _variables(entry)):
            key = str(variable.sympy_sym)
            if key not in self._variables:
                self._variables[key] = variable
                name = free_name(variable.name if variable.name.isidentifier() else "size", taken)
                taken.add(name)
                self._dims[key] = Dim(name, min=max(0, variable.min or 0), max=variable.max)

    def node(self, node: Node, entry: Any) -> Any:
        """What is written for one input or container."""
        if node.form is None:
            return self._tensor(node, entry) if node.sizes is not None else self._number(node, entry)
        below = zip(node.children, _entries(node, entry), strict=True)
        return node.filled([self.node(child, part) for child, part in below])

    def _tensor(self, node: Node, entry: Any) -> Any:
        if entry is None:
            return None
        if _kind(entry) != "TensorSpec" or len(entry) != len(node.sizes or ()):
            raise _unsayable(
                f"the ShapesSpec has {_shown(entry)} for {node.name}",
                f"{node.name} is a tensor of {len(node.sizes or ())} dims",
                "give a TensorSpec with one entry for each dim",
            )
        return {index: self._size(size, node) for index, size in enumerate(entry) if size is not None}

    def _size(self, size: Any, node: Node) -> Any:
        if isinstance(size, int):
            return size
        key, scale, offset = self._line(size, node)
        dim = self._dims[key]
        scaled = dim if scale == 1 else scale * dim
        return scaled if offset == 0 else scaled + offset if offset > 0 else scaled - -offset

    def _line(self, size: Any, node: Node) -> tuple[str, int, int]:
        """The variable, scale and offset of ``scale * variable + offset``."""
        symbol = getattr(size, "sympy_sym", None)
        if symbol is not None:
            return str(symbol), 1, 0
        try:
            line = affine(expr_from_sympy(size.node.expr))
        except ExpressionError:
            line = None
        if line is None or line[1] < 1 or line[0] not in self._dims:
            raise _unsayable(
                f"the ShapesSpec has the size {_shown(size)} in {node.name}",
                "a Dim of torch.export says one variable, or a*variable + b with a >= 1, which has a place of its own",
                "use a variable of its own there: fix-dims finds how the model ties the sizes",
            )
        return line

    def _number(self, node: Node, entry: Any) -> Any:
        if entry is None or type(entry) is int:
            return None
        if _kind(entry) not in ("IntVar", "ShapeVar") or node.value is None:
            raise _unsayable(
                f"the ShapesSpec has {_shown(entry)} for {node.name}",
                "it is neither a tensor nor an integer" if node.value is None else "torch.export takes a hint there",
                "leave it out, or give an IntVar for an integer input",
            )
        low = entry.min if entry.min is not None and entry.min >= 0 else None
        return Dim.DYNAMIC if low is None and entry.max is None else Dim.DYNAMIC(min=low, max=entry.max)


def _entries(node: Node, entry: Any) -> list[Any]:
    """What is written for each part of a container."""
    if entry is None:
        return [None] * len(node.children)
    below = getattr(entry, _BELOW[_kind(entry)]) if _kind(entry) in _BELOW else entry
    keys = node.keys or tuple(getattr(node.form, "_fields", ()))
    if isinstance(below, Mapping) and set(below) <= set(keys):
        return [below.get(key) for key in keys]
    if isinstance(below, list) and len(below) <= len(node.children) and not keys:
        return [*below, *[None] * (len(node.children) - len(below))]
    raise _unsayable(
        f"the ShapesSpec has {_shown(entry)} for {node.name or 'the inputs'}",
        f"that is a {getattr(node.form, '__name__', node.form)} of {len(node.children)} inputs",
        "give a DictSpec for a dict, a SeqSpec for a list or tuple, with entries for inputs that are there",
    )


def _variables(entry: Any) -> Iterator[Any]:
    """The variables that have a place of their own, in order."""
    kind = _kind(entry)
    if kind in ("IntVar", "ShapeVar"):
        yield entry
        return
    below = getattr(entry, _BELOW[kind]) if kind in _BELOW else entry
    if isinstance(below, torch.SymInt | int | str) or below is None:
        return
    for part in below.values() if isinstance(below, Mapping) else below:
        yield from _variables(part)


def _shown(value: Any) -> str:
    return " ".join(str(value).split())[:200]


def _unsayable(what: str, because: str, fix: str) -> DimsError:
    return DimsError(what, because=because, fix=fix, reference="shapes-spec-unsayable")
