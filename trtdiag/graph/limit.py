"""The reason why an op cannot be in an engine: one type for partitioner, rules and converters."""

from __future__ import annotations

from dataclasses import dataclass

from trtdiag.errors import REFERENCE


@dataclass(frozen=True, slots=True)
class Limit:
    """Why an op cannot be converted for this target with these types and ranges.

    Attributes:
        code: A kebab-case name of this kind of reason, stable over versions.
        why: What stands against it, one sentence without a full stop.
        fix: What the reader can do, one sentence without a full stop; empty where there is nothing.
        about: What it is about where many ops stay for it: the symbol of a size; empty where it is about the op itself.
    """

    code: str
    why: str
    fix: str = ""
    about: str = ""

    def __post_init__(self) -> None:
        if not REFERENCE.fullmatch(self.code):
            raise ValueError(f"limit code {self.code!r} is not kebab-case")


DRAWN = "drawn_outside"
"""In the ``meta`` of a node: PyTorch draws random numbers there, before the engine that takes them."""
DRAWN_OUTSIDE = Limit("drawn-outside", "PyTorch draws it before the engine and hands it in", "")
FROM_DATA = Limit(
    "data-dependent",
    "its result has a size, or is a number, that only the data decides",
    "compute it on inputs before the model, or bound the result by padding to a fixed size",
)
COMPLEX_VIEW = "complex-view"
"""The code of views between complex tensors and real ones: they stay for the ops that do."""
