"""What a program's dtypes are to a target."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim

from tests.harness.staged import staged
from trtdiag.analysis.unsupported_dtypes import by_origin
from trtdiag.dtypes.census import dtype_facts
from trtdiag.dtypes.facts import Fit, Role
from trtdiag.targets import get_target


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.table = nn.Embedding(30, 4)
        self.register_buffer("never", torch.tensor([0, 2**40]))
        self.register_buffer("scale", torch.ones(4, dtype=torch.float64))

    def forward(self, x, ids, raw):
        wide = x.double() * self.scale
        spectrum = torch.fft.rfft(wide)
        positions = torch.arange(ids.shape[0])
        rows = self.norm(self.table(ids))
        return rows, wide + 1, spectrum.abs(), positions, self.never * 1, raw * 2, torch.topk(x, 2)


def _facts(version):
    dims = {"x": {0: Dim("n", min=2, max=8)}, "ids": {0: Dim("m", min=2, max=9)}, "raw": None}
    args = (torch.randn(3, 4), torch.tensor([1, 2, 3, 4, 5]), torch.tensor([7]))
    program = staged(Mixed(), args, dims)
    return program, dtype_facts(program.program, program.checked, program.shapes, get_target(version))


def test_every_int64_tensor_has_its_fit_role_and_reason():
    _, facts = _facts("8.6")
    wide = {tensor.node: tensor for tensor in facts.int64}
    assert not facts.native_int64
    assert wide["ids"].role is Role.INPUT
    assert wide["ids"].fit is Fit.FITS
    assert wide["raw"].fit is Fit.UNKNOWN
    assert wide["raw"].why == "user input, any int64"
    assert wide["b_never"].role is Role.CONSTANT
    assert wide["b_never"].fit is Fit.OVERFLOWS
    assert wide["arange"].role is Role.OUTPUT
    assert (wide["arange"].values.min, wide["arange"].values.max) == (0, 8)
    assert wide["arange"].frame is not None
    assert "torch.arange" in wide["arange"].frame.code


def test_weights_and_constants_have_the_names_of_the_model():
    class Turning(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Module()
            self.body.register_buffer("scale", torch.ones(4, dtype=torch.float64))
            self.inv_freq = 1 / torch.arange(1, 5, dtype=torch.float64)

        def forward(self, x):
            return x * self.body.scale * self.inv_freq

    program = staged(Turning(), (torch.randn(3, 4),), None)
    facts = dtype_facts(program.program, program.checked, program.shapes, get_target("8.6"))
    told = {origin.spoken.partition(" is ")[0] for origin in by_origin(facts.float64)}
    assert {"constant body.scale", "constant inv_freq"} <= told


def test_what_no_op_reads_is_not_counted():
    program, facts = _facts("8.6")
    names = {node.name for node in program.checked.graph_module.graph.nodes}
    assert "b_norm_num_batches_tracked" in names
    assert "b_norm_num_batches_tracked" not in {tensor.node for tensor in facts.int64}


def test_overflow_follows_a_constant_through_exact_arithmetic():
    _, facts = _facts("8.6")
    (product,) = [tensor for tensor in facts.int64 if tensor.values.max == 2**40 and tensor.role is not Role.CONSTANT]
    assert product.fit is Fit.OVERFLOWS


def test_the_newest_target_has_int64_and_neither_has_doubles_or_complex():
    _, old = _facts("8.6")
    _, new = _facts("11.4")
    assert new.native_int64
    assert [tensor.node for tensor in new.int64] == [tensor.node for tensor in old.int64]
    for facts in (old, new):
        assert {tensor.dtype for tensor in facts.unsupported} == {"complex128"}
        assert {tensor.dtype for tensor in facts.float64} == {"float64"}


def test_the_op_that_brings_a_dtype_in_is_told_from_those_that_pass_it_on():
    _, facts = _facts("11.4")
    roots = {tensor.op for tensor in facts.float64 if tensor.root}
    assert roots == {"placeholder", "aten.to.dtype"}  # not abs, whose complex input is double already
    (spectrum,) = facts.unsupported
    assert spectrum.root
    assert spectrum.op == "aten.fft_rfft.default"


def test_counts_are_of_every_tensor_most_frequent_first():
    program, facts = _facts("11.4")
    counts = dict(facts.counts)
    assert list(counts.values()) == sorted(counts.values(), reverse=True)
    tensors = [
        node.meta["val"].dtype
        for node in program.checked.graph_module.graph.nodes
        if isinstance(node.meta.get("val"), torch.Tensor) and (node.users or node.op != "placeholder")
    ]
    assert sum(counts.values()) == len(tensors)
    assert counts["float64"] == tensors.count(torch.float64)


def test_half_precision_by_version():
    class Cast(nn.Module):
        def forward(self, x):
            return x.to(torch.bfloat16), x.to(torch.float16), x.to(torch.int16)

    program = staged(Cast(), (torch.randn(3),))
    by_version = {}
    for version in ("8.6", "10.16", "11.4"):
        facts = dtype_facts(program.program, program.checked, program.shapes, get_target(version))
        by_version[version] = {tensor.dtype for tensor in facts.unsupported}
    assert by_version == {"8.6": {"bfloat16", "int16"}, "10.16": {"int16"}, "11.4": {"int16"}}


def test_nested_graphs_are_part_of_the_census():
    class Branch(nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda t: t.double().sum().float(), lambda t: t.sum(), (x,))

    program = staged(Branch(), (torch.randn(3),))
    facts = dtype_facts(program.program, program.checked, program.shapes, get_target("11.4"))
    assert facts.float64
    assert all("." in tensor.node and tensor.role is Role.INNER for tensor in facts.float64)
