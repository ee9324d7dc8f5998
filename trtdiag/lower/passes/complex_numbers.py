"""Writes complex numbers as pairs of real tensors, and Fourier transforms of fixed lengths as products."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.fx import Node

from trtdiag.frontend.node_origins import origin_of
from trtdiag.graph.aliases import written_nodes
from trtdiag.graph.operators import OF_SIZES, named_arguments, operator_of, schema_name, target_name
from trtdiag.lower.complex.pair import Call, Pair
from trtdiag.lower.complex.rewriting import ComplexValues, is_complex
from trtdiag.lower.complex.rules import rule_of
from trtdiag.lower.complex.transforms import FOURIER, Transform, transform_of
from trtdiag.lower.draft import Draft, insert_steps
from trtdiag.lower.local_trace import Tracer, alike
from trtdiag.lower.lowered_facts import TRANSFORM, FourierProducts
from trtdiag.lower.precision.own_reasons import KEEPS_FLOAT32
from trtdiag.lower.template import Ref, UntraceableError, filled, frozen, replaced
from trtdiag.lower.tracing_conditions import asking
from trtdiag.symbolic import BoundsCache, Expr, ExpressionError, from_sympy, mul, number

_CASTS = frozenset({"aten::_to_copy", "aten::to", "aten::type_as"})
_SPECTRUM = "a sum of a Fourier transform, whose small frequencies are lost among the large ones in fewer digits"


def write_complex_as_pairs(draft: Draft) -> int:
    """Replace each complex op that can be; what cannot stays complex, with a limit, and the ops around it do not.

    Between both stand views: of a complex tensor as a real one with a last dim of 2, and back.
    """
    if not any(is_complex(node.meta.get("val")) for node in draft.graph.nodes):
        return 0
    work = _Rewriting(draft)
    for node in list(draft.graph.nodes):
        work.visit(node)
    for node in reversed(work.values.pairs):
        draft.graph.erase_node(node)
    draft.traced += work.tracer.traced
    return work.count


class _Rewriting:
    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.values = ComplexValues(draft)
        self.tracer = Tracer(draft.mode, draft.keep, draft.proofs)
        self.count = 0
        self._locked = written_nodes(draft.graph)
        self._bounds = BoundsCache(draft.program.ranges)

    def visit(self, node: Node) -> None:
        """Replace one node, or give it complex tensors where it stays."""
        sources, pairs = node.all_input_nodes, self.values.pairs
        if node.op == "placeholder" or not any(is_complex(each.meta.get("val")) for each in (node, *sources)):
            return
        if node.target is operator.getitem and isinstance(pairs.get(sources[0]), list):
            pairs[node] = pairs[sources[0]][node.args[1]]  # an integer
            return
        op = operator_of(node)
        if op is not None and schema_name(op) in OF_SIZES:
            for source in sources:
                if source in pairs:
                    node.replace_input_with(source, pairs[source].real)
            return
        if op is not None:
            try:
                self._replace(node, op)
            except UntraceableError as why:
                self.draft.limit(node, str(why))
            else:
                self.count += 1
                return
        for source in sources:
            if source in pairs:
                node.replace_input_with(source, self.values.whole(source, node))

    def _replace(self, node: Node, op: OpOverload) -> None:
        rule = rule_of(op)
        if rule is None:
            raise UntraceableError("it takes or gives complex numbers, and is not among the ops written with real ones")
        self._check(node, op)
        given = _Given(self.values, node)
        named = given.form(named_arguments(node, op))
        val = _first(node.meta["val"])
        dtype = val.dtype.to_real() if val.is_complex() else val.dtype
        transform, wanted = None, []
        if schema_name(op) in FOURIER:
            source = node.args[0]
            assert isinstance(source, Node)
            form = _vals(named_arguments(node, op))
            transform = transform_of(schema_name(op), form, source.meta["val"], self._greatest)
            wanted = [each for along in transform.dims for each in along.tables()]
        tables = [given.pair(self.values.tables(each, dtype, val.device)) for each in wanted]
        call = Call(op, val.is_complex(), dtype, val.device)

        def body(*values: Any) -> Any:
            mine = replace(call, tables=_filled(tables, values))
            return _flat(rule(mine, **_filled(named, values)))

        key = op, call.complex, dtype, val.device, frozen(named), frozen(tables)
        template = self.tracer.of_function(key, body, [each.meta["val"] for each in given.nodes])
        values = [each.meta["val"] for each in given.nodes] + [step.val for step in template.steps]
        if not alike(filled(template.result, values), _flat(self._parts(node.meta["val"]))):
            raise UntraceableError("its real form has another dtype or other sizes than the program recorded")
        made = insert_steps(self.draft.graph, node, template, given.nodes)
        for each in made[len(given.nodes) :] if transform is not None else ():
            each.meta |= {KEEPS_FLOAT32: _SPECTRUM, TRANSFORM: node.name}
        if transform is not None:
            self._note(node, op, transform, given.nodes[0].meta["val"])
        self._enter(node, template.result, made)

    def _greatest(self, size: torch.SymInt) -> int | None:
        try:
            return self._bounds.of(_expr(size)).range.max
        except ExpressionError:
            return None

    def _check(self, node: Node, op: OpOverload) -> None:
        """Whether a node may be replaced, whatever it computes."""
        if not self._locked.isdisjoint((node, *node.all_input_nodes)):
            raise UntraceableError("it shares memory with what another op changes in place")
        entry = self.draft.in_torch.naming(target_name(op), origin_of(node).module_path)
        if entry is not None:
            raise UntraceableError(f"keep_in_torch names {entry}")
        values = [_first(each.meta.get("val")) for each in (node, *node.all_input_nodes)]
        double = any(isinstance(value, Tensor) and value.dtype == torch.complex128 for value in values)
        if double and not self.draft.truncate_double and schema_name(op) not in _CASTS:
            raise UntraceableError("it computes in complex128, and truncate_double is off")

    def _parts(self, val: Any) -> Any:
        """A recorded value as its real form has to be."""
        if isinstance(val, (list, tuple)):
            return [self._parts(each) for each in val]
        if not is_complex(val):
            return val
        with torch.no_grad(), self.draft.mode, asking(self.draft.mode.shape_env):
            return Pair(*(torch.empty_strided(val.shape, val.stride(), dtype=val.dtype.to_real()) for _ in range(2)))

    def _enter(self, node: Node, result: Any, made: list[Any]) -> None:
        """Give what read a node what it has become."""
        if is_complex(node.meta["val"]):
            several = isinstance(node.meta["val"], (list, tuple))
            parts = filled(result, made)
            self.values.pairs[node] = [Pair(*each) for each in parts] if several else Pair(*parts)
            return
        new, name = made[result.index], node.name
        if result.index == len(made) - 1 and new.op != "placeholder":
            new.meta["val"] = node.meta["val"]  # with the program's own spelling of the sizes
        node.replace_all_uses_with(new)
        fresh = new not in node.all_input_nodes
        self.draft.graph.erase_node(node)
        if fresh and new.op == "call_function" and new.name.startswith(f"{name}__"):
            new.name = name

    def _note(self, node: Node, op: OpOverload, transform: Transform, val: Tensor) -> None:
        along = {each.dim for each in transform.dims}
        try:
            sizes = [_expr(size) for dim, size in enumerate(val.shape) if dim not in along]
        except ExpressionError:
            times = None
        else:
            times = mul(1, *sizes)
        self.draft.transforms.append(
            FourierProducts(
                *(node.name, target_name(op), origin_of(node)),
                *(transform.points, all(each.is_fixed for each in transform.dims), times),
                *transform.costs(),
            )
        )


class _Given:
    """The inputs of a call: each complex one is two, and the matrices that it needs stand behind them."""

    def __init__(self, values: ComplexValues, node: Node) -> None:
        self.nodes: list[Node] = []
        self._values, self._node = values, node

    def form(self, named: dict[str, Any]) -> dict[str, Any]:
        """The arguments with ``Ref`` and pairs of them in the place of nodes."""
        made: dict[str, Any] = replaced(named, self._enter, Node)
        return made

    def pair(self, parts: Pair) -> Pair:
        """Enter two nodes."""
        self.nodes += [parts.real, parts.imag]
        return Pair(Ref(len(self.nodes) - 2), Ref(len(self.nodes) - 1))

    def _enter(self, source: Node) -> Any:
        val = source.meta.get("val")
        if isinstance(val, (list, tuple)):
            raise UntraceableError("it takes a list of tensors as one value")
        if is_complex(val):
            return self.pair(self._values.pair(source, self._node))
        self.nodes.append(source)
        return Ref(len(self.nodes) - 1)


def _filled(form: Any, values: Sequence[Any]) -> Any:
    pairs = replaced(form, lambda pair: Pair(values[pair.real.index], values[pair.imag.index]), Pair)
    return replaced(pairs, lambda ref: values[ref.index], Ref)


def _flat(value: Any) -> Any:
    """Pairs as tuples, which a traced graph can return."""
    if isinstance(value, Pair):
        return value.real, value.imag
    return tuple(map(_flat, value)) if isinstance(value, (list, tuple)) else value


def _vals(named: dict[str, Any]) -> dict[str, Any]:
    """Arguments with the values of nodes in their place."""
    made: dict[str, Any] = replaced(named, lambda source: source.meta["val"], Node)
    return made


def _first(val: Any) -> Any:
    return val[0] if isinstance(val, (list, tuple)) and val else val


def _expr(size: int | torch.SymInt) -> Expr:
    return from_sympy(size.node.expr) if isinstance(size, torch.SymInt) else number(size)  # type: ignore[return-value]  # an integer
