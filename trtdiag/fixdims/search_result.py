"""What a search for a declaration came to."""

from __future__ import annotations

from dataclasses import dataclass, field

from trtdiag.dims.plan import Plan
from trtdiag.fixdims.changes import NO_PROOF
from trtdiag.fixdims.export_result import Tried
from trtdiag.fixdims.fix import ConflictSet
from trtdiag.fixdims.notes import Notebook
from trtdiag.symbolic import Proof


@dataclass
class SearchResult:
    """What the search came to.

    Attributes:
        plan: The last plan; ``None`` where no sizes can work.
        last: The last try that was read.
        confirmed: Whether the plan passed the export, and all conditions left by it hold.
        proof: Over the sizes that the plan admits.
        notebook: Reasons by site.
        conflicts: Why nothing can work.
        notes: Sentences for the reader.
        failure: torch's words where no dims help.
        rounds: How many exports were made.
        open: Conditions that were not decided over the sizes of the plan, in the user's names.
        from_data: torch's words about a size that data decides; empty where there was none.
        widest: The first plan whose conditions were solved, and its try: later ones ask for less, and torch then leaves
            fewer conditions.  It has what ops were seen to ask in any try.
        determine: Whether sizes may be left to torch (``Dim.AUTO``): not where it did not work one out.
    """

    plan: Plan | None
    last: Tried | None
    confirmed: bool
    proof: Proof
    notebook: Notebook
    conflicts: list[ConflictSet] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    failure: str = ""
    rounds: int = 0
    open: list[str] = field(default_factory=list)
    from_data: str = ""
    widest: tuple[Plan, Tried] | None = None
    determine: bool = True


def joined_proof(earlier: Proof, later: Proof) -> Proof:
    """The proof of one round after another: each narrows the sizes of the one before, so both hold.

    torch leaves fewer conditions the narrower the dims are; a round without any says nothing new.
    """
    if earlier is NO_PROOF or not later.proven or not earlier.proven:
        return later
    if later.checked <= 1:
        return earlier
    kind = later.kind if later.kind is earlier.kind or earlier.checked <= 1 else earlier.kind
    return Proof(kind, max(earlier.checked, later.checked), earlier.detail if earlier.checked > 1 else later.detail)
