"""Prepared runs of inputs that an engine reads otherwise than PyTorch has them: casts, and int64 as pairs of int32."""

from __future__ import annotations

import pytest
import torch
from host_engine import HostGpu, LowHalves, RowSums

from trtdiag.engine.cuda_graph_choice import GraphChoice, choosing_graphs
from trtdiag.engine.tensorrt import cuda_graphs, prepared_run
from trtdiag.engine.tensorrt.single_context import SHARING
from trtdiag.graph.operators import int32_pairs


@pytest.fixture(autouse=True)
def _alignment(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch aligns less on the CPU than on a GPU."""
    for module in (prepared_run, cuda_graphs):
        monkeypatch.setattr(module, "ALIGNMENT", 16)


def test_casts_are_part_of_what_is_recorded() -> None:
    gpu, choice = HostGpu(), GraphChoice(2)
    runner = RowSums("8.6").runner(gpu)
    x, y = torch.randn(3, 5), torch.empty(3).half()
    with choosing_graphs(choice):
        for _ in range(2):
            runner([x.half()])
        run = runner.prepared([x.half()], [x])
        column_major = runner.prepared([x.half()], [torch.randn(5, 3).t()])
    assert [None if each is None else list(each.casts) for each in (run, column_major)] == [[torch.float16], []]
    assert run is not None
    for recorded in (1, 2, 2, 2):
        x.copy_(torch.randn(3, 5))
        made = run([x], [y])
        assert made is not None
        torch.testing.assert_close(made[0], x.half().sum(1), rtol=0, atol=0)
        assert gpu.recorded == recorded


@pytest.mark.parametrize("graphs", [False, True])
@pytest.mark.parametrize("one_context", [False, True])
def test_integers_of_64_bits_are_read_where_they_are(graphs: bool, one_context: bool) -> None:
    gpu, choice = HostGpu(), GraphChoice(2) if graphs else None
    engine = LowHalves("8.6")
    if one_context:
        del engine.trt.PreviewFeature.__members__[SHARING]
    runner = engine.runner(gpu)
    ids = torch.tensor([-1, 3, 2**31 - 1])
    with choosing_graphs(choice):
        for _ in range(3):
            runner([int32_pairs(ids)])
        run = runner.prepared([int32_pairs(ids)], [ids])
    assert run is not None
    assert run.by_address
    for index in range(6):
        ids.copy_(torch.randint(-(2**31), 2**31, (3,)))
        for given in (ids, int32_pairs(ids), ids.clone()):
            made = run([given], [torch.empty(3, dtype=torch.int32)] if index % 2 else None)
            assert made is not None
            assert torch.equal(made[0].long(), ids)
    assert bool(gpu.recorded) == graphs
