"""What one TensorRT version takes, as data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """A TensorRT version.

    Attributes:
        version: ``8.6``, ``10.16``, ``11.4``.
        dtypes: Names of torch dtypes (without ``torch.``) with a counterpart as a network tensor, as natively held.
        max_rank: Most dims of a tensor.
        max_volume: Most elements of a tensor.
        strongly_typed_only: Whether weakly typed networks are gone.
        sources: For each statement, the symbol or page it was read from.
    """

    version: str
    dtypes: frozenset[str]
    max_rank: int
    max_volume: int
    strongly_typed_only: bool
    sources: tuple[tuple[str, str], ...]
