"""From a plan to torch objects and to Python code, in the user's own structure and names."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch.export import Dim
from torch.utils import _pytree as pytree

from trtdiag.dims.dynamic_shapes.asked import DimReader, Structure, asked_plan
from trtdiag.dims.dynamic_shapes.code_text import assigned, import_lines, named_tuples
from trtdiag.dims.dynamic_shapes.nested_form import (
    as_written,
    hints_for_integers,
    laid,
    laid_by_path,
    leaves_in,
    range_of,
)
from trtdiag.dims.plan import DimDef, Leaf, LeafKind, Plan
from trtdiag.frontend.dim_names import Names, bounds_text
from trtdiag.frontend.dim_sites import split_site
from trtdiag.symbolic.ranges import Range

_Derived = tuple[str, int, int]


@dataclass(frozen=True)
class Spelled:
    """A declaration to give to ``torch.export.export``, and the same as Python text that can be imported."""

    dynamic_shapes: Any
    code: str


def spell(plan: Plan, structure: Structure) -> Spelled:
    """The plan in the structure that the user wrote; what the plan says nothing of stays as he had it.

    Raises:
        ValueError: The plan names an unknown site or Dim, a Dim has fewer than two values, or a derived Dim does not
            increase.
    """
    leaves: dict[str, Leaf] = {}
    for text, leaf in plan.leaves.items():
        try:
            leaves[structure.site(text)] = leaf
        except KeyError:
            raise ValueError(f"the plan names {text!r}, which is no dim of the inputs") from None
    asked = asked_plan(structure)
    planned = {definition.name for definition in plan.defs}
    defs = [*plan.defs, *(definition for definition in asked.defs if definition.name not in planned)]
    leaves, kept = hints_for_integers(leaves, defs), hints_for_integers(asked.leaves, defs)
    return _spelled(laid(structure, leaves, kept), defs)


def spell_sites(plan: Plan, inputs: Sequence[tuple[str, int | None]]) -> Spelled:
    """The plan in a structure made from the names of the inputs alone.

    Args:
        plan: What to declare.
        inputs: Name (``x``, ``batch['image'][0]``, ``args[0]``) and rank of each input; ``None`` for the rank where
            it is not known or the input is no tensor.

    Raises:
        ValueError: As of ``spell``.
    """
    known = {name for name, _ in inputs}
    for site in plan.leaves:
        if split_site(site)[0] not in known:
            raise ValueError(f"the plan names {site!r}, which is no dim of the inputs")
    return _spelled(laid_by_path(inputs, hints_for_integers(plan.leaves, plan.defs)), plan.defs)


def asked_code(structure: Structure) -> str:
    """The user's own ``dynamic_shapes`` as Python text, with whatever is wrong in it."""
    reader = DimReader()
    form = as_written(structure.written, reader)
    return _Words(form, reader.defs).code()


def plan_diff(before_code: str, after_code: str) -> str:
    """A unified diff from ``asked`` to ``fixed``, empty where the two are equal."""
    lines = difflib.unified_diff(before_code.splitlines(), after_code.splitlines(), "asked", "fixed", lineterm="")
    return "".join(f"{line}\n" for line in lines)


def _spelled(form: Any, defs: Sequence[DimDef]) -> Spelled:
    words = _Words(form, _checked(leaves_in(form), defs))
    return Spelled(pytree.tree_map_only(Leaf, words.object, form), words.code())


