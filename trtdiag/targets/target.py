"""What one TensorRT version takes, as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

SLOW_FORMS = ("activation-behind-normalization", "large-normalization", "shuffle-of-pixels")
"""A ReLU or LeakyReLU as a layer of its own behind Normalization; a Normalization of float16 over many elements;
float16 channels moved beside pixels by Shuffle."""


@dataclass(frozen=True)
class GpuLimit:
    """A kind of layer that a GPU generation does not have for a dtype that other generations have it for.

    Attributes:
        gpu: The generation (``sm75``).
        kind: Of the layer.
        dtype: Of its first input.
        least_rank: It is missing for inputs of so many dims and more.
    """

    gpu: str
    kind: str
    dtype: str
    least_rank: int = 0


@dataclass(frozen=True)
class Target:
    """A TensorRT version.

    Attributes:
        version: ``10.16``; of TensorRT-RTX ``rtx-1.7``.
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
        dilated_deconvolutions: Whether a Deconvolution may be dilated and strided at once.
        counts: Whether engines may have sizes that the data decides (NonZero) with other layers behind them.
        repeating_product_bytes: Most bytes of the result of a MatrixMultiply that repeats an operand along a batch dim;
            above that it writes to wrong places.  ``None``: as many as other tensors.
        slow: Forms that it takes and runs slowly, of ``SLOW_FORMS``; converters write another with the same result.
        product: ``TensorRT`` or ``TensorRT-RTX``.
        api: The version of TensorRT whose builder this one's is, where it is another product.
        gpus: The GPU generations that it builds for without having one, oldest first.
        gpu_lacks: Of those that have fewer dtypes than ``dtypes``, which they lack.
        gpu_limits: What some of them lack else.
        asked_gpus: The generations that it is to run on; ``on`` chooses them, and ``limits`` with them.
        limits: Those of ``gpu_limits`` that count.
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
    dilated_deconvolutions: bool = True
    counts: bool = True
    repeating_product_bytes: int | None = None
    slow: frozenset[str] = frozenset()
    product: str = "TensorRT"
    api: str | None = None
    gpus: tuple[str, ...] = ()
    gpu_lacks: tuple[tuple[str, frozenset[str]], ...] = ()
    gpu_limits: tuple[GpuLimit, ...] = ()
    asked_gpus: tuple[str, ...] = ()
    limits: tuple[GpuLimit, ...] = ()

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
    def name(self) -> str:
        """How texts call it: ``TensorRT 10.16``, ``TensorRT-RTX 1.7``."""
        return f"{self.product} {self.version.rpartition('-')[2]}"

    @property
    def release(self) -> tuple[int, ...]:
        """The version of TensorRT whose builder it has as numbers, to compare: ``(10, 16)``."""
        return tuple(int(part) for part in (self.api or self.version).split("."))

    def on(self, gpus: Sequence[str]) -> Target:
        """The target for engines that run on all of these GPU generations: without what one of them lacks."""
        lacking: frozenset[str] = frozenset().union(*(dtypes for gpu, dtypes in self.gpu_lacks if gpu in gpus))
        limits = tuple(limit for limit in self.gpu_limits if limit.gpu in gpus)
        return replace(self, dtypes=self.dtypes - lacking, asked_gpus=tuple(gpus), limits=limits) if gpus else self

    def name_without(self, dtype: str) -> str:
        """How texts call what lacks a dtype: ``TensorRT 8.6``, ``TensorRT-RTX 1.7 on sm75``."""
        lacking = [gpu for gpu, dtypes in self.gpu_lacks if gpu in self.asked_gpus and dtype in dtypes]
        return f"{self.name} on {', '.join(lacking)}" if lacking else self.name
