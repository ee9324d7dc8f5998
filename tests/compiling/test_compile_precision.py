"""Compiling in half precision: the engines compute in it, the program's inputs and outputs stay as they are."""

from __future__ import annotations

import pytest
import torch
from torch.export import export

from tests.lower.test_precision_models import block, conv_net
from trtdiag.network.dtype import DType
from trtdiag.options import CompileOptions, Precision
from trtdiag.pipeline.compile import compile_in_stages

HALVES = {Precision.FP16: DType.FLOAT16, Precision.BF16: DType.BFLOAT16}


def compiled(source, precision, target, **changes):
    module, args, kwargs, dims = source
    program = export(module, args, kwargs, dynamic_shapes=dims)
    return compile_in_stages(program, CompileOptions(target, "reference", precision, **changes))


@pytest.mark.parametrize(("precision", "target"), [(Precision.FP16, "8.6"), (Precision.BF16, "11.4")])
@pytest.mark.parametrize("source", [conv_net, block])
@pytest.mark.slow
def test_networks_in_half_precision(source, precision, target):
    found = compiled(source(), precision, target)
    assert found.verification is not None
    assert found.verification.passed
    dtypes = {tensor.dtype for one in found.converted for tensor in one.network.tensors}
    assert HALVES[precision] in dtypes


@pytest.mark.slow  # quick: tests/lower/test_precision_rules.py
def test_a_target_without_bfloat16_leaves_it_to_pytorch():
    found = compiled(conv_net(), Precision.BF16, "8.6")
    assert found.verification is not None
    assert found.verification.passed
    assert {limit.code for limit in found.plan.types.limits.values()} == {"no-counterpart"}
    ran = {node for one in found.converted for node in one.segment.ops}
    assert not ran & set(found.plan.types.limits)


@pytest.mark.slow  # quick: the list reaches the lowered program, in tests/lower/test_precision_rules.py
def test_the_users_list_reaches_the_engines():
    found = compiled(conv_net(), Precision.FP16, "11.4", keep_fp32=("head", "no.such"))
    facts = found.plan.lowered.precision
    assert facts is not None
    assert facts.unmatched == ("no.such",)
    assert "keep_fp32 names head" in {each.why for each in facts.stays}
    graph = found.plan.lowered.graph_module.graph
    (head,) = graph.find_nodes(op="call_function", target=torch.ops.aten.linear.default)
    assert found.plan.types.engine[head.name] == (torch.float32,)
