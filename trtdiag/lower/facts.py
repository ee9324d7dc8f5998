"""The facts of the metadata check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from torch.fx import GraphModule

from trtdiag.frontend.program import OpOrigin


class Defect(Enum):
    """What is wrong with a node's ``meta["val"]``."""

    MISSING = "missing"
    STALE = "stale"


@dataclass(frozen=True)
class MetadataDefect:
    """One node whose recorded value is missing or wrong.

    Attributes:
        node: Its name.
        target: Its op.
        defect: Missing or stale.
        recorded: What the node said (``f32[4, s0]``), empty when missing.
        recomputed: What fake propagation gives; empty when it could not be repaired.
        repaired: Whether the checked copy has a right value now.
        cause: The first reason: why it could not be repaired, or which earlier node broke it.
        root: Whether no input of this node is itself defective.
        origin: Source line and module.
        torch_fault: A known mistake of torch that recorded it so; empty when none is known.
    """

    node: str
    target: str
    defect: Defect
    recorded: str
    recomputed: str
    repaired: bool
    cause: str
    root: bool
    origin: OpOrigin
    torch_fault: str = ""


@dataclass(frozen=True)
class Checked:
    """A graph whose every node has a value, and what had to be done for that.

    Attributes:
        graph_module: A copy where anything was repaired, else the program's own; never edited later.
        defects: In graph order.
        checked: How many nodes were looked at.
        recomputed: For how many distinct calls the recorded value was compared with a recomputed one.
        unchecked: Nodes whose value cannot be recomputed without data or side effects, with the reason.
    """

    graph_module: GraphModule
    defects: tuple[MetadataDefect, ...]
    checked: int
    recomputed: int
    unchecked: Mapping[str, str]
