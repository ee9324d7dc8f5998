"""The layers of an engine, joined back to the ops of its network.

TensorRT keeps the names that it was told (``engine_bindings.py``) and writes them into those of the layers that it
makes of them:
``a + b``, ``PWN(a, b)``, ``{ForeignNode[a...b]}``, ``a_myl0_3``, ``Reformatting CopyNode for Input Tensor 0 to a + b``.
They also hand on what each layer was told, but 8.6 not for a ForeignNode.  Names get lost: of a ForeignNode only the
ends are named, and what was folded into weights not at all.  What is not named by any layer is in the one whose outputs
are computed from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import median

from trtdiag.engine.built_layers import LayerInfo, LayerTensor
from trtdiag.engine.tensorrt.engine_bindings import input_name, output_name
from trtdiag.network import Network, Origin
from trtdiag.network.layers.constant import Constant

Times = Sequence[Sequence[tuple[str, float]]]
"""Of each run, each layer's name with its milliseconds, in order."""

_TOLD = re.compile(r"\[([^\s\[\]()]+) \(([^()\[\]]+)\)")
"""An op in what a layer was told: ``[aten.add.Tensor (add) at model.py:9]``."""
_WORDS = re.compile(r"[^\s\[\](){},+\x1e\x1f]+")
_ENDS = re.compile(r"^\{ForeignNode\[(?P<first>.*?)\.\.\.(?P<last>.*)\]\}")
_MOVES = re.compile(r"^Reformatting CopyNode for | copy$")


def joined(layers: Sequence[LayerInfo], network: Network, times: Times = ()) -> tuple[LayerInfo, ...]:
    """Each layer of the engine with the ops that it computes and, where it was timed, the median of its times.

    Args:
        layers: As the inspector tells them.
        network: What the engine was built from.
        times: Of some runs at the usual sizes.
    """
    return _Join(layers, network).layers(_medians(times))


class _Join:
    def __init__(self, layers: Sequence[LayerInfo], network: Network) -> None:
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
        self._written = [self._nodes_of_tensors(layer.outputs) for layer in layers]
        self._claimed = [n | w if n else n for n, w in zip(self._named, self._written, strict=True)]
        # A value that the host computed: the op that it is a part of may go on in the layer that reads it.
        self._handed_over = {
            tensor.name
            for layer, named in zip(layers, self._named, strict=True)
            if not named and not _MOVES.search(layer.name)
            for tensor in layer.outputs
        }
        self._first: dict[str, int] = {}
        for index, claimed in enumerate(self._claimed):
            for node in claimed:
                self._first.setdefault(node, index)

    def layers(self, times: Mapping[str, Sequence[float]]) -> tuple[LayerInfo, ...]:
        seen: dict[str, int] = {}
        found = []
        for index, (layer, named) in enumerate(zip(self._raw, self._named, strict=True)):
            between = self._between(index)
            told = times.get(layer.name, ())
            place = seen[layer.name] = seen.get(layer.name, -1) + 1
            ops, time = self._in_order({*named, *between}), told[place] if place < len(told) else None
            found.append(replace(layer, ops=ops, named=not between - named, time_ms=time))
        for name, told in times.items():
            if name not in seen:  # what took time is not left out, be it told by the profiler alone
                found.append(LayerInfo(name, "", self._in_order(self._nodes_in(name)), time_ms=sum(told)))
        return tuple(found)

    def _nodes_of(self, layer: LayerInfo) -> set[str]:
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

    def _between(self, index: int) -> set[str]:
        """The nodes that a layer's outputs are computed from, its inputs are not, and no other layer claims."""
        layer, claimed = self._raw[index], self._claimed[index]
        if not claimed:
            return set()
        if not self._written[index]:
            ends = _ENDS.search(layer.name)
            return set() if ends is None else self._in_range(ends)
        read = self._nodes_of_tensors([tensor for tensor in layer.inputs if tensor.name not in self._handed_over])
        found: set[str] = set()
        waiting = list(claimed)
        while waiting:
            node = waiting.pop()
            if node in found or (node not in claimed and (node in self._first or node in read)):
                continue
            found.add(node)
            if self._first.get(node, index) == index:  # of an op in several layers, the first one computes its inputs
                waiting += [self._maker[number] for number in self._reads[node] if number in self._maker]
        return found

    def _in_range(self, ends: re.Match[str]) -> set[str]:
        """By the order of the network, where no tensor tells."""
        first, last = self._nodes_in(ends["first"]), self._nodes_in(ends["last"])
        if not last:
            return set()
        low = min((self._order[node] for node in first), default=0)
        high = max(self._order[node] for node in last)
        return {node for node, place in self._order.items() if low <= place <= high and node not in self._first}

    def _nodes_of_tensors(self, tensors: Iterable[LayerTensor]) -> set[str]:
        """The nodes whose outputs they are, also where they were moved on their way."""
        names = {name for tensor in tensors for name in self._same.get(tensor.name, (tensor.name,))}
        nodes = {self._ports.get(name, name.split("/")[0] if "/" in name else "") for name in names}
        return nodes & self._origins.keys()

    def _in_order(self, nodes: Iterable[str]) -> tuple[Origin, ...]:
        return tuple(self._origins[node] for node in sorted(nodes, key=self._order.__getitem__))


def _moved(layers: Sequence[LayerInfo]) -> dict[str, tuple[str, ...]]:
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
