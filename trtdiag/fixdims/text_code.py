"""The code for a text's answer: whole where the text says which inputs, else the Dims with a word where they belong."""

from __future__ import annotations

from typing import Any

from trtdiag.fixdims.changes import spelled
from trtdiag.fixdims.plan import DimDef, Leaf, LeafKind, Plan
from trtdiag.fixdims.spell import Spelled, spell_sites
from trtdiag.fixdims.text_system import split

_ASSIGNMENT = "dynamic_shapes = "


def spelled_text(plan: Plan) -> Spelled:
    """The plan in Python.

    A dim of which the text gives only the name is defined, with a comment, and left for the reader to place.
    """
    placed = {site: leaf for site, leaf in plan.leaves.items() if split(site)[1] is not None or "[" in site}
    loose = {site: leaf for site, leaf in plan.leaves.items() if site not in placed}
    inputs = dict.fromkeys(split(site)[0] for site in placed)
    whole = spell_sites(Plan(_used(plan, placed), placed), [(name, None) for name in inputs])
    if not loose:
        return whole
    named = {
        name: Leaf(leaf.kind, leaf.root, leaf.scale, leaf.offset, leaf.value, leaf.range, name)
        for name, leaf in loose.items()
    }
    apart = spell_sites(Plan(_used(plan, loose), named), [(name, None) for name in loose])
    lines = apart.code.partition(_ASSIGNMENT)[0].rstrip().splitlines()
    for name, leaf in loose.items():
        lines.append(_loose_line(name, leaf, plan))
    if not any(line.startswith("from torch.export") for line in lines) and any("= Dim." in line for line in lines):
        lines = ["from torch.export import Dim", "", *lines]
    shapes: Any = apart.dynamic_shapes
    if placed:
        shapes = {**shapes, **whole.dynamic_shapes}
        lines += ["", *whole.code.splitlines()]
    return Spelled(shapes, "\n".join(lines).strip() + "\n")


def asked_text(plan: Plan) -> str:
    """What was asked in Python; empty where torch itself would refuse it (a range without two values)."""
    try:
        return spelled_text(plan).code
    except ValueError:
        return ""


def _used(plan: Plan, leaves: dict[str, Leaf]) -> tuple[DimDef, ...]:
    roots = {leaf.root for leaf in leaves.values() if leaf.kind is LeafKind.DIM}
    return tuple(definition for definition in plan.defs if definition.name in roots)


def _loose_line(name: str, leaf: Leaf, plan: Plan) -> str:
    """How to use a dim of which only the name is known."""
    if leaf.kind is not LeafKind.DIM:
        word = name if name.isidentifier() else "size"
        return f"{word} = {spelled(leaf, plan)}  # wherever {name} is declared"
    if (leaf.scale, leaf.offset) == (1, 0):
        return f"# {leaf.root}: wherever {name} is declared"
    return f"# {leaf.name or name}: wherever {name} is declared"
