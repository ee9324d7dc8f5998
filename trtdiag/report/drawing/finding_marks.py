"""Which boxes carry which findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trtdiag.analysis.finding import Finding, Severity
from trtdiag.grouping import grouped
from trtdiag.report.drawing.graph_model import Group, all_groups
from trtdiag.report.drawing.nodes import DrawnNode

_SEVERITIES = tuple(Severity)


@dataclass(frozen=True)
class Marks:
    """Findings by box, as positions in the list of findings; severities are ranks (0 is an error).

    Attributes:
        nodes: For each marked node, its findings.
        groups: For each group, every finding inside it, in order.
        severities: The rank of each finding.
    """

    nodes: dict[int, tuple[int, ...]]
    groups: tuple[tuple[int, ...], ...]
    severities: tuple[int, ...]

    def worst(self, findings: Sequence[int]) -> str:
        """``error``, ``warning`` or ``info``; empty without findings."""
        return _SEVERITIES[min(self.severities[at] for at in findings)].value if findings else ""


def marks(findings: Sequence[Finding], nodes: Sequence[DrawnNode], root: Group) -> Marks:
    """Find the boxes of the findings' places: by node, else by module."""
    by_name = {node.name: position for position, node in enumerate(nodes)}
    groups = all_groups(root)
    number = {id(group): at for at, group in enumerate(groups)}
    # The first group of a module is the module; later ones are stretches of it.
    by_path: dict[str, int] = {}
    for at, group in enumerate(groups):
        for path in group.modules:
            by_path.setdefault(path, at)
    paths = ((node.origin.module_path, position) for position, node in enumerate(nodes))
    dissolved = grouped((path, position) for path, position in paths if path not in by_path)
    on_nodes: dict[int, dict[int, None]] = {}
    on_groups: list[dict[int, None]] = [{} for _ in groups]
    for at, finding in enumerate(findings):
        for place in finding.places:
            if place.node is not None and place.node in by_name:
                on_nodes.setdefault(by_name[place.node], {})[at] = None
            elif place.module_path and place.module_path in by_path:
                on_groups[by_path[place.module_path]][at] = None
            elif place.module_path:
                for lone in dissolved.get(place.module_path, ()):
                    on_nodes.setdefault(lone, {})[at] = None
    for at in range(len(groups) - 1, -1, -1):  # the groups inside a group come after it
        group = groups[at]
        for item in group.items:
            inner = on_groups[number[id(item)]] if isinstance(item, Group) else on_nodes.get(item, {})
            on_groups[at].update(inner)
        for position in group.undrawn:
            on_groups[at].update(on_nodes.get(position, {}))
    return Marks(
        {position: tuple(sorted(found)) for position, found in on_nodes.items()},
        tuple(tuple(sorted(found)) for found in on_groups),
        tuple(finding.severity.rank for finding in findings),
    )
