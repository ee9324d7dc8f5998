"""Decides which ops compute in half precision: each by itself first, then by what it stands between."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from torch.fx import Graph, Node

from trtdiag.graph.node_kinds import NodeKind, classify
from trtdiag.graph.quantizers import is_dequantizer
from trtdiag.lower.precision.constants import Constants
from trtdiag.lower.precision.families import COMBINING, FILLED, PRODUCTS, SELECTING, STATISTICS, STAYS, WEIGHING
from trtdiag.lower.precision.floats import (
    float32_inputs,
    is_float32,
    is_heavy,
    is_light,
    is_op,
    is_plain_cast,
    maker,
    name_of,
    readers,
    tensors,
)
from trtdiag.lower.precision.own_reasons import OwnReasons, is_affine_batch_norm, numbers_of

_BETWEEN = "it stands between ops that stay in float32"
_POSITIONS = "computed from integers alone: positions and masks need the digits"
_STATISTIC = "it applies a norm's statistic, which needs the digits"
_HUGE = "one operand holds values beyond half precision"
_COMPARES = "it compares values that are at hand in float32, where rounding would make ties"
_MERGES = "several operands stay in float32, and casting its result costs less than casting them"
_ENDS = {
    **dict.fromkeys(("sin", "cos"), "its result becomes an angle"),
    **dict.fromkeys(("grid_sampler", "grid_sampler_2d", "grid_sampler_3d"), "its result becomes sampling positions"),
    **dict.fromkeys(("_to_copy", "to", "convert_element_type"), "its result becomes integers"),
}


@dataclass
class Decision:
    """Which ops compute in what.

    Attributes:
        stays: Ops that take float32 and compute in it, with the reason.
        half: Ops that compute in half precision.
        affine: Batch norms among them, which become a scale and a shift.
        huge: Ops whose result holds values beyond half precision.
        dequantized: Ops that make half precision of quantized numbers, in the place of float32.
    """

    stays: dict[Node, str] = field(default_factory=dict)
    half: set[Node] = field(default_factory=set)
    affine: set[Node] = field(default_factory=set)
    huge: set[Node] = field(default_factory=set)
    dequantized: set[Node] = field(default_factory=set)


def decide(graph: Graph, own: OwnReasons, constants: Constants) -> Decision:
    """Return the decision for every op that takes float32.

    Cost: linear in nodes and edges.
    """
    return _Deciding(graph, own, constants).decide()


class _Deciding:
    def __init__(self, graph: Graph, own: OwnReasons, constants: Constants) -> None:
        self._graph = graph
        self._own = own
        self._constants = constants
        self._found = Decision()
        self._stays = self._found.stays
        self._positions: set[Node] = set()
        self._statistics: set[Node] = set()
        self._dequantizers: set[Node] = set()
        self._ops = [
            node
            for node in graph.nodes
            if node.op == "call_function"
            and classify(node) not in (NodeKind.ELEMENT, NodeKind.SHAPE, NodeKind.SUBGRAPH)
            and (float32_inputs(node) or is_float32(node))
            # The program's own cast yields what it says, whatever it is cast from.
            and not (is_plain_cast(node) and tensors(node)[0].dtype == own.dtype)
        ]

    def decide(self) -> Decision:
        for node in self._ops:
            self._forward(node)
        self._before_ends()
        self._between()
        for node in self._ops:
            if float32_inputs(node) and node not in self._stays and not is_dequantizer(node.target):
                self._found.half.add(node)
        self._found.dequantized.update(filter(self._is_read_in_half, self._dequantizers))
        self._found.affine &= self._found.half
        return self._found

    def _forward(self, node: Node) -> None:
        """Decide by the op itself and by what its operands are made of."""
        if is_dequantizer(node.target):
            if self._own.named(node) is None and is_float32(node):
                self._dequantizers.add(node)
            return
        if not float32_inputs(node):
            self._made_here(node)
            return
        if is_affine_batch_norm(node, self._constants) and self._own_but_family(node) is None:
            self._found.affine.add(node)
            return
        taken = self._taken(node)
        weighs = name_of(node) in WEIGHING and _products_read(node)  # a softmax that products alone read
        if weighs and self._own_but_family(node) is None and not self._by_operands(node, taken):
            return
        reason = self._own.reason(node) or (self._by_operands(node, taken) if is_light(node) else None)
        if reason is not None:
            self._stays[node] = reason
        if is_light(node) and taken and all(source in self._positions for source in taken):
            self._positions.add(node)
        if self._is_statistic(node, taken):
            self._statistics.add(node)
        if is_light(node) and is_float32(node) and self._is_huge(node, taken):
            self._found.huge.add(node)

    def _made_here(self, node: Node) -> None:
        """Note a float32 tensor that is made of integers or of nothing; it is what it is."""
        self._own.named(node)
        if is_op(node) and not is_heavy(node) and name_of(node) not in FILLED:
            self._positions.add(node)
        if self._is_huge(node, []):
            self._found.huge.add(node)

    def _by_operands(self, node: Node, taken: Sequence[Node]) -> str | None:
        if taken and all(source in self._positions for source in taken):
            return _POSITIONS
        if name_of(node) in COMBINING and 0 < sum(source in self._statistics for source in taken) < len(taken):
            return _STATISTIC
        return _HUGE if any(source in self._found.huge for source in taken) else None

    def _is_statistic(self, node: Node, taken: Sequence[Node]) -> bool:
        """Whether what is combined with the result should be at hand in float32: it divides by something small."""
        if node in self._stays and any(map(self._own.is_too_small, numbers_of(node))):
            return True
        if name_of(node) in STATISTICS:
            return any(each in self._stays or each in self._statistics for each in (node, *taken))
        return is_light(node) and bool(taken) and all(source in self._statistics for source in taken)

    def _is_huge(self, node: Node, taken: Sequence[Node]) -> bool:
        return (
            any(map(self._own.is_too_large, numbers_of(node)))
            or any(source in self._found.huge for source in taken)
            or any(self._constants.too_large(source) is not None for source in float32_inputs(node))
        )

    def _own_but_family(self, node: Node) -> str | None:
        """Return why an op stays that its family need not keep: a batch norm that is a scale and a shift, a softmax."""
        reason = self._own.reason(node)
        return None if reason == STAYS[name_of(node)] else reason

    def _is_read_in_half(self, node: Node) -> bool:
        return any(user in self._found.half for user in readers(node))

    def _taken(self, node: Node) -> list[Node]:
        """Return the makers of the float32 tensors that an op takes, constants left out."""
        return [maker(source) for source in float32_inputs(node) if self._constants.value(source) is None]

    def _before_ends(self) -> None:
        """Keep what leads to angles, sampling positions and integers, back to the next op that is worth casts."""
        ending: dict[Node, str] = {}
        for node in self._ops:
            name = name_of(node)
            if name in _ENDS and node in self._stays:
                sources: Iterable[Node] = node.args[1:2] if name.startswith("grid") else float32_inputs(node)
                becomes_bool = any(str(value.dtype) == "torch.bool" for value in tensors(node))
                if not becomes_bool:
                    ending.update({maker(source): _ENDS[name] for source in sources if isinstance(source, Node)})
        for node in reversed(self._ops):
            if node not in ending or not float32_inputs(node):
                continue
            taken = self._taken(node)
            positions = (source in self._positions or source.op == "placeholder" for source in taken)
            goes_on = is_light(node) or (bool(taken) and all(positions))
            if node not in self._found.affine and (goes_on or name_of(node) in PRODUCTS):
                self._stays.setdefault(node, ending[node])
            if goes_on:
                ending.update({source: ending[node] for source in taken if source not in ending})

    def _between(self) -> None:
        """Keep light ops whose operands are all at hand in float32 and whose result is read in float32."""
        at_hand: set[Node] = set()  # float32 without a cast: made by what stays, or given
        made: set[Node] = set()  # of these, those that depend on an op that stays
        for node in self._ops:
            taken, plain = self._taken(node), is_light(node) and node not in self._found.affine
            if node in self._stays:
                at_hand.add(node)
                made.add(node)
            elif node in self._dequantizers:
                continue  # it gives what its readers compute in
            elif not float32_inputs(node):
                at_hand.add(node)
            elif plain and all(source in at_hand or source.op == "placeholder" for source in taken):
                at_hand.add(node)
                if any(source in made for source in taken):
                    made.add(node)
                if name_of(node) in SELECTING:
                    self._stays[node] = _COMPARES
                elif len({source for source in taken if source in made}) > 1:
                    self._stays[node] = _MERGES
        wanted: set[Node] = set()

        def is_wanted(user: Node) -> bool:
            return user.op == "output" or user in wanted

        for node in reversed(self._ops):
            if node in self._stays:
                wanted.add(node)
            elif float32_inputs(node) and node in at_hand and any(map(is_wanted, readers(node))):
                wanted.add(node)
                self._stays[node] = _BETWEEN


def _products_read(node: Node) -> bool:
    """Whether what an op yields ends in products, moved on the way at most."""
    reading = list(readers(node))
    return bool(reading) and all(
        is_heavy(user) or (is_light(user) and len(float32_inputs(user)) == 1 and _products_read(user))
        for user in reading
    )
