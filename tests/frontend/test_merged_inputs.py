"""One tensor for several inputs: torch.export reads one of them alone, and what trtdiag exports reads all."""

from __future__ import annotations

import io

import torch
from torch import Tensor, nn
from torch.export import Dim, export

import trtdiag
from trtdiag.frontend.capture import capture
from trtdiag.frontend.merged_inputs import given_apart, merged_inputs


class Attention(nn.Module):
    def forward(self, query: Tensor, others: dict[str, Tensor]) -> Tensor:
        return nn.functional.scaled_dot_product_attention(query, others["key"], others["value"])


X = torch.randn(2, 5, 8)
GIVEN = X, {"key": X, "value": X}
BATCH = {0: Dim("batch", min=1, max=7)}
DIMS = (BATCH, {"key": BATCH, "value": BATCH})


def test_torch_reads_one_of_them_alone() -> None:
    program = export(Attention(), GIVEN, dynamic_shapes=DIMS)
    named = (("query", "others['value']"), ("others['key']", "others['value']"))
    assert merged_inputs(capture(program)) == named
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    buffer.seek(0)
    assert merged_inputs(capture(torch.export.load(buffer))) == named


class Merged(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return (x - y).reshape(x.shape[0] * x.shape[1], -1)


def test_sizes_alone_are_no_reading() -> None:
    """torch takes the sizes of a symbol of the first input that has it."""
    program = export(Merged(), (X, X), dynamic_shapes=({0: BATCH[0]}, {0: BATCH[0]}))
    assert any("sym_size" in str(node.target) for node in program.graph.nodes)
    assert merged_inputs(capture(program)) == (("x", "y"),)


def test_what_is_exported_here_reads_all() -> None:
    program = capture((Attention(), GIVEN, {}, DIMS))
    assert merged_inputs(program) == ()
    fix = trtdiag.fix_dims(Attention(), GIVEN, dynamic_shapes=DIMS)
    assert fix.proven
    compiled = trtdiag.compile((Attention(), GIVEN, {}, DIMS), backend="reference")
    for size in (1, 5, 7):
        query, key, value = torch.randn(3, size, 5, 8)
        expected = Attention()(query, {"key": key, "value": value})
        # Attention of another kernel than the engine's formula.
        assert torch.allclose(compiled(query, {"key": key, "value": value}), expected, atol=1e-6)


def test_tensors_that_differ_stay_as_they_are() -> None:
    y = X.clone()
    args = (X, {"key": y, "value": X[0]}, 3, None)
    assert given_apart(args=args, kwargs={}) == {"args": args, "kwargs": {}}
    assert given_apart(args=args, kwargs={})["args"] is args
    weight = torch.randn(3, requires_grad=True)
    (one, other), named = given_apart(args=(weight, weight), kwargs={"a": [weight]}).values()
    assert one is weight
    assert other is not weight
    assert named["a"][0] is not other
    assert other.requires_grad
    assert other.data_ptr() == weight.data_ptr()
