"""A part of a graph that becomes one engine, and the sizes that it computes for itself."""

from __future__ import annotations

from dataclasses import dataclass

from trtdiag.symbolic.expr import Condition, Expr


@dataclass(frozen=True, slots=True)
class DimSource:
    """Where a number comes from: dim ``dim`` of ``tensor`` (``None``: the number ``tensor`` itself) is ``extent``.

    ``extent`` is a symbol, an invertible ``a*s + b`` of one, or the whole size that is asked for.
    """

    tensor: str
    dim: int | None
    extent: Expr


@dataclass(frozen=True, slots=True)
class LocalSize:
    """A size that is computed where it is needed, never handed over.

    Attributes:
        node: The node of the size in the program.
        expr: The size as an expression of the extents in ``sources``; ``None`` where the node's own op computes it.
        sources: What gives the symbols of ``expr``; empty for a constant.
        operands: Where its own op computes it: the tensors and sizes that it reads, all of the same side.
    """

    node: str
    expr: Expr | Condition | None
    sources: tuple[DimSource, ...] = ()
    operands: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SizeInput:
    """A size that a segment cannot recompute: PyTorch hands it over as a tensor of one number."""

    node: str
    expr: Expr | Condition | None
    why: str


@dataclass(frozen=True, slots=True)
class Segment:
    """The ops of one engine.

    Attributes:
        index: Its place in the order of execution, from 0.
        ops: Its op nodes in graph order, which is a topological order.
        elements: The getitem nodes that pick outputs of its ops, in graph order.
        inputs: Tensors that enter, by the node that yields them (an op, a getitem, or an input of the program).
        outputs: Tensors that leave, by node.
        constants: Weights and constants that it holds, by node (``get_attr`` or the placeholder of a weight).
        sizes: The sizes that it recomputes, operands before their users.
        entering_sizes: The sizes that enter as tensors.
        work_ops: How many of the ops compute: views and ops that hand their input on are not counted.
    """

    index: int
    ops: tuple[str, ...]
    elements: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: tuple[str, ...]
    sizes: tuple[LocalSize, ...]
    entering_sizes: tuple[SizeInput, ...]
    work_ops: int
