"""What the user asked: his ``dynamic_shapes`` beside his inputs, read into plain values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch.export import Dim

from trtdiag.dims.dynamic_shapes.fits import written_children, written_dims
from trtdiag.dims.plan import DimDef, Leaf, LeafKind, Plan
from trtdiag.errors import DimsError
from trtdiag.frontend.dim_names import free_name
from trtdiag.frontend.factory import Recipe
from trtdiag.frontend.input_tree import REST, Node, nested_inputs
from trtdiag.symbolic.ranges import INT64_MAX, Range
from trtdiag.wording import one_of_type, shown

_INDEXED = re.compile(r"(?P<top>\w+)\[(?P<place>\d+)\](?P<below>.*)", re.DOTALL)
_NUMBERED = re.compile(r"(?P<top>\w+)_(?P<place>\d+)(?P<below>.*)", re.DOTALL)


@dataclass(frozen=True)
class DimSite:
    """One dim of an input, or an integer input, and what the user wrote for it.

    Attributes:
        site: ``batch['image'][0].shape[3]``; of an integer input its name.
        input: The name of the input.
        index: Which dim; ``None`` of an integer input.
        size: In the example.
        written: The entry of ``dynamic_shapes``: ``None``, an int, a ``Dim``, a hint.
    """

    site: str
    input: str
    index: int | None
    size: int
    written: Any


@dataclass(frozen=True)
class Structure:
    """The inputs with their names, and the plain ``dynamic_shapes`` that was written for them."""

    inputs: Node
    written: Any

    @cached_property
    def dims(self) -> Mapping[str, DimSite]:
        """Every dim of every tensor and every integer input, by site, in the order of the inputs."""
        found: dict[str, DimSite] = {}
        for node, spec in written_below(self.inputs, self.written):
            if node.sizes is not None:
                entries = written_dims(node, spec)
                for index, size in enumerate(node.sizes):
                    site = f"{node.name}.shape[{index}]"
                    found[site] = DimSite(site, node.name, index, size, entries.get(index))
            elif node.value is not None:
                found[node.name] = DimSite(node.name, node.name, None, node.value, spec)
        return found

    @property
    def examples(self) -> dict[str, int]:
        """Site -> the example's size."""
        return {site: dim.size for site, dim in self.dims.items()}

    def site(self, text: str) -> str:
        """The site in this structure's words.

        Inputs of ``*rest`` have three names: ``rest[0]`` in torch's sources, ``rest_0`` in the graph and in a saved
        program's own ``forward``, and ``args[0]`` where the parameter's name is not known.

        Raises:
            KeyError: No input dim has this name.
        """
        rest = next((child.name for child in self.inputs.children if child.gathers == REST), "args")
        candidates = [text]
        indexed, numbered = _INDEXED.fullmatch(text), _NUMBERED.fullmatch(text)
        if indexed is not None:
            candidates.append(f"{indexed['top']}_{indexed['place']}{indexed['below']}")
            if indexed["top"] == "args":
                candidates.append(f"{rest}[{indexed['place']}]{indexed['below']}")
        if numbered is not None:
            candidates.append(f"{numbered['top']}[{numbered['place']}]{numbered['below']}")
        found = next((site for site in candidates if site in self.dims), None)
        if found is None:
            raise KeyError(text)
        return found


def structure_of(recipe: Recipe) -> Structure:
    """The inputs of ``recipe`` beside its ``dynamic_shapes``.

    ``ShapesCollection`` and ``AdditionalInputs`` are turned into the plain form by themselves.

    Raises:
        CaptureError: ``forward`` does not take these inputs.
        DimsError: What is written does not fit the inputs.
    """
    written = recipe.dynamic_shapes
    plain = getattr(written, "dynamic_shapes", None)
    if callable(plain):
        try:
            written = plain(recipe.module, recipe.args, recipe.kwargs)
        except (ValueError, AssertionError) as error:
            raise DimsError(
                f"the {type(recipe.dynamic_shapes).__name__} does not fit the inputs",
                because=str(error).splitlines()[0],
                fix="assign shapes to the very tensors that are in args and kwargs",
                reference="shapes-collection-does-not-fit",
            ) from error
    structure = Structure(nested_inputs(recipe), written)
    asked_plan(structure)  # raises where it says nothing that can be read
    return structure


def asked_plan(structure: Structure) -> Plan:
    """The user's ``dynamic_shapes`` as plain values; dims he left alone are not in it."""
    reader = DimReader()
    leaves: dict[str, Leaf] = {}
    for site, dim in structure.dims.items():
        if dim.written is not None:
            leaves[site] = reader.leaf(dim.written, dim.size)
    return Plan(tuple(reader.defs), leaves)


class DimReader:
    """Reads entries of ``dynamic_shapes``; Dims of one name and one range are one, as they are to torch."""

    def __init__(self) -> None:
        self.defs: list[DimDef] = []
        self._names: dict[tuple[str, Range], str] = {}

    def leaf(self, entry: Any, size: int | None) -> Leaf:
        """One entry as a leaf; ``size`` is what ``Dim.STATIC`` stands for."""
        if isinstance(entry, int) and abs(entry) <= INT64_MAX:
            return Leaf(LeafKind.STATIC, value=entry)
        kind = hint_kind(entry)
        if kind == "STATIC":
            return Leaf(LeafKind.STATIC, value=size)
        if kind is not None:
            return Leaf(LeafKind[kind], range=Range(entry.min, entry.max))
        if not isinstance(entry, Dim):
            raise DimsError(
                "dynamic_shapes has an entry that torch does not take",
                because=f"{shown(entry)} is {one_of_type(entry)}",
                fix="write a Dim, a hint such as Dim.AUTO, an int or None for each dim",
                reference="dynamic-shapes-entry-unknown",
            )
        root = getattr(entry, "root", None)
        if root is None:
            return Leaf(LeafKind.DIM, root=self._defined(entry))
        size_of: Callable[[int], int] = getattr(entry, "fn")  # noqa: B009  # only derived Dims have it
        offset = int(size_of(0))  # increasing and linear: two points tell all
        return Leaf(LeafKind.DIM, root=self._defined(root), scale=int(size_of(1)) - offset, offset=offset)

    def _defined(self, dim: Any) -> str:
        low, high = int(dim.min), dim.max
        top = int(high) if isinstance(high, int) and high < INT64_MAX - 1 else None  # else torch's infinity
        values = Range(low or None, top)
        name = str(dim.__name__)
        known = self._names.get((name, values))
        if known is not None:
            return known
        # torch refuses two ranges under one name; they are two Dims then.
        chosen = free_name(name, {definition.name for definition in self.defs})
        self._names[name, values] = chosen
        self.defs.append(DimDef(chosen, values))
        return chosen


def hint_kind(entry: Any) -> str | None:
    """``AUTO``, ``DYNAMIC`` or ``STATIC`` where the entry is such a hint."""
    kind = getattr(getattr(entry, "type", None), "name", None)
    return kind if kind in ("AUTO", "DYNAMIC", "STATIC") else None


def written_below(node: Node, spec: Any) -> Iterator[tuple[Node, Any]]:
    """Each input below ``node`` with what is written for it."""
    if node.form is None:
        yield node, spec
        return
    for child, entry in zip(node.children, written_children(node, spec), strict=True):
        yield from written_below(child, entry)
