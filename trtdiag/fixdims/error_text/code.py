"""The code for a text's answer: whole where the text says which inputs, else the Dims with a word where they belong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from trtdiag.dims.compare_plans import spelled
from trtdiag.dims.dynamic_shapes.spell import Spelled, spell_sites
from trtdiag.dims.plan import DimDef, Leaf, LeafKind, Plan
from trtdiag.dims.torch_text.facts import Outside
from trtdiag.fixdims.error_text.symbols import split

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
    named = {f"{name}.shape[0]": replace(leaf, name=name) for name, leaf in loose.items()}
    apart = spell_sites(Plan(_used(plan, loose), named), [(name, None) for name in loose])
    lines = apart.code.partition(_ASSIGNMENT)[0].rstrip().splitlines()
    lines += [_loose_line(name, leaf, plan) for name, leaf in loose.items()]
    if not placed:
        return Spelled(apart.dynamic_shapes, "\n".join(lines).strip() + "\n")
    return Spelled(whole.dynamic_shapes, "\n".join([*lines, "", *whole.code.splitlines()]).strip() + "\n")


def asked_text(plan: Plan) -> str:
    """What was asked in Python; empty where torch itself would refuse it (a range without two values)."""
    try:
        return spelled_text(plan).code
    except ValueError:
        return ""


def _used(plan: Plan, leaves: Mapping[str, Leaf]) -> tuple[DimDef, ...]:
    roots = {leaf.root for leaf in leaves.values() if leaf.kind is LeafKind.DIM}
    return tuple(definition for definition in plan.defs if definition.name in roots)


def _loose_line(name: str, leaf: Leaf, plan: Plan) -> str:
    """How to use a dim of which only the name is known."""
    if leaf.kind is not LeafKind.DIM:
        word = name if name.isidentifier() else "size"
        return f"{word} = {spelled(leaf, plan)}  # wherever {name} is declared"
    dim = leaf.root if (leaf.scale, leaf.offset) == (1, 0) else leaf.name or name
    return f"# {dim}: wherever {name} is declared"


def outside_code(outside: Iterable[Outside]) -> str:
    """What to do where nothing but the example is wrong, as comments."""
    lines = ["# dynamic_shapes stays as it is"]
    lines += [f"# the example of the dim declared {o.range} has to be in that range, not {o.value}" for o in outside]
    return "\n".join(lines) + "\n"
