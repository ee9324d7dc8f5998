"""Layout without any binary: longest-path layers, barycentre order, positions by pooling.

Source: K. Sugiyama, S. Tagawa, M. Toda, "Methods for Visual Understanding of Hierarchical System Structures", 1981.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise

from trtdiag.report.drawing.layout_types import Layout, LevelGraph, Point

_BOX_GAP = 22.0
_BEND_GAP = 12.0
_LAYER_GAP = 30.0
_MARGIN = 8.0
_SWEEPS = 8
_MOST_BENDS = 4000


@dataclass
class _Layers:
    """Boxes and bends by layer.  A bend is where a long edge passes a layer; its number follows the boxes'."""

    sizes: list[Point]
    layer: list[int]
    rows: list[list[int]]
    above: list[list[int]]
    below: list[list[int]]
    chains: list[list[int]]
    boxes: int

    def gap(self, left: int, right: int) -> float:
        return _BOX_GAP if left < self.boxes and right < self.boxes else _BEND_GAP


def lay_out(graph: LevelGraph) -> Layout:
    """Lay out one graph.  Cost: linear in boxes plus bends, times a constant number of sweeps."""
    if not graph.sizes:
        return Layout(2 * _MARGIN, 2 * _MARGIN, (), ())
    layers = _layered(graph)
    _order(layers)
    xs = _horizontal(layers)
    tops = _tops(layers)
    left = min(x - layers.sizes[at][0] / 2 for at, x in enumerate(xs))
    xs = [x - left + _MARGIN for x in xs]
    width = max(x + layers.sizes[at][0] / 2 for at, x in enumerate(xs)) + _MARGIN
    height = tops[-1] - _LAYER_GAP + _MARGIN
    # Boxes stand in the middle of their layer: an edge leaves it straight.
    ys = [(tops[layer] + tops[layer + 1] - _LAYER_GAP) / 2 for layer in layers.layer]
    places = [(round(x, 2), round(y, 2)) for x, y in zip(xs, ys, strict=True)]
    curves = tuple(_curve(layers, places, tops, chain) for chain in layers.chains)
    return Layout(round(width, 2), round(height, 2), tuple(places[: layers.boxes]), curves)


def _layered(graph: LevelGraph) -> _Layers:
    number = len(graph.sizes)
    downward = [(min(edge), max(edge)) for edge in graph.edges]  # an edge back in execution order points up
    layer = [0] * number
    readers: list[list[int]] = [[] for _ in range(number)]
    for tail, head in downward:
        readers[tail].append(head)
    for at in range(number):  # execution order is a topological order of the downward edges
        for head in readers[at]:
            layer[head] = max(layer[head], layer[at] + 1)
    read = {head for _, head in downward}
    for at, heads in enumerate(readers):  # what reads nothing stands just above its first reader
        if heads and at not in read:
            layer[at] = min(layer[head] for head in heads) - 1
    sizes = list(graph.sizes)
    bends = sum(max(0, layer[head] - layer[tail] - 1) for tail, head in downward)
    chains = []
    for tail, head in downward:
        chain = [tail]
        # Beyond a bound edges go straight: a picture that dense is not read edge by edge.
        if bends <= _MOST_BENDS:
            for depth in range(layer[tail] + 1, layer[head]):
                chain.append(len(sizes))
                sizes.append((2.0, 0.0))
                layer.append(depth)
        chains.append([*chain, head])
    rows: list[list[int]] = [[] for _ in range(max(layer) + 1)]
    for at, depth in enumerate(layer):
        rows[depth].append(at)
    above: list[list[int]] = [[] for _ in sizes]
    below: list[list[int]] = [[] for _ in sizes]
    for chain in chains:
        for upper, lower in pairwise(chain):
            below[upper].append(lower)
            above[lower].append(upper)
    back = {index for index, edge in enumerate(graph.edges) if edge[0] > edge[1]}
    chains = [chain[::-1] if index in back else chain for index, chain in enumerate(chains)]
    return _Layers(sizes, layer, rows, above, below, chains, number)


def _order(layers: _Layers) -> None:
    """Order each layer by the mean position of its neighbours, downwards and upwards in turn."""
    position = [0.0] * len(layers.sizes)
    for row in layers.rows:
        for place, at in enumerate(row):
            position[at] = float(place)
    for neighbours, rows in _sweeps(layers):
        for row in rows:
            row.sort(key=lambda at, near=neighbours: _mean([position[n] for n in near[at]], position[at]))  # type: ignore[misc]
            for place, at in enumerate(row):
                position[at] = float(place)


def _sweeps(layers: _Layers) -> Iterator[tuple[list[list[int]], list[list[int]]]]:
    """Downwards and upwards in turn: the neighbours that count, and the layers in that order."""
    for sweep in range(_SWEEPS):
        yield (layers.above, layers.rows) if sweep % 2 == 0 else (layers.below, layers.rows[::-1])


def _mean(values: list[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _horizontal(layers: _Layers) -> list[float]:
    """The x of every box and bend: near its neighbours, in order, without overlap."""
    xs = [0.0] * len(layers.sizes)
    for row in layers.rows:
        _pool(layers, row, [0.0] * len(row), xs)
    for neighbours, rows in _sweeps(layers):
        for row in rows:
            wished = [_mean([xs[n] for n in neighbours[at]], xs[at]) for at in row]
            _pool(layers, row, wished, xs)
    return xs


def _pool(layers: _Layers, row: list[int], wished: list[float], xs: list[float]) -> None:
    """Place a row as near to the wished places as order and gaps allow (least squares, by pooling neighbours)."""
    offsets = [0.0]
    for left, right in pairwise(row):
        offsets.append(offsets[-1] + (layers.sizes[left][0] + layers.sizes[right][0]) / 2 + layers.gap(left, right))
    pools: list[tuple[float, int]] = []  # sum of wishes less offsets, members
    for wish, offset in zip(wished, offsets, strict=True):
        total, members = wish - offset, 1
        while pools and pools[-1][0] / pools[-1][1] >= total / members:
            before = pools.pop()
            total, members = total + before[0], members + before[1]
        pools.append((total, members))
    places = (total / members for total, members in pools for _ in range(members))
    for box, place, offset in zip(row, places, offsets, strict=True):
        xs[box] = place + offset


def _tops(layers: _Layers) -> list[float]:
    """The y at which each layer begins, and one more after the last."""
    heights = (max(layers.sizes[at][1] for at in row) for row in layers.rows)
    return [*accumulate(heights, lambda top, height: top + height + _LAYER_GAP, initial=_MARGIN)]


def _curve(layers: _Layers, places: list[Point], tops: list[float], chain: list[int]) -> tuple[Point, ...]:
    down = layers.layer[chain[0]] < layers.layer[chain[-1]]
    sign = 1 if down else -1
    stops: list[Point] = []
    for at in chain:
        x, y = places[at]
        half = sign * layers.sizes[at][1] / 2
        if at >= layers.boxes:
            # A bend passes its whole layer upright, so that it stays clear of tall boxes beside it.
            half = sign * (tops[layers.layer[at] + 1] - _LAYER_GAP - tops[layers.layer[at]]) / 2
            stops.append((x, round(y - half, 2)))
        ends_here = at < layers.boxes and stops
        stops.append((x, round(y - half if ends_here else y + half, 2)))
    points = stops[:1]
    for (left, y), (x, end) in pairwise(stops):  # curves that leave and arrive upright
        middle = round((y + end) / 2, 2)
        points += [(left, middle), (x, middle), (x, end)]
    return tuple(points)
