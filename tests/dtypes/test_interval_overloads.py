"""Every overload of every op that has an interval rule: the rule finds its arguments and answers with spans."""

from __future__ import annotations

import torch

from trtdiag.dtypes.call import Call, MissingArgumentError, Scope
from trtdiag.dtypes.interval_ops import RULES
from trtdiag.dtypes.value_span import Span
from trtdiag.graph.operators import short_name
from trtdiag.shapes.facts import ShapeFacts

# TorchScript's own copies; answered with "no range rule".
WITHOUT_RULE = {"aten.copy_.Tensor", "aten.copy_.float", "aten.copy_.int", "aten.copy.Dict_Tensor"}


def _overloads():
    """Overloads that return tensors, without those on named dims, which torch.export never keeps."""
    for rule in sorted(RULES):
        for name in (rule, f"{rule}_"):
            packet = getattr(torch.ops.aten, name, None)
            for overload in packet.overloads() if packet is not None else ():
                op = getattr(packet, overload)
                returns_tensors = any("Tensor" in str(value.type) for value in op._schema.returns)
                if returns_tensors and "Dimname" not in str(op._schema):
                    yield op


def _argument(graph, argument):
    kind = str(argument.type)
    if argument.has_default_value() or kind.startswith("Optional"):
        return None
    tensor = graph.placeholder("t")
    tensor.meta["val"] = torch.zeros(3, 4, dtype=torch.int64)
    if kind.startswith("List"):
        return [tensor, tensor] if "Tensor" in kind else [0]
    plain = {"Tensor": tensor, "number": 1, "int": 1, "SymInt": 1, "bool": False, "float": 1.0, "str": "sum"}
    return plain.get(kind)


def _answer(op):
    graph = torch.fx.Graph()
    positional = [argument for argument in op._schema.arguments if not argument.kwarg_only]
    node = graph.call_function(op, tuple(_argument(graph, argument) for argument in positional))
    node.kwargs = {a.name: _argument(graph, a) for a in op._schema.arguments if a.kwarg_only}
    node.meta["val"] = torch.zeros(3, 4, dtype=torch.int64)
    return RULES[short_name(op)](Call(node, op, Scope(ShapeFacts({}, {}), {}, "")))


def test_every_overload_is_answered_with_spans_and_reasons():
    ops = list(_overloads())
    unanswered, without_reason = set(), []
    for op in ops:
        try:
            result = _answer(op)
        except MissingArgumentError:
            unanswered.add(str(op))
            continue
        spans = result if isinstance(result, tuple) else (result,)
        if not spans or not all(isinstance(span, Span) and span.why for span in spans):
            without_reason.append(str(op))
    assert len(ops) > 300
    assert without_reason == []
    assert unanswered == WITHOUT_RULE
