"""The layers of an engine, joined back to the ops of its network.

TensorRT keeps the names that it was told (``names.py``) and writes them into those of the layers that it makes of them:
``a + b``, ``PWN(a, b)``, ``{ForeignNode[a...b]}``, ``a_myl0_3``, ``Reformatting CopyNode for Input Tensor 0 to a + b``.
Newer versions also hand on what each layer was told.  Where a layer names only the ends, what lies between is what its
outputs are computed from and its inputs are not, so far as no other layer computes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from trtdiag.engine.built_layers import LayerInfo
from trtdiag.engine.tensorrt.layer_text import RawLayer
from trtdiag.engine.tensorrt.names import input_name, output_name
from trtdiag.network import Network, Origin
from trtdiag.network.layers.constant import Constant

Times = Sequence[Sequence[tuple[str, float]]]
"""Of each run, each layer's name with its milliseconds, in order."""

_TOLD = re.compile(r"\[([^\s\[\]()]+) \(([^()\[\]]+)\)")
"""An op in what a layer was told: ``[aten.add.Tensor (add) at model.py:9]``."""
_WORDS = re.compile(r"[^\s\[\](){},+\x1e\x1f]+")
_ENDS = re.compile(r"^\{ForeignNode\[(?P<first>.*?)\.\.\.(?P<last>.*)\]\}")
_MOVES = re.compile(r"^Reformatting CopyNode for | copy$")


def joined(layers: Sequence[RawLayer], network: Network, times: Times = ()) -> tuple[LayerInfo, ...]:
    """Each layer of the engine with the ops that it computes and, where it was timed, the median of its times.

    Args:
        layers: As the inspector tells them.
        network: What the engine was built from.
        times: Of some runs at the usual sizes.
    """
    return _Join(layers, network).layers(_medians(times))


class _Join:
    def __init__(self, layers: Sequence[RawLayer], network: Network) -> None:
        self._raw = layers
        self._origins: dict[str, Origin] = {}
        self._maker: dict[int, str] = {}
        self._reads: dict[str, set[int]] = {}
        for placed in network.layers:
            if isinstance(placed.layer, Constant):
                continue
            node = placed.origin.node
            self._origins.setdefault(node, placed.origin)
            self._maker.update((number, node) for number in placed.outputs)
            self._reads.setdefault(node, set()).update(placed.inputs)
        self._order = {node: index for index, node in enumerate(self._origins)}
        self._ports = {input_name(i, port.name): "" for i, port in enumerate(network.inputs)}
        for index, port in enumerate(network.outputs):
            self._ports[output_name(index, port.name)] = self._maker.get(port.tensor, "")
        self._same = _moved(layers)
        self._named = [self._nodes_of(layer) for layer in layers]
        self._open = [bool(_ENDS.search(layer.name)) and not _TOLD.search(layer.metadata) for layer in layers]

    def layers(self, times: Mapping[str, Sequence[float]]) -> tuple[LayerInfo, ...]:
        seen: dict[str, int] = {}
        found = []
        for layer, named, is_open in zip(self._raw, self._named, self._open, strict=True):
            between = self._between(layer, named) if is_open else set()
            told = times.get(layer.name, ())
            place = seen[layer.name] = seen.get(layer.name, -1) + 1
            found.append(
                LayerInfo(
                    layer.name,
                    layer.kind,
                    self._in_order({*named, *between}),
                    not between - named,
                    layer.inputs,
                    layer.outputs,
                    layer.tactic,
                    told[place] if place < len(told) else None,
                )
            )
        return (*found, *self._told_in_times_alone(times, seen))

    def _told_in_times_alone(
        self, times: Mapping[str, Sequence[float]], seen: Mapping[str, int]
    ) -> Iterable[LayerInfo]:
        """What took time is not left out, be it told by the profiler alone."""
        for name, told in times.items():
            if name not in seen:
                yield LayerInfo(name, "", self._in_order(self._nodes_in(name)), True, time_ms=sum(told))

    def _nodes_of(self, layer: RawLayer) -> set[str]:
        """The nodes that a layer names as those that it computes."""
        if _MOVES.search(layer.name):
            return set()
        told = {match[2] for match in _TOLD.finditer(layer.metadata)}
        return {node for node in told if node in self._origins} | self._nodes_in(layer.name)

    def _nodes_in(self, name: str) -> set[str]:
        if _MOVES.search(name):
            return set()
        words = (part for word in _WORDS.findall(name) for part in word.split("..."))
        nodes = (word.split("/")[0] for word in words if "/" in word)
        return {node for node in nodes if node in self._origins}

    def _between(self, layer: RawLayer, named: set[str]) -> set[str]:
        """The nodes of a layer that names only the first and last of them."""
        elsewhere = {
            n for other, nodes in zip(self._raw, self._named, strict=True) if other is not layer for n in nodes
        }
        outputs = {node for tensor in layer.outputs for node in self._nodes_of_tensor(tensor.name)}
        if not outputs:
            return self._in_range(layer, elsewhere)
        stop = {node for tensor in layer.inputs for node in self._nodes_of_tensor(tensor.name)}
        found: set[str] = set()
        waiting = [*outputs, *named]
        while waiting:
            node = waiting.pop()
            if node in found or ((node in elsewhere or node in stop) and node not in outputs | named):
                continue
            found.add(node)
            waiting += [self._maker[number] for number in self._reads[node] if number in self._maker]
        return found

    def _in_range(self, layer: RawLayer, elsewhere: set[str]) -> set[str]:
        """By the order of the network, where no tensor tells."""
        match = _ENDS.search(layer.name)
        assert match is not None
        first, last = self._nodes_in(match["first"]), self._nodes_in(match["last"])
        if not last:
            return set()
        low = min((self._order[node] for node in first), default=0)
        high = max(self._order[node] for node in last)
        return {node for node, place in self._order.items() if low <= place <= high and node not in elsewhere}

    def _nodes_of_tensor(self, name: str) -> set[str]:
        """The node whose output a tensor is, also where the tensor was moved on its way."""
        found = set()
        for each in self._same.get(name, (name,)):
            node = self._ports.get(each, each.split("/")[0] if "/" in each else "")
            if node in self._origins:
                found.add(node)
        return found

    def _in_order(self, nodes: Iterable[str]) -> tuple[Origin, ...]:
        return tuple(self._origins[node] for node in sorted(nodes, key=self._order.__getitem__))


def _moved(layers: Sequence[RawLayer]) -> dict[str, tuple[str, ...]]:
    """The names of each tensor that was only moved."""
    groups: dict[str, set[str]] = {}
    for layer in layers:
        if _MOVES.search(layer.name) and len(layer.inputs) == len(layer.outputs) == 1:
            ends = {layer.inputs[0].name, layer.outputs[0].name}
            whole = set().union(ends, *(groups.get(name, ()) for name in ends))
            groups.update((name, whole) for name in whole)
    return {name: tuple(sorted(group)) for name, group in groups.items()}


def _medians(times: Times) -> dict[str, list[float]]:
    """Of each name the median of its times; as many as a run has layers of that name."""
    found: dict[str, list[list[float]]] = {}
    for run in times:
        count: dict[str, int] = {}
        for name, milliseconds in run:
            place = count[name] = count.get(name, -1) + 1
            column = found.setdefault(name, [])
            if place == len(column):
                column.append([])
            column[place].append(milliseconds)
    return {name: [median(column) for column in columns] for name, columns in found.items()}
