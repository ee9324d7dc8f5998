"""From chosen sizes to a plan: every input dim in the words of ``torch.export``, named after the user's dims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from trtdiag.dims.dynamic_shapes.nested_form import hints_for_integers, is_integer
from trtdiag.dims.plan import DimDef, Leaf, LeafKind, Plan
from trtdiag.dims.solver.choose import Chosen
from trtdiag.dims.solver.runs import along
from trtdiag.dims.solver_input import LOWEST_HINTED, dims_in
from trtdiag.frontend.dim_names import free_name, identifier
from trtdiag.frontend.program import InputDim, InputTensor
from trtdiag.symbolic import substitute
from trtdiag.symbolic.build import affine
from trtdiag.symbolic.expr import Expr, Num
from trtdiag.symbolic.ranges import Range

MOST_ROUNDED = 1 << 16
"""Own choice: where fractions are rounded at all, some of the first hundred sizes are."""


def dim_names(asked: Plan) -> dict[str, str]:
    """Site -> what to call this dim: the name of the user's Dim where the dim is just that, else its place."""
    return {
        site: leaf.name or (leaf.root if _whole(leaf) else site) if leaf.kind is LeafKind.DIM else site
        for site, leaf in asked.leaves.items()
    }


def _stems(asked: Plan) -> dict[str, str]:
    """Site -> what names in the code are made of: the user's Dim even where the dim is derived from it."""
    return {
        site: (leaf.name or leaf.root).strip("_") if leaf.kind is LeafKind.DIM else site
        for site, leaf in asked.leaves.items()
    }


def declared(chosen: Chosen, inputs: Sequence[InputTensor], tried: Plan, asked: Plan) -> Plan:
    """The plan that declares ``chosen``.

    Args:
        chosen: Sizes for the symbols.
        inputs: The inputs of the try, sizes over the symbols.
        tried: The plan of that try: which dims are declared, and hints that may stay.
        asked: What the user asked first: its names are kept.
    """
    stems = _stems(asked)
    steps = along(chosen.sets)
    sizes = {dim.site: _over_steps(dim, chosen, steps) for dim, _leaf in dims_in(inputs, tried)}
    names = _root_names(sizes, chosen, asked, stems)
    definitions = {root: DimDef(name, chosen.sets[root].range) for root, name in names.items()}
    # Integers are no dims of the inputs: nothing is solved for them.
    leaves = {site: leaf for site, leaf in hints_for_integers(tried.leaves, tried.defs).items() if is_integer(site)}
    used: dict[str, DimDef] = {}
    variables = _variables(sizes, stems, {d.name for d in definitions.values()})
    for dim, leaf in dims_in(inputs, tried):
        size = sizes[dim.site]
        if size.kind is not LeafKind.DIM:
            leaves[dim.site] = size
        elif _whole(size) and _hint_stays(leaf, definitions[size.root].range, size.root, sizes):
            leaves[dim.site] = leaf
        else:
            definition = used.setdefault(size.root, definitions[size.root])
            leaves[dim.site] = replace(size, root=definition.name, name=variables.get(dim.site, ""))
    return _over_plain_dims(_over_asked_roots(Plan(tuple(used.values()), leaves, tried.sizes), asked, tried))