def _checked(leaves: Sequence[Leaf], defs: Sequence[DimDef]) -> list[DimDef]:
    """The Dims that the leaves use, each range cut to where no derived size is negative: torch refuses those."""
    ranges: dict[str, Range] = {}
    for definition in defs:
        if ranges.setdefault(definition.name, definition.range) != definition.range:
            raise ValueError(f"the plan defines {definition.name!r} twice, with different ranges")
    for leaf in leaves:
        if leaf.kind is not LeafKind.DIM:
            continue
        if leaf.root not in ranges:
            raise ValueError(f"the plan does not define {leaf.root!r}")
        if leaf.scale < 1:
            raise ValueError(f"{leaf.scale}*{leaf.root} does not increase; torch takes no such Dim")
        values = ranges[leaf.root]
        if range_of(leaf, values).min < 0:  # type: ignore[operator]  # a lower end is always there
            ranges[leaf.root] = Range(-(leaf.offset // leaf.scale), values.max)
    used = {leaf.root for leaf in leaves if leaf.kind is LeafKind.DIM}
    for name in used:
        values = ranges[name]
        if values.max is not None and values.max <= (values.min or 0):
            raise ValueError(f"the Dim {name!r} has fewer than two values ({values.min}..{values.max}): use an int")
    return [DimDef(name, values) for name, values in ranges.items() if name in used]


class _Words:
    """Names and objects for the Dims of one declaration."""

    def __init__(self, form: Any, defs: Sequence[DimDef]) -> None:
        leaves = leaves_in(form)
        names = Names(found.__name__ for found in named_tuples(form))
        derived = [leaf for leaf in leaves if leaf.kind is LeafKind.DIM and _key(leaf)[1:] != (1, 0)]
        computed = {leaf.root for leaf in derived}
        self._form = form
        self._leaves = leaves
        self._ranges = {definition.name: definition.range for definition in defs}
        self._names = {name: names.take(name, derived=name in computed) for name in self._ranges}
        self._variables: dict[_Derived, str] = {}
        for leaf in derived:
            if leaf.name and _key(leaf) not in self._variables:
                self._variables[_key(leaf)] = names.take(leaf.name, derived=False)
        self._dims = {
            name: Dim(self._names[name], min=values.min, max=values.max) for name, values in self._ranges.items()
        }
        self._derived: dict[_Derived, Any] = {}

    def object(self, leaf: Leaf) -> Any:
        """What stands for the leaf in ``dynamic_shapes``."""
        if leaf.kind is LeafKind.STATIC:
            return Dim.STATIC if leaf.value is None else leaf.value
        if leaf.kind is not LeafKind.DIM:
            hint = Dim.AUTO if leaf.kind is LeafKind.AUTO else Dim.DYNAMIC
            return hint if leaf.range == Range() else hint(min=leaf.range.min, max=leaf.range.max)
        root, scale, offset = _key(leaf)
        if (scale, offset) == (1, 0):
            return self._dims[root]
        if _key(leaf) not in self._derived:
            scaled = self._dims[root] if scale == 1 else scale * self._dims[root]
            self._derived[_key(leaf)] = scaled + offset if offset > 0 else scaled - -offset if offset else scaled
        return self._derived[_key(leaf)]

    def text(self, leaf: Leaf) -> str:
        """The same in Python."""
        if leaf.kind is LeafKind.STATIC:
            return "Dim.STATIC" if leaf.value is None else str(leaf.value)
        if leaf.kind is not LeafKind.DIM:
            bounds = bounds_text(leaf.range)
            return f"Dim.{leaf.kind.name}" + (f"({bounds})" if bounds else "")
        return self._variables.get(_key(leaf)) or self._formula(_key(leaf))

    def code(self) -> str:
        """A text to paste or to import that defines ``dynamic_shapes``."""
        uses_dim = any(leaf.kind is not LeafKind.STATIC or leaf.value is None for leaf in self._leaves)
        imports, classes = import_lines(self._form, uses_dim=uses_dim)
        defined = list(classes)
        for name, values in self._ranges.items():
            bounds = bounds_text(values)
            given = f'"{self._names[name]}"' + (f", {bounds}" if bounds else "")
            defined.append(f"{self._names[name]} = Dim({given})")
        defined += [f"{variable} = {self._formula(key)}" for key, variable in self._variables.items()]
        blocks = ["\n".join(block) for block in (imports, defined) if block]
        return "\n\n".join([*blocks, assigned("dynamic_shapes", self._form, self.text)]) + "\n"

    def _formula(self, key: _Derived) -> str:
        root, scale, offset = key
        text = self._names[root] if scale == 1 else f"{scale} * {self._names[root]}"
        return text + (f" {'+' if offset > 0 else '-'} {abs(offset)}" if offset else "")


def _key(leaf: Leaf) -> _Derived:
    return leaf.root, leaf.scale, leaf.offset
