"""Where the samples of a batch lie in a tensor."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from trtdiag.network import Network, ShapeConstraints, Tensor
from trtdiag.symbolic import ONE, Expr, Num, Sym, free_symbols, mul, substitute, to_text
from trtdiag.wording import one_line


class CoupledError(Exception):
    """What a sample gives is not shown to follow from that sample alone; the text says where and why."""


@dataclass(frozen=True)
class Free:
    """A tensor that is the same whatever the samples are, and however many."""


@dataclass(frozen=True)
class Sizes:
    """Numbers that follow from sizes, that of the batch among them: they may say shapes and nothing else."""


@dataclass(frozen=True)
class Rows:
    """A tensor with one part for each sample, which that sample alone decides.

    Attributes:
        axis: The dim that the samples lie along; its size is ``outer`` times the batch's times ``inner``.
        inner: How many neighbours along it are of one sample; they come one after the other.
        outer: How often all samples follow each other along it.
    """

    axis: int
    inner: Expr = ONE
    outer: Expr = ONE


State = Free | Sizes | Rows
FREE = Free()


@dataclass(frozen=True)
class Batch:
    """The batch of a network.

    Attributes:
        symbol: Its symbol.
        network: The network.
    """

    symbol: str
    network: Network

    @cached_property
    def facts(self) -> ShapeConstraints:
        """What is known of sizes."""
        return ShapeConstraints(self.network.ranges, self.network.given, self.network.definitions)

    def in_(self, size: Expr) -> bool:
        """Whether a size changes with the batch's."""
        return self.symbol in free_symbols(self.facts.expanded(size))

    def factor(self, size: Expr) -> Expr:
        """What the batch's size is multiplied by to give this one.

        Raises:
            CoupledError: It is no such product.
        """
        whole = self.facts.expanded(size)
        part = substitute(whole, {self.symbol: Num(1)})
        product = self.symbol not in free_symbols(part) and self.facts.equal(whole, mul(Sym(self.symbol), part))
        need(product, f"the size {to_text(size)} is no multiple of the batch's")
        return part

    def known(self, tensor: Tensor) -> State | None:
        """The state of a tensor whose elements follow from sizes; ``None`` where they do not."""
        if tensor.values is None:
            return None
        return Sizes() if any(self.in_(value) for value in tensor.values) else FREE


def need(condition: bool, why: str) -> None:
    """Raise ``CoupledError`` unless ``condition``."""
    if not condition:
        raise CoupledError(one_line(why))
