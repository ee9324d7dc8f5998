"""The other rules on facts written by hand: every severity, both sides of every limit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.fx import Graph, GraphModule

from tests.harness import facts
from trtdiag.analysis.fallbacks import PartitionFacts
from trtdiag.analysis.finding import Finding, Severity
from trtdiag.analysis.rules.sym.memory_at_maximum import NOTICE_BYTES, WARN_BYTES
from trtdiag.analysis.run import run
from trtdiag.dtypes.facts import DtypeFacts, Fit, OddTensor, Role, WideTensor
from trtdiag.frontend.program import OpOrigin, Program, Versions
from trtdiag.graph.source import Stack
from trtdiag.lower.facts import Checked, Defect
from trtdiag.shapes.facts import MemoryEstimate, ShapeFacts, SymbolTable
from trtdiag.symbolic.ranges import Range
from trtdiag.targets.releases import TENSORRT_8_6, TENSORRT_11_4
from trtdiag.targets.target import Target


def found(*given: Any) -> list[Finding]:
    return list(run({Program: facts.program(), **{type(fact): fact for fact in given}}).findings)


def chain() -> GraphModule:
    """A convolution between two elementwise ops."""
    graph = Graph()
    x = graph.placeholder("x")
    weight = graph.placeholder("weight")
    relu = graph.call_function(torch.ops.aten.relu.default, (x,))
    conv = graph.call_function(torch.ops.aten.conv2d.default, (relu, weight))
    graph.output(graph.call_function(torch.ops.aten.neg.default, (conv,)))
    return GraphModule(torch.nn.Module(), graph)


def test_missing_metadata_is_a_warning_where_repaired_and_an_error_where_not() -> None:
    lost = facts.defect("nonzero", repaired=False, recomputed="", cause="its size depends on data")
    error, warning = found(facts.checked(facts.defect("relu"), facts.defect("relu_1"), lost))
    assert warning.message.startswith("2 nodes have no recorded value, first relu (aten.relu.default); recomputed as")
    assert error.severity is Severity.ERROR
    assert error.message == (
        "node nonzero (aten.relu.default) has no recorded value and cannot be recomputed: its size depends on data"
    )


def test_stale_nodes_are_grouped_under_the_first_wrong_one() -> None:
    wrong = {"defect": Defect.STALE, "recorded": "float32[4]", "recomputed": "float16[4]"}
    defects = (
        facts.defect("relu", **wrong),
        facts.defect("conv2d_default", root=False, **wrong),
        facts.defect("neg_default", root=False, **wrong),
    )
    module = chain()
    names = [node.name for node in module.graph.nodes if node.op == "call_function"]
    renamed = tuple(replace(d, node=name) for d, name in zip(defects, names, strict=True))
    (finding,) = (f for f in found(facts.checked(*renamed, graph_module=module)) if f.rule == "MET102")
    assert [place.node for place in finding.places] == names
    assert finding.message.startswith(f"node {names[0]} (aten.relu.default) is recorded as float32[4]")
    assert finding.severity is Severity.WARNING


def test_two_independent_stale_nodes_are_two_findings() -> None:
    wrong = {"defect": Defect.STALE, "recorded": "a", "recomputed": "b"}
    assert len(found(facts.checked(facts.defect("p", **wrong), facts.defect("q", **wrong)))) == 2


def test_an_unrepairable_stale_node_is_an_error() -> None:
    stale = facts.defect("p", defect=Defect.STALE, recorded="a", recomputed="", repaired=False, cause="no kernel")
    (finding,) = found(facts.checked(stale))
    assert finding.severity is Severity.ERROR
    assert "cannot be recomputed: no kernel" in finding.message


def test_missing_stacks_and_stacks_inside_torch_are_told_apart() -> None:
    module = chain()
    relu, conv, neg = (node.name for node in module.graph.nodes if node.op == "call_function")
    inside = Stack((facts.frame(9, file="/x/site-packages/torch/nn/modules/conv.py"),))
    library = Stack((facts.frame(9, file="/x/site-packages/timm/models/vit.py"),))
    origins = {conv: OpOrigin("0", "Conv2d", inside), neg: OpOrigin("", "", library)}
    given = {Program: facts.program(origins=origins), Checked: facts.checked(graph_module=module)}
    findings = run(given, select=["MET103"]).findings
    assert [(f.evidence[0].fact, [p.node for p in f.places]) for f in findings] == [
        ("no stack was recorded", [relu]),
        ("every line of their stacks lies inside torch", [conv]),
    ]
    assert findings[0].message == f"1 of 3 ops carry no source line outside torch, first {relu}"


@pytest.mark.parametrize(
    ("changes", "rule_id"),
    [
        ({"range": Range(2, None)}, "SYM201"),
        ({"range": Range(None, None)}, "SYM201"),
        ({"range": Range(2, 64)}, None),
        ({"range": Range(1, 1)}, None),
        ({"range": None}, "SYM203"),
        ({"range": None, "backed": False}, "SYM203"),
        ({"range": Range(0, None), "backed": False}, "SYM204"),
        ({"range": Range(0, 512), "backed": False}, None),
    ],
)
def test_each_symbol_has_at_most_one_finding(changes: dict[str, Any], rule_id: str | None) -> None:
    rules = [f.rule for f in found(SymbolTable((facts.symbol("h", **changes),)))]
    assert rules == ([rule_id] if rule_id else [])


def test_an_unbounded_dim_gets_code_that_is_a_name_even_for_a_site() -> None:
    (finding,) = found(SymbolTable((facts.symbol("kwargs['mask'].shape[1]", range=Range(0, None)),)))
    assert finding.fix is not None
    name = "kwargs_mask_dim1"
    assert f'{name} = Dim("{name}", min=1, max=LARGEST_{name.upper()})' in finding.fix.code
    compile(finding.fix.code, "fix", "exec")


LIMIT = TENSORRT_8_6.max_volume


def volume(target: Target, node: str, elements: int, exact: bool = True) -> list[bool]:
    """Of each finding whether it says that the ops stay in PyTorch."""
    shapes = ShapeFacts({node: (facts.tensor_sizes(node, elements, exact=exact),)}, {})
    findings = found(facts.checked(graph_module=chain()), shapes, target)
    return ["stay in PyTorch" in f.message for f in findings if f.rule == "SYM205"]


def test_the_volume_limit_is_met_exactly() -> None:
    assert volume(TENSORRT_8_6, "relu", LIMIT) == []
    assert volume(TENSORRT_8_6, "relu", LIMIT + 1) == [True]


def test_a_loose_volume_leaves_nothing_to_pytorch() -> None:
    assert volume(TENSORRT_8_6, "relu", LIMIT + 1, exact=False) == [False]


def test_newer_targets_refuse_large_volumes_at_convolutions_only() -> None:
    names = [node.name for node in chain().graph.nodes]
    relu, conv, neg = names[2:5]
    assert volume(TENSORRT_11_4, relu, LIMIT + 1) == [True]  # read by the convolution
    assert volume(TENSORRT_11_4, conv, LIMIT + 1) == [True]
    assert volume(TENSORRT_11_4, neg, LIMIT + 1) == [False]


@pytest.mark.parametrize(
    ("total", "severity"),
    [
        (NOTICE_BYTES, None),
        (NOTICE_BYTES + 1, Severity.INFO),
        (WARN_BYTES, Severity.INFO),
        (WARN_BYTES + 1, Severity.WARNING),
    ],
)
def test_memory_on_both_sides_of_its_limits(total: int, severity: Severity | None) -> None:
    estimate = facts.memory(weight_bytes=1000, live_bytes=total - 1000, live_at="mm", largest=(("mm", 7), ("add", 5)))
    assert [f.severity for f in found(estimate)] == ([severity] if severity else [])


def test_memory_without_a_maximum_is_left_to_the_unbounded_symbol() -> None:
    assert found(facts.memory(weight_bytes=WARN_BYTES * 2, live_bytes=None)) == []


def wide(node: str, fit: Fit, values: Range, why: str) -> WideTensor:
    return WideTensor(node, Role.INNER, values, fit, why, None)


def test_int64_has_one_finding_per_verdict_and_none_on_a_target_that_has_it() -> None:
    tensors = (
        wide("arange", Fit.FITS, Range(0, 255), "arange(0, seq) with seq <= 256"),
        wide("arange_1", Fit.FITS, Range(0, 255), "arange(0, seq) with seq <= 256"),
        wide("ids", Fit.UNKNOWN, Range(), "user input, any int64"),
        wide("key", Fit.OVERFLOWS, Range(2**40, 2**40), "values read: 1099511627776"),
    )
    findings = found(facts.dtypes(int64=tensors))
    assert [(f.rule, f.severity, len(f.places)) for f in findings] == [
        ("TYP401", Severity.ERROR, 1),
        ("TYP401", Severity.WARNING, 1),
        ("TYP401", Severity.INFO, 2),
    ]
    assert "every value is shown to fit" in findings[2].message
    assert findings[2].fix is None
    assert found(facts.dtypes(int64=tensors, native_int64=True, target="10.16")) == []


def odd(node: str, dtype: str, root: bool, line: int, role: Role = Role.INNER) -> OddTensor:
    return OddTensor(node, role, dtype, "aten.full.default", root, facts.frame(line))


def test_float64_is_one_finding_per_line_that_brings_it_in() -> None:
    tensors = (
        odd("full", "float64", True, 7),
        odd("mul", "float64", False, 8),
        odd("full_1", "float64", True, 7),
        odd("mul_1", "float64", False, 8),
        odd("other", "float64", True, 20),
    )
    messages = [f.message for f in found(facts.dtypes(float64=tensors))]
    assert messages == [
        "full (aten.full.default) at /home/me/model.py:7 makes float64, with 3 tensors after it;"
        " TensorRT has no float64",
        "other (aten.full.default) at /home/me/model.py:20 makes float64; TensorRT has no float64",
    ]


def test_an_input_or_constant_of_an_odd_dtype_is_called_so() -> None:
    system = facts.dtypes(unsupported=(odd("spectrum", "complex64", True, 1, Role.INPUT),))
    (finding,) = found(system, TENSORRT_8_6)
    assert finding.message == "input spectrum is complex64; TensorRT 8.6 has no counterpart"
    assert finding.severity is Severity.WARNING
    assert finding.fix is not None
    assert "real and imaginary" in finding.fix.title


@pytest.mark.parametrize(
    ("exporter", "schema", "severity"),
    [
        ("2.13.0", "8.20", None),
        ("2.13.1+cpu", "8.20", None),
        (None, None, None),
        ("2.12.0", "8.19", Severity.INFO),
        ("2.8.0", "8.8", Severity.WARNING),
        ("2.14.0a0", "8.20", Severity.WARNING),
        ("2.13.0", "8.21", Severity.WARNING),
        ("not a version", "8.20", None),
    ],
)
def test_other_torch_versions(exporter: str | None, schema: str | None, severity: Severity | None) -> None:
    program = facts.program(versions=Versions("2.13.0+cpu", exporter, schema, "8.20"))
    assert [f.severity for f in run({Program: program}).findings] == ([severity] if severity else [])


def test_every_rule_is_silent_on_empty_facts() -> None:
    given = {
        Program: facts.program(),
        Checked: facts.checked(),
        SymbolTable: SymbolTable(()),
        ShapeFacts: ShapeFacts({}, {}),
        MemoryEstimate: facts.memory(),
        type(facts.dims()): facts.dims(),
        DtypeFacts: facts.dtypes(),
        PartitionFacts: facts.one_engine(),
        Target: TENSORRT_8_6,
    }
    outcome = run(given)
    assert outcome.findings == ()
    assert outcome.not_run == ()
