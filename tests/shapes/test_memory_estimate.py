"""Memory at the maximum, against hand counts and the allocations of a real run."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim

from tests.harness.staged import staged, values_at
from trtdiag.graph.inputs import storage_bytes, storage_key
from trtdiag.shapes.memory import live_bytes, memory_estimate


def _estimate(module, args, dims=None):
    program = staged(module, args, dims)
    return program, memory_estimate(program.program, program.checked, program.shapes)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(50, 8)
        self.head = nn.Linear(8, 50, bias=False)
        self.head.weight = self.table.weight
        self.register_buffer("scale", torch.ones(3, dtype=torch.float64))

    def forward(self, x):
        return self.head(self.table(x)) * self.scale.sum()


def test_shared_weights_count_once():
    _, memory = _estimate(Tied(), (torch.tensor([1, 2]),))
    assert memory.weight_bytes == 50 * 8 * 4 + 3 * 8


class Chain(nn.Module):
    def forward(self, x):
        a = x + 1  # 4n
        b = a * 2  # 4n, then a dies
        c = b.view(-1, 1)  # the same memory as b
        d = torch.cat([c, c])  # 8n next to b
        return d.sum()


def test_live_set_by_hand():
    program, memory = _estimate(Chain(), (torch.randn(10),), {"x": {0: Dim("n", min=2, max=100)}})
    assert memory.input_bytes == 400
    assert memory.live_bytes == 400 + 400 + 800
    assert memory.live_at == "cat"
    assert memory.live_frame is not None
    assert "torch.cat" in memory.live_frame.code
    assert dict(memory.largest) == {"cat": 800, "add": 400, "mul": 400, "sum_1": 4}
    assert next(iter(memory.largest)) == ("cat", 800)
    assert program.program.inputs[0].dims[0].hint == 10  # the example is not what is counted


class Dense(nn.Module):
    def forward(self, x):
        kept = [x]
        for _ in range(5):
            kept.append(torch.cat(kept, 1).sum(1, keepdim=True).expand(-1, 8) * 2)  # 32n, and none of them dies
        return torch.cat(kept, 1)


def test_what_is_alive_at_once_at_sizes():
    program = staged(Chain(), (torch.randn(10),), {"x": {0: Dim("n", min=2, max=100)}})
    (symbol,) = program.program.ranges
    assert live_bytes(program.checked, program.shapes, {symbol: 7}) == 12 * 7
    assert live_bytes(program.checked, program.shapes, {}) is None
    program = staged(Dense(), (torch.randn(10, 8),), {"x": {0: Dim("n", min=2, max=100)}})
    (symbol,) = program.program.ranges
    # Five that are kept and the one of all six: more than four times the greatest single one but the last.
    assert live_bytes(program.checked, program.shapes, {symbol: 7}) == (5 * 32 + 6 * 32) * 7


def test_a_size_without_a_maximum_has_no_estimate():
    _, memory = _estimate(Chain(), (torch.randn(10),), {"x": {0: Dim.AUTO}})
    assert (memory.input_bytes, memory.live_bytes, memory.live_at, memory.live_frame) == (None, None, None, None)
    assert dict(memory.largest) == {"sum_1": 4}


class Splitting(nn.Module):
    def forward(self, x):
        first, second = (x * 2).split(4, dim=1)
        return torch.relu(first) + second.transpose(0, 1).reshape(-1, 4), torch.topk(x, 3, dim=1)[1]


def _real_peak(program, inputs):
    """The largest sum of distinct storages alive at one node when every tensor dies after its last use."""
    values = values_at(program, inputs)
    nodes = list(program.checked.graph_module.graph.nodes)
    order = {node: index for index, node in enumerate(nodes)}
    held = {storage_key(value) for node in nodes if node.op == "placeholder" for value in [values[node.name]]}
    spans: dict[int, list[int]] = {}
    sizes: dict[int, int] = {}
    for node in nodes:
        if node.op != "call_function":
            continue
        value = program_values(values[node.name])
        for tensor in value:
            key = storage_key(tensor)
            if key in held:
                continue
            sizes[key] = storage_bytes(tensor)
            last = max([order[node], *(order[user] for user in node.users)])
            start, end = spans.get(key, [order[node], last])
            spans[key] = [min(start, order[node]), max(end, last)]
    return max(
        sum(size for key, size in sizes.items() if spans[key][0] <= at <= spans[key][1]) for at in range(len(nodes))
    )


def program_values(value):
    return [value] if isinstance(value, torch.Tensor) else [v for v in value if isinstance(v, torch.Tensor)]


def test_live_set_is_what_a_real_run_holds(monkeypatch):
    # The recorder clones values to survive in-place ops; here storages must stay what they are.
    monkeypatch.setattr(torch.Tensor, "clone", lambda self: self)
    program, memory = _estimate(Splitting(), (torch.randn(6, 8),), {"x": {0: Dim("n", min=5, max=20)}})
    assert memory.live_bytes == memory.input_bytes + _real_peak(program, (torch.randn(20, 8),))


class Guarded(nn.Module):
    def forward(self, x):
        with torch.no_grad():
            wide = torch.cat([x] * 6).sum(0)
        return torch.cond(wide.sum() > 0, lambda t: torch.cat([t] * 9)[:8], lambda t: t * 2, (wide,))


def test_a_nested_graphs_own_tensors_count_at_its_peak():
    _, memory = _estimate(Guarded(), (torch.randn(5, 8),), {"x": {0: Dim("n", min=2, max=10)}})
    assert memory.live_bytes is not None
    assert memory.live_bytes >= 6 * 10 * 8 * 4
    assert memory.live_at is not None
    assert memory.live_at.endswith(".sum_1")


def test_an_empty_range_of_ops_holds_nothing():
    class Same(nn.Module):
        def forward(self, x):
            return x.detach()

    _, memory = _estimate(Same(), (torch.randn(4),))
    assert (memory.weight_bytes, memory.input_bytes, memory.live_bytes, memory.largest) == (0, 16, 16, ())
    assert memory.live_at is None
