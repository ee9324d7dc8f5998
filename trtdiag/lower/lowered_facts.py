"""The facts of lowering and of its precision pass, and how nodes are named after those of the program."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.export.graph_signature import ExportGraphSignature, InputKind, OutputKind
from torch.fx import GraphModule, Node

from trtdiag.frontend.program import OpOrigin, RawGuard
from trtdiag.graph.node_kinds import attribute_of
from trtdiag.lower.graph_copy import constant_tensors
from trtdiag.options import Precision
from trtdiag.symbolic.expr import Expr


@dataclass(frozen=True)
class PrecisionFacts:
    """What the precision pass did.

    Attributes:
        precision: What was asked for.
        lowered_ops: How many ops compute in it.
        stays: The ops that stay in float32, in graph order.
        casts: How many casts stand in the graph for it.
        unmatched: Entries of ``keep_fp32`` that name nothing in this program.
    """

    precision: Precision
    lowered_ops: int
    stays: tuple[LoweringLimit, ...]
    casts: int
    unmatched: tuple[str, ...]


@dataclass(frozen=True)
class LoweringLimit:
    """One op that stays as it is, or in float32, although lowering should have changed it.

    Attributes:
        node: Its name.
        target: The op.
        why: The reason.
        origin: Source line and module.
    """

    node: str
    target: str
    why: str
    origin: OpOrigin


TRANSFORM = "transform"
"""The entry of a node's metadata that names the Fourier transform that it is a part of."""


@dataclass(frozen=True)
class FourierProducts:
    """A Fourier transform that was written as products with matrices.

    Attributes:
        node: The name of the op that it was.
        target: The op.
        origin: Source line and module.
        points: At most along each dim that it transforms.
        fixed: Whether all of these lengths are fixed, and the matrices constants.
        times: How often it is done, the product of its other dims; ``None`` where no expression says that.
        operations: Multiplications and additions of one such transform, at its greatest lengths.
        of_fft: About as many of an FFT.
    """

    node: str
    target: str
    origin: OpOrigin
    points: tuple[int, ...]
    fixed: bool
    times: Expr | None
    operations: int
    of_fft: int


@dataclass(frozen=True)
class PassCount:
    """How many nodes one pass changed or removed."""

    name: str
    changed: int


@dataclass(frozen=True)
class Lowered:
    """A functional graph of the ops that were asked to stay whole and of ops that nothing decomposes.

    Sizes and dtypes of every ``meta["val"]`` are the values'.  Its strides are those that the program had: no op of
    the lowered graph asks for strides, except those that ``limits`` names.

    Attributes:
        graph_module: A new one; called with the values of all placeholders, it returns the outputs in order.
        signature: The role of each placeholder and output, as in an exported program.  Mutated buffers and inputs
            come first among the outputs; folded constants are the last placeholders before the user's inputs.
        tensors: The value of each placeholder that is no user input, by the placeholder's name.
        origins: Each op's source line and module path by node name; ops of a decomposition have those of their op.
        guards: The program's, untouched.
        passes: What each pass did, in order.
        limits: Ops that could not be lowered.
        traced: How many distinct calls were traced.
        decomposed: How many nodes were replaced.
        precision: What was made of its float32, where another precision was asked for.
        transforms: Fourier transforms that were written as products.
    """

    graph_module: GraphModule
    signature: ExportGraphSignature
    tensors: Mapping[str, Any]
    origins: Mapping[str, OpOrigin]
    guards: tuple[RawGuard, ...]
    passes: tuple[PassCount, ...]
    limits: tuple[LoweringLimit, ...]
    traced: int
    decomposed: int
    precision: PrecisionFacts | None = None
    transforms: tuple[FourierProducts, ...] = ()

    def held(self) -> dict[Node, torch.Tensor]:
        """The tensors that the program brings and does not change, by node; buffers that it writes are none."""
        known = constant_tensors(
            self.signature.input_specs, self.signature.output_specs, self.tensors, self.graph_module.graph
        )
        held: dict[Node, torch.Tensor] = {}
        for node in self.graph_module.graph.nodes:
            found = attribute_of(self.graph_module, node) if node.op == "get_attr" else None
            if node.op == "placeholder":
                found = known.get(node.name)
            if isinstance(found, torch.Tensor):
                held[node] = found
        return held

    def left(self) -> dict[Node, Node]:
        """The input or buffer that a call leaves with the value of a node, by that node."""
        graph = self.graph_module.graph
        nodes = graph.find_nodes(op="placeholder")
        specs = zip(nodes, self.signature.input_specs, strict=True)
        own = {node.name if spec.kind is InputKind.USER_INPUT else spec.target: node for node, spec in specs}
        returned: Any = graph.output_node().args[0]
        return {
            value: own[spec.target]
            for value, spec in zip(returned, self.signature.output_specs, strict=True)
            if spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION)
        }

    def arguments(self, user_inputs: Sequence[Any]) -> list[Any]:
        """What to call ``graph_module`` with for these flat user inputs."""
        given = iter(user_inputs)
        placeholders = [node.name for node in self.graph_module.graph.nodes if node.op == "placeholder"]
        return [
            next(given) if spec.kind is InputKind.USER_INPUT else self.tensors[name]
            for name, spec in zip(placeholders, self.signature.input_specs, strict=True)
        ]


def whole_of(name: str, known: Container[str]) -> str | None:
    """The node that a node of a lowered graph comes from, by name; ``None`` where none is known.

    What lowering leaves whole keeps its name; parts are called ``<node>__<part>``.  Names of nodes may end in
    underscores (``relu_``), or hold two of them, so the longest name that is known is meant.

    Args:
        name: The node of the lowered graph.
        known: The names of the program's own nodes.
    """
    if name in known:
        return name
    end = name.rfind("__")
    while end > 0:
        if name[:end] in known:
            return name[:end]
        end = name.rfind("__", 0, end + 1)
    return None