def _over_asked_roots(plan: Plan, asked: Plan, tried: Plan) -> Plan:
    """``plan`` in the words of the user that say the same: ``n`` and ``n - 1`` in place of ``n + 1`` and ``n``.

    What was tried in other words than the user's stays: torch has refused theirs.
    """
    definitions, leaves = {definition.name: definition for definition in plan.defs}, dict(plan.leaves)
    for name, definition in list(definitions.items()):
        sites = {site for site, leaf in plan.leaves.items() if leaf.kind is LeafKind.DIM and leaf.root == name}
        were = {site: leaf for site in sites if (leaf := asked.leaves.get(site)) is not None}
        roots = {leaf.root for leaf in were.values() if leaf.kind is LeafKind.DIM}
        if were.keys() != sites or len(roots) != 1 or any(leaf.kind is not LeafKind.DIM for leaf in were.values()):
            continue
        (root,) = roots
        scaled = all(were[site].scale == leaves[site].scale for site in sites)
        shifts = {(were[site].offset - leaves[site].offset, leaves[site].scale) for site in sites}
        shift = {by // scale if by % scale == 0 else None for by, scale in shifts}
        by = shift.pop() if scaled and len(shift) == 1 else None
        others = {site for site, leaf in asked.leaves.items() if leaf.root == root} != sites
        kept = all(_line(tried.leaves[site]) == _line(leaves[site]) != _line(were[site]) for site in sites)
        if not by or others or kept or (root != name and root in definitions):
            continue
        definitions[name] = DimDef(root, definition.range.scaled(1, -by))
        leaves.update(were)
    return Plan(tuple(definitions.values()), leaves, plan.sizes)


def _over_plain_dims(plan: Plan) -> Plan:
    """``plan`` with a dim as the root in the place of a Dim over which torch would refuse sizes by rounding."""
    definitions, leaves = {definition.name: definition for definition in plan.defs}, dict(plan.leaves)
    for name, definition in list(definitions.items()):
        made = {site: leaf for site, leaf in plan.leaves.items() if leaf.kind is LeafKind.DIM and leaf.root == name}
        plain = next((leaf for leaf in made.values() if leaf.scale == 1), None)
        lines = [(leaf.scale, leaf.offset) for leaf in made.values()]
        if plain is None or refused_by_rounding(lines, definition.range) is None:
            continue
        definitions[name] = DimDef(name, definition.range.scaled(1, plain.offset))
        leaves.update(
            (site, replace(leaf, offset=leaf.offset - leaf.scale * plain.offset)) for site, leaf in made.items()
        )
    return Plan(tuple(definitions.values()), leaves, plan.sizes)


def refused_by_rounding(lines: Sequence[tuple[int, int]], values: Range) -> int | None:
    """The first value of a Dim above 1 at which torch refuses sizes that are made of it, of the first ``MOST_ROUNDED``.

    Where no size is the Dim itself, an exported program works it out from the first and compares the others with that
    in floats: ``5*_n`` beside ``7*_n`` are ``7 / 5 * x == y``, which 45 and 63 are not (torch 2.13,
    ``torch.export._unlift._get_input_guards_for_graph``).

    Args:
        lines: Scale and offset of each size, in the order of the inputs.
        values: What the Dim may be.
    """
    if (1, 0) in lines or len(set(lines)) < 2:
        return None
    (scale, offset), *others = dict.fromkeys(lines)
    compared = [(*line, Fraction(line[0], scale), line[1] - Fraction(line[0] * offset, scale)) for line in others]
    if all(factor.denominator == 1 for *_line, factor, _rest in compared):
        return None
    low = max(2, values.min or 0)
    high = low + MOST_ROUNDED if values.max is None else min(values.max + 1, low + MOST_ROUNDED)
    for value in range(low, high):
        first = scale * value + offset
        for wide, more, factor, rest in compared:
            made = factor.numerator / factor.denominator * first + rest.numerator / rest.denominator
            if made != wide * value + more:
                return value
    return None


def sizes_refused_by_rounding(inputs: Sequence[InputTensor], ranges: Mapping[str, Range]) -> Iterator[dict[str, int]]:
    """The first sizes by site that an exported program refuses so, for each symbol of which it takes several sizes."""
    made: dict[str, dict[str, tuple[int, int]]] = {}
    for dim in (dim for tensor in inputs for dim in tensor.dims):
        line = affine(dim.expr)
        if line is not None:
            made.setdefault(line[0], {})[dim.site] = line[1:]
    for symbol, lines in made.items():
        value = refused_by_rounding(list(lines.values()), ranges.get(symbol, Range()))
        if value is not None:
            yield {site: scale * value + offset for site, (scale, offset) in lines.items()}


def _over_steps(dim: InputDim, chosen: Chosen, steps: Mapping[str, Expr | int]) -> Leaf:
    """The size of a dim as a leaf; of a DIM the root is a symbol, not yet the name of a Dim."""
    size = substitute(substitute(dim.expr, dict(chosen.determined)), dict(steps))
    if isinstance(size, Num):
        return Leaf(LeafKind.STATIC, value=int(size.value))
    line = affine(size)
    return Leaf(LeafKind.AUTO) if line is None or line[1] < 1 else Leaf(LeafKind.DIM, *line)


def _line(leaf: Leaf) -> tuple[LeafKind, int, int]:
    return leaf.kind, leaf.scale, leaf.offset


def _whole(leaf: Leaf) -> bool:
    """Whether a dim is just its Dim."""
    return (leaf.scale, leaf.offset) == (1, 0)


def _hint_stays(leaf: Leaf, range_: Range, root: str, sizes: Mapping[str, Leaf]) -> bool:
    """Whether a hint that the user gave says the same as the chosen range: then it stays as it is."""
    if leaf.kind not in (LeafKind.AUTO, LeafKind.DYNAMIC):
        return False
    shared = sum(size.root == root for size in sizes.values())
    lowest = (
        range_.min is None or range_.min == leaf.range.min or (leaf.range.min is None and range_.min <= LOWEST_HINTED)
    )
    return shared == 1 and lowest and range_.max == leaf.range.max


def _root_names(sizes: Mapping[str, Leaf], chosen: Chosen, asked: Plan, stems: Mapping[str, str]) -> dict[str, str]:
    """Root symbol -> the name of its Dim: the user's where a dim is just the root, else that with ``_`` before it."""
    names: dict[str, str] = {}
    for root in chosen.sets:
        users = [(site, size) for site, size in sizes.items() if size.root == root]
        whole = [site for site, size in users if _whole(size)]
        if not users:
            continue
        site, size = next((user for user in users if user[0] in whole), users[0])
        was = asked.leaves.get(site)
        if was is not None and was.kind is LeafKind.DIM and (was.scale, was.offset) == (size.scale, size.offset):
            names[root] = free_name(was.root, set(names.values()))
            continue
        plain = identifier(stems.get(site, site)).lstrip("_") or "dim"
        names[root] = free_name(plain if whole else f"_{plain}", set(names.values()))
    return names


def _variables(sizes: Mapping[str, Leaf], stems: Mapping[str, str], taken: set[str]) -> dict[str, str]:
    """Site -> the variable that holds its derived size: the user's name, the same for the same size."""
    variables: dict[str, str] = {}
    by_size: dict[Leaf, str] = {}
    for site, size in sizes.items():
        if size.kind is not LeafKind.DIM or _whole(size):
            continue
        if size not in by_size:
            plain = identifier(stems.get(site, site)).lstrip("_") or "dim"
            by_size[size] = free_name(plain, taken | set(by_size.values()))
        variables[site] = by_size[size]
    return variables


def refused_names(message: str) -> list[str]:
    """The Dims whose ranges a refusal of torch's names (``Constraints violated (h, w)!``)."""
    from trtdiag.dims.torch_text.read import read_export_error  # few programs have one, and it is many patterns

    read = read_export_error(message)
    return [*read.violated, *(name for guard in read.guards for _source, name in guard.names)]


def still_refused(plan: Plan, asked: Plan, message: str) -> list[str]:
    """Dims that a plan leaves as they were asked, and that torch refused for a condition on nothing else.

    It will refuse them again.  Those that begin at 0 or 1 are left out: in other words they would begin at 2.
    """
    from trtdiag.dims.torch_text.read import read_export_error  # few programs have one, and it is many patterns

    guards = read_export_error(message).guards
    alone = {guard.names[0][1] for guard in guards if guard.kind == "guard" and len(guard.names) == 1}
    kept = [d for d in plan.defs if d in asked.defs and d.name in alone and _plainly(d.name, plan)]
    return [definition.name for definition in kept if (definition.range.min or 0) >= LOWEST_HINTED]


def respelled(plan: Plan, refused: Sequence[str]) -> Plan | None:
    """The same sizes in words that torch does not compare with the guards; ``None`` where nothing is left to change.

    torch refuses a plain ``Dim`` when it cannot see that a guard always holds (torch 2.13: ``//`` and ``%`` are
    reduced to the example's residue). A dim of its own becomes ``Dim.DYNAMIC`` with the same bounds; a shared one keeps
    its name as ``_h + 1``: guards on derived dims are not compared with the range.

    Args:
        plan: Already proven against every guard.
        refused: Names of the Dims that torch refused; all plain ones where it named none.
    """
    plain = {d.name for d in plan.defs if _plainly(d.name, plan)}
    chosen = plain & set(refused) or plain
    if not chosen:
        return None
    leaves = dict(plan.leaves)
    definitions: list[DimDef] = []
    for definition in plan.defs:
        users = [site for site, leaf in plan.leaves.items() if leaf.root == definition.name]
        if definition.name not in chosen:
            definitions.append(definition)
        elif len(users) == 1:
            leaves[users[0]] = Leaf(LeafKind.DYNAMIC, range=definition.range)
        else:
            low = definition.range.min or 1
            high = definition.range.max
            name = free_name(f"_{definition.name.lstrip('_')}", {d.name for d in plan.defs})
            definitions.append(DimDef(name, Range(low - 1, None if high is None else high - 1)))
            for site in users:
                leaf = plan.leaves[site]
                leaves[site] = Leaf(
                    LeafKind.DIM, name, leaf.scale, leaf.offset + leaf.scale, name=leaf.name or definition.name
                )
    return Plan(tuple(definitions), leaves, plan.sizes)


def _plainly(name: str, plan: Plan) -> bool:
    """Whether some dim is just this Dim: torch compares guards with plain symbols only."""
    return any(leaf.root == name and _whole(leaf) for leaf in plan.leaves.values())
