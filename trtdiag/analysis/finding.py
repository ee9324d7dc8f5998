"""Findings: what is wrong with a model, the evidence, and the fix."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from trtdiag.graph.source import Frame


class Severity(Enum):
    """ERROR: compiling fails or results are wrong.  WARNING: slower, larger or narrower than asked.  INFO."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        """0 for the most severe."""
        return ("error", "warning", "info").index(self.value)


class Applicability(Enum):
    """SAFE: same results for every input accepted today.  UNSAFE: narrows inputs or numerics.  MANUAL: shown only."""

    SAFE = "safe"
    UNSAFE = "unsafe"
    MANUAL = "manual"


@dataclass(frozen=True)
class Evidence:
    """A fact and where it comes from (``range_constraints[s77]``, ``model.py:41``, ``exhaustive over 2026 values``)."""

    fact: str
    source: str


@dataclass(frozen=True)
class Fix:
    """What to do: a sentence, how safe it is (by hand, unless it says so), and code ready to copy (may be empty)."""

    title: str
    applicability: Applicability = Applicability.MANUAL
    code: str = ""


@dataclass(frozen=True)
class Place:
    """Where in the model: node, module path, source frame; any may be missing."""

    node: str | None = None
    module_path: str | None = None
    frame: Frame | None = None
    op: str | None = None


@dataclass(frozen=True)
class Impact:
    """What a cause costs, to rank findings of one severity.

    Attributes:
        engines: How many engines fewer there would be without it.
        ops: How many ops would be in engines that are not.
        crossing_bytes: Bytes that cross between engines and PyTorch for it at usual sizes; ``None`` where unknown.
    """

    engines: int = 0
    ops: int = 0
    crossing_bytes: int | None = 0


@dataclass(frozen=True)
class Hit:
    """What a rule yields: one occurrence.

    Attributes:
        message: One sentence, specific, without a full stop.
        evidence: At least one; a finding without evidence is refused.
        place: Where.
        fix: What to do, where there is something.
        cause: Hits of one rule with the same cause become one finding with several places.  Empty: the message.
        because_of: A key ``<rule id>:<cause>`` of the finding that is this one's root cause, where known.
        severity: Where this occurrence is milder than its rule; ``None`` takes the rule's.
        impact: What the cause costs, where that was worked out; the same for all hits of a cause.
        identity: What tells the finding from others across exports, where the message says more than that, such as
            its effect.  Empty: the message.
        order: Before which others of its rule it is told, whatever their places: those of a smaller number.
    """

    message: str
    evidence: tuple[Evidence, ...]
    place: Place = field(default_factory=Place)
    fix: Fix | None = None
    cause: str = ""
    because_of: str = ""
    severity: Severity | None = None
    impact: Impact | None = None
    identity: str = ""
    order: float = 0.0

    def __post_init__(self) -> None:
        if not self.evidence:
            raise ValueError(f"a finding needs evidence: {self.message!r}")


@dataclass(frozen=True)
class Finding:
    """One cause, reported once, with every place it shows at.

    Attributes:
        id: ``GRD301-1``: rule id and a number in report order, stable for the same input.
        rule: Rule id.
        name: Rule's kebab name.
        title: First line of the rule's page.
        severity: Of its hits (the rule's unless they say otherwise).
        message: Of the first hit.
        evidence: Of all hits, without repeats.
        places: Of all hits, graph order.
        fix: Of the first hit that has one.
        root: Id of the finding that causes this one, where known.
        fingerprint: Hex digest stable under node renumbering (rule, module path with indices as ``*``, op, file,
            function, message without numbers).
        impact: What the cause costs, where that was worked out.
    """

    id: str
    rule: str
    name: str
    title: str
    severity: Severity
    message: str
    evidence: tuple[Evidence, ...]
    places: tuple[Place, ...]
    fix: Fix | None
    root: str | None
    fingerprint: str
    impact: Impact | None = None
