"""The op that a real engine computes wrongly, found with real engines; needs a GPU and TensorRT."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from tests.verification.faulty_backend import Chain, register, with_other_activation
from trtdiag.engine.backend import get_backend
from trtdiag.options import CompileOptions, Precision
from trtdiag.pipeline import accuracy_repair
from trtdiag.pipeline.compile import compile_in_stages
from trtdiag.targets import get_target, installed_version
from trtdiag.verification.engine_search import MOST_BUILDS

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        installed_version() is None or not torch.cuda.is_available(), reason="needs TensorRT and a GPU to build for"
    ),
]
LENGTH, TURN = 12, 5


@pytest.mark.parametrize("precision", [Precision.KEEP, Precision.FP16])
def test_the_op_is_found_inside_an_engine(precision: Precision, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    monkeypatch.setattr(
        accuracy_repair, "MOST_MENDINGS", 0
    )  # what the search finds is looked at, not what becomes of it
    made = register(monkeypatch, get_backend("tensorrt"), with_other_activation)
    chain = Chain(LENGTH, TURN).eval().cuda()
    asked = (chain, (torch.randn(3, 5, device="cuda"),), {}, {"x": {0: Dim("b", min=1, max=7)}})
    options = CompileOptions(get_target(None).version, "faulty", precision, optimization_level=0)
    verification = compile_in_stages(asked, options).verification
    assert verification is not None
    culprit = verification.culprit
    assert culprit is not None
    # What TensorRT fuses with it may only be told apart as far as a fusion goes.
    nodes = [f"add_{TURN}" if TURN else "add", "tanh"]
    assert culprit.origin is not None, culprit
    assert culprit.origin.node in nodes, culprit
    assert "the engine is not" in culprit.note
    assert len(made.built) <= 1 + MOST_BUILDS


@pytest.mark.parametrize("precision", [Precision.KEEP, Precision.FP16])
def test_such_an_op_is_left_to_pytorch(precision: Precision, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    register(monkeypatch, get_backend("tensorrt"), with_other_activation)
    chain = Chain(LENGTH, TURN).eval().cuda()
    asked = (chain, (torch.randn(3, 5, device="cuda"),), {}, {"x": {0: Dim("b", min=1, max=7)}})
    options = CompileOptions(get_target(None).version, "faulty", precision, optimization_level=0)
    found = compile_in_stages(asked, options)
    assert found.verification is not None
    assert found.verification.passed, found.verification.worst
    assert "aten.tanh.default" in {entry.op for entry in found.plan.partitioned.fallback}


def test_a_right_engine_is_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    made = register(monkeypatch, get_backend("tensorrt"), lambda network: network)
    chain = Chain(LENGTH, TURN).eval().cuda()
    asked = (chain, (torch.randn(3, 5, device="cuda"),), {}, {"x": {0: Dim("b", min=1, max=7)}})
    options = CompileOptions(get_target(None).version, "faulty", optimization_level=0)
    verification = compile_in_stages(asked, options).verification
    assert verification is not None
    assert verification.passed, verification.worst
    assert len(made.built) == 1
