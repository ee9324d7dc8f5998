"""What one TensorRT version takes, as data."""

from __future__ import annotations

from dataclasses import dataclass

SLOW_FORMS = ("activation-behind-normalization", "large-normalization", "shuffle-of-pixels")
"""A ReLU or LeakyReLU as a layer of its own behind Normalization; a Normalization of float16 over many elements;
float16 channels moved beside pixels by Shuffle."""


@dataclass(frozen=True)
class Target:
    """A TensorRT version.

    Attributes:
        version: ``8.6``, ``10.16``, ``11.4``.
        dtypes: Names of torch dtypes (without ``torch.``) with a counterpart as a network tensor, as natively held.
        max_rank: Most dims of a tensor.
        max_volume: Most elements of a tensor that every layer takes.
        strongly_typed_only: Whether weakly typed networks are gone.
        layers: Kinds of layers (as ``trtdiag.network`` names them) that it has; the others are written with these.
        activations: Members of its ``ActivationType``.
        unaries: Members of its ``UnaryOperation``.
        sources: For each statement, the symbol or page it was read from.
        edge_dtypes: Those of ``dtypes`` that only network inputs and outputs may have; casts lead in and out.
        weight_dtypes: Those of ``dtypes`` that only quantized values and their scales may have.
        volume_is_per_layer: Whether some layers take tensors above ``max_volume``.
        layer_dtypes: Of layer kinds that take fewer dtypes here than in other versions, those that they take.
        least_ranks: Of layer kinds that take no tensor of fewer dims here than so many, how many.
        samples_bools: Whether a Slice of bools may reach over their ends.
        infinities: Whether a float32 that is compared with an infinite number, or chosen to be one, is.
        groups: Whether Normalization splits channels into groups with a scale for each channel.
        counts: Whether engines may have sizes that the data decides (NonZero) with other layers behind them.
        repeating_product_bytes: Most bytes of the result of a MatrixMultiply that repeats an operand along a batch dim;
            above that it writes to wrong places.  ``None``: as many as other tensors.
        slow: Forms that it takes and runs slowly, of ``SLOW_FORMS``; converters write another with the same result.
    """

    version: str
    dtypes: frozenset[str]
    max_rank: int
    max_volume: int
    strongly_typed_only: bool
    layers: frozenset[str]
    activations: frozenset[str]
    unaries: frozenset[str]
    sources: tuple[tuple[str, str], ...]
    edge_dtypes: frozenset[str] = frozenset()
    weight_dtypes: frozenset[str] = frozenset()
    volume_is_per_layer: bool = False
    layer_dtypes: tuple[tuple[str, frozenset[str]], ...] = ()
    least_ranks: tuple[tuple[str, int], ...] = ()
    samples_bools: bool = True
    infinities: bool = True
    groups: bool = True
    counts: bool = True
    repeating_product_bytes: int | None = None
    slow: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if unknown := self.slow - set(SLOW_FORMS):
            raise ValueError(f"no form is called {', '.join(sorted(unknown))}")

    def takes(self, kind: str, dtype: str) -> bool:
        """Whether layers of a kind take a dtype that the network's layers of this kind take."""
        return all(dtype in taken for name, taken in self.layer_dtypes if name == kind)

    def least_rank(self, kind: str) -> int:
        """How many dims the input of a layer kind has at least."""
        return dict(self.least_ranks).get(kind, 0)

    @property
    def release(self) -> tuple[int, ...]:
        """The version as numbers, to compare: ``(10, 16)``."""
        return tuple(int(part) for part in self.version.split("."))
