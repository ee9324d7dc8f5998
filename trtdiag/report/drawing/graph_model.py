"""The hierarchy of the picture: modules as groups, freed of what only nests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias, Union

from trtdiag.report.drawing.nodes import DrawnNode, Role
from trtdiag.report.drawing.sides import Side, Sides

INLINED_OPS = 2
MOST_BOXES = 60
_CHUNK_BOXES = 40
_MOST_ROOT_BOXES = 40
_DOMINANT_SHARE = 0.6
_DEEPEST_MODULE = 48


@dataclass(eq=False)
class Group:
    """A box that opens: a module, several modules in one another, or a stretch of a long level.

    Attributes:
        path: The module's qualified name.
        label: What the box says.
        module_type: Its class, where an op of its own told.
        items: Nodes (positions) and groups in execution order.
        undrawn: Positions of its shape computations, checks and weights: listed, not drawn.
        ops: Number of ops inside, all levels; where the groups are steps of the execution, of those that run.
        modules: The modules whose own ops stand directly in it; an op of another one comes from a dissolved module.
        step: The step of the execution that it is, where it is one.
        is_engine: Whether that is an engine: a box, however few ops it has.
        children: The modules in it by name, while they are put there.
    """

    path: str
    label: str = ""
    module_type: str = ""
    items: list[Item] = field(default_factory=list)
    undrawn: list[int] = field(default_factory=list)
    ops: int = 0
    modules: set[str] = field(default_factory=set)
    step: int | None = None
    is_engine: bool = False
    children: dict[str, Group] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.modules.add(self.path)


Item: TypeAlias = Union[int, Group]


def hierarchy(nodes: Sequence[DrawnNode]) -> Group:
    """The groups of a graph.

    Modules of at most two ops dissolve into the one around them (the ops keep their module path), a module that
    only holds another becomes one with it, a level of more than 60 boxes is cut into stretches.  Modules that hold
    nearly everything are opened at the top, so that the first picture says something.
    """
    root = Group("")
    for position, node in enumerate(nodes):
        _insert(root, position, node)
    return _labelled(_opened(_simplified(root), root.ops))


def hierarchy_by_step(nodes: Sequence[DrawnNode], sides: Sides) -> Group:
    """The groups of a partitioned graph: the steps of the execution, then modules.

    An engine is always a box; a stretch of PyTorch of at most two ops dissolves.
    """
    steps = [
        Group("", label, step=at, is_engine=is_engine)
        for at, (label, is_engine) in enumerate(zip(sides.labels, sides.in_engine, strict=True))
    ]
    root = Group("")
    for position, node in enumerate(nodes):
        step = sides.step[position]
        if step is None:
            (root.items if node.role.drawn else root.undrawn).append(position)
            root.ops += node.role is Role.OP and sides.side[position] is not Side.GONE
        else:
            _insert(steps[step], position, node, runs=sides.side[position] is not Side.GONE)
    root.items.extend(step for step in steps if step.items)
    root.undrawn.extend(at for step in steps if not step.items for at in step.undrawn)
    root.ops += sum(step.ops for step in steps)
    return _labelled(_simplified(root))


def _insert(root: Group, position: int, node: DrawnNode, *, runs: bool = True) -> None:
    path = node.origin.module_path if node.role not in (Role.INPUT, Role.OUTPUT, Role.WEIGHT) else ""
    is_op = runs and node.role is Role.OP
    here = root
    here.ops += is_op
    # A path of thousands of dots is no module hierarchy: its end stays one name.
    for part in path.split(".", _DEEPEST_MODULE) if path else ():
        child = here.children.get(part)
        if child is None:
            child = Group(f"{here.path}.{part}" if here.path else part)
            here.children[part] = child
            here.items.append(child)
        here = child
        here.ops += is_op
    if path:
        here.module_type = here.module_type or node.origin.module_type
    (here.items if node.role.drawn else here.undrawn).append(position)


def _simplified(tree: Group) -> Group:
    """The same tree without groups that are too small to open and without groups that only hold one group."""
    result = replace(tree, items=[], undrawn=list(tree.undrawn), modules={tree.path})
    for item in tree.items:
        if isinstance(item, int):
            result.items.append(item)
            continue
        child = _simplified(item)
        if child.ops <= INLINED_OPS and not (child.is_engine and child.items):
            result.items.extend(child.items)
            result.undrawn.extend(child.undrawn)
        else:
            result.items.append(child)
    only = result.items[0] if len(result.items) == 1 else None
    if isinstance(only, Group) and (result.path or result.step is not None):
        only.undrawn = sorted(result.undrawn + only.undrawn)
        if result.step is not None:
            only = replace(only, step=result.step, label=result.label, is_engine=result.is_engine)
        only.modules |= result.modules
        return only
    result.items.sort(key=_first)
    result.undrawn.sort()
    return result if result.step is None else _opened(result, result.ops)


def _first(item: Item) -> int:
    while not isinstance(item, int):  # the items of a simplified group are in order, and there is one
        item = item.items[0]
    return item


def _opened(tree: Group, ops: int) -> Group:
    """The tree with its largest group opened at the top, again and again while it holds most ops and few boxes."""
    groups = [item for item in tree.items if isinstance(item, Group)]
    largest = max(groups, key=lambda group: group.ops, default=None)
    if largest is None or largest.ops < _DOMINANT_SHARE * ops:
        return tree
    if len(tree.items) - 1 + len(largest.items) > _MOST_ROOT_BOXES:
        return tree
    items = sorted([item for item in tree.items if item is not largest] + largest.items, key=_first)
    undrawn = sorted(tree.undrawn + largest.undrawn)
    return _opened(replace(tree, items=items, undrawn=undrawn, modules=tree.modules | largest.modules), ops)


def _labelled(group: Group, around: str = "") -> Group:
    """The group with labels in it and levels that are not too long."""
    for item in group.items:
        if isinstance(item, Group):
            _labelled(item, group.path)
    group.label = group.label or _label(group.path, around)
    while len(group.items) > MOST_BOXES:
        group.items = _stretches(group)
    return group


def _label(path: str, around: str) -> str:
    """The path as seen from the module around it; a bare index keeps the name of its list (``layers.3``)."""
    label = path.removeprefix(f"{around}.") if around else path
    return f"{around.rpartition('.')[2]}.{label}" if label.isdigit() and around else label


def _stretches(group: Group) -> list[Item]:
    number = -(-len(group.items) // _CHUNK_BOXES)
    size = -(-len(group.items) // number)
    pieces = [group.items[start : start + size] for start in range(0, len(group.items), size)]
    return [
        Group(
            group.path,
            f"part {at} of {len(pieces)}",
            items=piece,
            ops=sum(1 if isinstance(item, int) else item.ops for item in piece),
            modules=set(group.modules),
        )
        for at, piece in enumerate(pieces, 1)
    ]


def all_groups(root: Group) -> list[Group]:
    """Every group, the root first, each before the groups inside it."""
    found = [root]
    for group in found:
        found.extend(item for item in group.items if isinstance(item, Group))
    return found
