"""Which of several equal values is chosen: ``topk``, ``sort``, ``argmax`` and their like where values tie.

PyTorch does not define which of equal values ``topk`` takes, and values that are apart by what rounding changes are
equal to two right programs: the indices then differ, and what they choose is the same.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.fx import Node

from trtdiag.frontend.sized_inputs import SEED
from trtdiag.graph.operators import arguments_of, given_to, operator_of, target_name
from trtdiag.lower.lowered_facts import Lowered
from trtdiag.verification.compare import near
from trtdiag.verification.facts import OutputError, PointResult, Tolerance
from trtdiag.verification.lowered_run import AllValues, origin_of, user_outputs, values_of

OTHER_ORDERS = 7
"""In how many orders the elements are offered to a choice that takes the first of equal ones: as they stand, backwards,
then drawn ones.  Own choice: most kernels take the first or the last."""

_SEVERAL = frozenset({"aten.topk.default", "aten.sort.default", "aten.sort.stable"})
_ORDERS = frozenset({"aten.argsort.default", "aten.argsort.stable"})
_WHOLE = _SEVERAL | _ORDERS
"""Give as many places as they choose; the others one for each row."""
_PAIRS = _SEVERAL | {"aten.max.dim", "aten.min.dim", "aten.kthvalue.default", "aten.median.dim"}
"""Give values, then places; the others places alone."""
_CHOOSING = _PAIRS | _ORDERS | {"aten.argmax.default", "aten.argmin.default"}
_CARRYING = frozenset(
    {
        *("aten.view.default", "aten._unsafe_view.default", "aten.reshape.default", "aten.clone.default"),
        *("aten.unsqueeze.default", "aten.squeeze.default", "aten.squeeze.dim", "aten.squeeze.dims"),
        *("aten._to_copy.default", "aten.to.dtype", "aten.alias.default", "aten.detach.default"),
    }
)
"""Give the elements of their first argument in the same order."""


@dataclass(frozen=True)
class Choice:
    """What a choosing op chose from: the values, of which dim, and the places that it gave."""

    values: torch.Tensor
    dim: int
    places: torch.Tensor

    def alike(self, other: torch.Tensor, tolerance: Tolerance) -> bool:
        """Whether other places hold the same values, within the tolerance, and none of them twice in a row."""
        if other.numel() != self.places.numel() or other.dtype.is_floating_point or other.dtype is torch.bool:
            return False
        mine, given = (places.reshape(self.places.shape).to("cpu", torch.int64) for places in (self.places, other))
        values = self.values.detach().cpu()
        if bool(((given < 0) | (given >= values.shape[self.dim])).any()):
            return False
        ordered = given.sort(self.dim).values
        size = ordered.shape[self.dim]
        if bool((ordered.narrow(self.dim, 1, size - 1) == ordered.narrow(self.dim, 0, size - 1)).any()):
            return False
        return bool(near(values.gather(self.dim, mine), values.gather(self.dim, given), values, tolerance).all())


def choice_of(node: Node, values: Mapping[str, Any]) -> Choice | None:
    """What a node chose, where it chooses and gives places.

    Args:
        node: Of a lowered graph.
        values: What every node before it gave, and itself, by name.
    """
    name = target_name(node.target)
    source = node.args[0] if node.args else None
    if name not in _CHOOSING or not isinstance(source, Node) or not isinstance(values.get(source.name), torch.Tensor):
        return None
    if _asked(node, "stable"):
        return None  # the first of equal values: anything else is wrong
    given = values[node.name]
    places = given[1] if name in _PAIRS else given
    asked = _asked(node, "dim")
    x = values[source.name]
    if asked is None and name in _PAIRS | _ORDERS:
        asked = -1  # the default of all of them
    if not x.dim() or asked is None:
        return Choice(x.reshape(-1), 0, places.reshape(-1))
    dim = int(asked) % x.dim()
    one_each = name not in _WHOLE and not _asked(node, "keepdim")
    return Choice(x, dim, places.unsqueeze(dim) if one_each else places)


def _asked(node: Node, name: str) -> Any:
    """An argument of the call; ``None`` where it is left out."""
    op = operator_of(node)
    argument = None if op is None else arguments_of(op).get(name)
    return None if argument is None else given_to(node, argument)


def judged_ties(
    lowered: Lowered,
    flat_inputs: Sequence[Any],
    outputs: Sequence[OutputError],
    actual: Sequence[Any],
    tolerance: Tolerance,
) -> tuple[OutputError, ...]:
    """The outputs, of which those pass now that differ only in which of equal values is chosen.

    Shown for places themselves: what they choose is the same.  Shown for what follows from them: each element is what
    PyTorch gives there where equal values stand in another order, within the tolerance.

    Args:
        lowered: The program; run by PyTorch, op by op, if it has such an op at all.
        flat_inputs: The user's inputs.
        outputs: How the compiled program's outputs differ.
        actual: The compiled program's flat outputs.
        tolerance: What they were compared with.
    """
    graph = lowered.graph_module.graph
    off = [index for index, output in enumerate(outputs) if not output.passed and not output.why]
    if not off or not any(target_name(node.target) in _CHOOSING for node in graph.nodes if node.op == "call_function"):
        return tuple(outputs)
    values = values_of(lowered, flat_inputs)
    results = user_outputs(lowered)
    judged = list(outputs)
    for index in off:
        node = carried(results[index])
        choice = None if node is None else choice_of(node, values)
        if choice is not None and node is not None and choice.alike(actual[index], tolerance):
            judged[index] = _tied(outputs[index], str(origin_of(lowered, node)))
    nodes = {
        index: results[index].name for index in off if not judged[index].passed and isinstance(results[index], Node)
    }
    left = {index: (name, values[name], actual[index]) for index, name in nodes.items()}
    left = {index: each for index, each in left.items() if _comparable(each[1], each[2])}
    for index, tied in _following(lowered, flat_inputs, left, tolerance):
        judged[index] = _tied(outputs[index], tied)
    return tuple(judged)


_Left = Mapping[int, tuple[str, torch.Tensor, torch.Tensor]]
"""Outputs by their place: the node, what PyTorch gives, and what the compiled program gave."""


def _following(
    lowered: Lowered, flat_inputs: Sequence[Any], left: _Left, tolerance: Tolerance
) -> Iterator[tuple[int, str]]:
    """Yield the outputs all of whose elements are given with equal values in some order, and the op that chooses."""
    unknown = {index: ~near(wanted, given, wanted, tolerance) for index, (_, wanted, given) in left.items()}
    culprit = ""
    for order in range(OTHER_ORDERS if unknown else 0):
        run = _Reordered(lowered, order)
        run.of(flat_inputs)
        for index, (name, wanted, given) in left.items():
            here = run.values[name]
            if _comparable(here, given):
                unknown[index] &= ~near(here, given, wanted, tolerance)
        culprit = culprit or run.changed
        if not any(bool(mask.any()) for mask in unknown.values()):
            break
    for index, mask in unknown.items():
        if culprit and not bool(mask.any()):
            yield index, culprit


class _Reordered(AllValues):
    """The value of every node, where what is chosen from is offered in another order."""

    def __init__(self, lowered: Lowered, order: int) -> None:
        super().__init__(lowered)
        self._order = order
        self._generator = torch.Generator().manual_seed(SEED + order)
        self.changed = ""

    def run_node(self, n: Node) -> Any:
        value = self.values[n.name] = self._reordered(n, super().run_node(n))
        return value

    def _reordered(self, node: Node, value: Any) -> Any:
        choice = choice_of(node, self.values)
        if choice is None:
            return value
        size = choice.values.shape[choice.dim]
        if self._order in (0, 1):
            order = torch.arange(size) if self._order == 0 else torch.arange(size).flip(0)
        else:
            order = torch.randperm(size, generator=self._generator)
        order = order.to(choice.values.device)
        places = order[self._first(node, choice, choice.values.index_select(choice.dim, order))]
        places = places.reshape(choice.places.shape).to(choice.places.dtype)
        pair = target_name(node.target) in _PAIRS
        if not torch.equal(places.reshape(-1), choice.places.reshape(-1)):
            self.changed = self.changed or str(origin_of(self.lowered, node))
        places = places.reshape((value[1] if pair else value).shape)
        return (value[0], places) if pair else places

    def _first(self, node: Node, choice: Choice, offered: torch.Tensor) -> torch.Tensor:
        """The places in what is offered; of equal values those that come first."""
        name = target_name(node.target)
        if name in _WHOLE:
            descending = _asked(node, "largest") is not False if "topk" in name else bool(_asked(node, "descending"))
            ordered = torch.sort(offered, dim=choice.dim, descending=descending, stable=True)[1]
            return ordered.narrow(choice.dim, 0, choice.places.shape[choice.dim])
        chosen = choice.values.gather(choice.dim, choice.places.to(torch.int64))
        alike = (offered == chosen) | (torch.isnan(offered) & torch.isnan(chosen))
        return alike.to(torch.uint8).argmax(choice.dim, keepdim=True)


def carried(node: Any) -> Node | None:
    """The choosing node whose places these are, with other shapes or of another dtype; ``None`` if they are none."""
    while isinstance(node, Node) and node.op == "call_function":
        name = target_name(node.target)
        if name in _CHOOSING and name not in _PAIRS:
            return node
        if node.target is operator.getitem:
            source = node.args[0]
            pair = isinstance(source, Node) and target_name(source.target) in _PAIRS and node.args[1] == 1
            return source if pair else None  # type: ignore[return-value]  # a node by the line above
        if name not in _CARRYING:
            return None
        node = node.args[0]
    return None


def _comparable(one: Any, other: Any) -> bool:
    return isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor) and one.shape == other.shape


def _tied(output: OutputError, op: str) -> OutputError:
    return replace(output, passed=True, max_abs=0.0, max_rel=0.0, tied=op)


def tied_notes(results: Sequence[PointResult]) -> list[str]:
    """A note on outputs that differ only in which of equal values is chosen; none where there are none."""
    found = [(result, output) for result in results for output in result.outputs if output.tied]
    if not found:
        return []
    ops = ", ".join(dict.fromkeys(output.tied for _, output in found))
    points = len({id(result) for result, _ in found})
    return [f"at {points} set{'s' * (points != 1)} of sizes {ops} took another of equal values: no difference"]
