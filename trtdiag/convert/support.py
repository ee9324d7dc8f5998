"""Which ops can be in an engine: each distinct call is converted on trial, so the answer is the converter's own."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import Node
from torch.fx.node import map_arg

from trtdiag.convert.facts import ConversionContext, Support
from trtdiag.convert.interpret import Interpreter, reads_in_order
from trtdiag.convert.limits import random_limit, too_large
from trtdiag.convert.refusal import Refused
from trtdiag.convert.registry import Converter, converter_of
from trtdiag.convert.writer import Writer
from trtdiag.errors import InternalError
from trtdiag.frontend.user_code import said
from trtdiag.graph.limit import FROM_DATA, Limit
from trtdiag.graph.node_kinds import NodeKind, classify
from trtdiag.graph.operators import OpOverload, named_arguments, operator_of, short_name, target_name
from trtdiag.graph.quantizers import QUANTIZED_DTYPES
from trtdiag.graph.recurrent import why_not_unrolled
from trtdiag.graph.values import NumberValue, TensorValue
from trtdiag.network import DType, NetworkBuilder, ShapeConstraints, Value
from trtdiag.shapes.symbols import is_backed
from trtdiag.symbolic import BoundsCache, Expr, free_symbols, is_condition


def support(source: ConversionContext, planned_limits: Mapping[str, Limit]) -> Support:
    """Ask the converter of every op whether it takes the op as it is.

    Args:
        source: The lowered graph, its planned types, and the target.
        planned_limits: Ops that the type plan leaves to PyTorch already, by node.

    Cost: one small trial for each distinct call: op, planned types, sizes, constants that are integers.
    """
    asked = _Trials(source)
    limits: dict[str, Limit] = {}
    for node in source.graph_module.graph.nodes:
        if node.op == "call_function" and classify(node) in (NodeKind.OP, NodeKind.NO_OP):
            limit = planned_limits.get(node.name) or asked.limit(node)
            if limit is not None:
                limits[node.name] = limit
    return Support(limits)


def _no_greatest(symbol: str) -> Limit:
    return Limit(
        "unbounded-size",
        f"it has a size that follows from {symbol}, which the data decides, and which has no greatest value",
        f"say one: --assume '{symbol}<=LARGEST', or torch._check({symbol} <= LARGEST) in the model",
        about=symbol,
    )


_PACKED = ("_weight_int4pack_mm", "_dyn_quant_matmul_4bit", "bf16i4bf16", "f8i4bf16")
"""Products of torch and of mslk with weights of 4 bits, in the order that a kernel reads them in."""
_UNPACKED = (
    "quantize with torchao's IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32)), whose weights of "
    "4 bits engines hold as they are"
)


class _Trials:
    def __init__(self, source: ConversionContext) -> None:
        self._source = source
        self._answers: dict[Hashable, Limit | None] = {}
        ranges = source.ranges
        self._endless = {name for name, own in ranges.items() if own.max is None and not is_backed(name)}
        self._bounds = BoundsCache(ranges)
        self._facts = ShapeConstraints(ranges, source.given)

    def limit(self, node: Node) -> Limit | None:
        op = operator_of(node)
        if op is None:
            return Limit("no-operator", f"{target_name(node.target)} is no operator")
        random = random_limit(node)
        if random is not None:
            return random
        if converter_of(op) is None:
            if node.meta.get("unbacked_bindings") or torch.Tag.dynamic_output_shape in op.tags:
                return FROM_DATA
            steps = why_not_unrolled(node, op)
            if steps:
                return Limit("time-steps", steps, "give it a sequence that is not packed")
            if short_name(op).startswith(_PACKED):
                return Limit("no-converter", f"{target_name(op)} reads weights packed for its own kernel", _UNPACKED)
            return Limit("no-converter", f"{target_name(op)} has no converter for TensorRT")
        unbounded = self._unbounded(node)
        if unbounded is not None:
            return unbounded
        key = self._key(node, op)
        if key not in self._answers:
            self._answers[key] = self._trial(node)
        return self._answers[key]

    def _unbounded(self, node: Node) -> Limit | None:
        """An engine is built for sizes up to a greatest one; of a size from data the op that bears it may have none."""
        for source in (node, *node.all_input_nodes) if self._endless else ():
            for value in self._source.reader.read(source):
                exprs: Sequence[Any] = value.dims if isinstance(value, TensorValue) else ()
                if isinstance(value, NumberValue) and value.expr is not None:
                    exprs = (value.expr,)
                for expr in exprs:
                    endless = free_symbols(expr) & self._endless
                    if endless and not is_condition(expr) and self._bounds.of(expr).range.max is None:
                        return _no_greatest(min(endless))
        return None

    def _trial(self, node: Node) -> Limit | None:
        source, converter = self._source, converter_of(node.target)
        builder = NetworkBuilder(facts=self._facts.for_another())
        asked: dict[Expr, Value] = {}

        def ask(expr: Expr) -> Value:
            if expr not in asked:
                asked[expr] = builder.input(f"size {len(asked)}", write.index, (), [expr])
            return asked[expr]

        write = Writer(builder, source.target, ask)
        interpreter = Interpreter(write, source)
        try:
            for argument in node.all_input_nodes:
                self._enter(interpreter, argument)
            interpreter.op(node)
            read = [one for argument in node.all_input_nodes for one in _values(interpreter.known.get(argument))]
            return too_large(write, read, _values(interpreter.known[node]), self._bounds)
        except Refused as refused:
            return refused.limit
        except InternalError as error:
            return _wrong(converter, f"wrote a wrong network: {error.because}")
        except Exception as error:
            if converter is None or converter.built_in:
                raise
            return _wrong(converter, f"raised {said(error)}")

    def _enter(self, interpreter: Interpreter, node: Node) -> None:
        """What the op reads, as inputs of the trial; integers of the program as constants, for their values."""
        held = self._source.held.get(node)
        if held is not None and (not held.is_floating_point() or held.dtype in QUANTIZED_DTYPES):
            interpreter.constant(node)
            return
        values = self._source.reader.read(node)
        planned = self._source.planned.get(node.name, ())
        made: list[Value | None] = []
        for index, value in enumerate(values):
            if not isinstance(value, TensorValue):
                made.append(None)
                continue
            dtype = DType.of(planned[index]) if index < len(planned) else None
            if dtype is None:
                raise Refused(Limit("no-counterpart", f"{node.name} is {value.dtype}, which no engine tensor can be"))
            item = interpreter.write.builder.input(f"{node.name} {index}", dtype, value.dims)
            interpreter.write.sizes.note(item)
            made.append(item)
        if isinstance(node.meta.get("val"), torch.Tensor):
            interpreter.known[node] = made[0]
        elif any(item is not None for item in made):
            interpreter.known[node] = made
        else:
            interpreter.number(node)

    def _key(self, node: Node, op: OpOverload) -> Hashable:
        """What a converter can see of a call."""
        of: dict[Node, Any] = {source: self._seen(source) for source in node.all_input_nodes}
        named = named_arguments(node, op)
        read = frozenset(user.args[1] for user in node.users if len(user.args) == 2 and isinstance(user.args[1], int))
        arguments = tuple((name, _frozen(map_arg(value, of.__getitem__))) for name, value in named.items())
        return (op, arguments, self._seen(node), read, reads_in_order(node))

    def _seen(self, node: Node) -> Hashable:
        held = self._source.held.get(node)
        content = id(held) if held is not None and not held.is_floating_point() else held is not None
        parts: list[Hashable] = []
        for value in self._source.reader.read(node):
            if isinstance(value, TensorValue):
                parts.append((value.dtype, value.dims))
            elif isinstance(value, NumberValue):
                number = node.meta.get("val")
                opaque = number if isinstance(number, (bool, int, float)) else id(node)
                parts.append((value.kind, value.expr, opaque if value.expr is None else None))
            else:
                parts.append(value.type)
        return ("node", tuple(parts), tuple(self._source.planned.get(node.name, ())), content)


def _wrong(converter: Converter | None, what: str) -> Limit:
    """A converter that does not do what it should: of trtdiag, or of a package, whose fault it then is."""
    if converter is None or converter.built_in:
        return Limit("converter-failed", f"its converter {what}", "report it with the model")
    by = f"its converter, of {converter.package}, {what}"
    fix = f"correct that converter (trtdiag.testing.check_converter shows it alone), or tell {converter.package} of it"
    return Limit("package-converter-failed", by, fix)


def _values(known: Any) -> list[Value]:
    """The tensors among what is known of a node."""
    listed = known if isinstance(known, (list, tuple)) else [known]
    return [one for one in listed if isinstance(one, Value)]


def _frozen(value: Any) -> Hashable:
    if isinstance(value, (list, tuple)):
        return tuple(_frozen(item) for item in value)
    # 1, 1.0 and True are equal, and mean different things to a converter.
    return (type(value).__name__, value) if isinstance(value, (bool, int, float)) else value
