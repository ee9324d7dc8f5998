"""Writes op after op with its converter, and checks each result against the op's own metadata."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Node
from torch.fx.node import map_arg

from trtdiag.convert.call import Call
from trtdiag.convert.facts import ConversionContext
from trtdiag.convert.refusal import refuse
from trtdiag.convert.registry import converter_of
from trtdiag.convert.writer import Writer
from trtdiag.dtypes.plan_uint8 import is_cast
from trtdiag.errors import InternalError
from trtdiag.frontend.node_origins import stack_of
from trtdiag.graph.node_kinds import NodeKind, classify
from trtdiag.graph.operators import OpOverload, named_arguments, target_name
from trtdiag.graph.quantizers import makes_floats
from trtdiag.graph.values import NumberValue, TensorValue, is_row_major
from trtdiag.network import DType, Origin, Tensor, Value
from trtdiag.network.dtype import SMALL
from trtdiag.symbolic import Num, to_text

_READ_STRIDES = frozenset({"aten.as_strided.default", "aten.as_strided_copy.default"})


class Interpreter:
    """Writes ops of one lowered graph into one network.

    Args:
        write: Where to.
        source: The graph.
    """

    def __init__(self, write: Writer, source: ConversionContext) -> None:
        self.write, self._source = write, source
        self.known: dict[Node, Any] = {}

    def op(self, node: Node, convert: Callable[[Call], Value] | None = None) -> None:
        """Write one op; its outputs are known afterwards.

        Args:
            node: The op.
            convert: Writes it in the place of its converter.

        Raises:
            Refused: The converter cannot take it as it is.
            InternalError: ``wrong-conversion`` where a result is not what the op's metadata says.
        """
        converter = converter_of(node.target)
        if converter is None:
            raise refuse("no-converter", f"{target_name(node.target)} has no converter")
        call = self._call(node)
        _refuse_small_integers(node, call)
        with self.write.builder.at(self.origin(node)):
            made = (convert or converter.run)(call)
        results: Sequence[Value | None] = [made] if isinstance(made, Value) else list(made)
        self._check(node, call.outputs, results)
        single = isinstance(node.meta.get("val"), torch.Tensor)
        self.known[node] = results[0] if single else results

    def element(self, node: Node) -> None:
        """A getitem node: one output of an op."""
        source, index = node.args[0], node.args[1]
        if node.target is not operator.getitem or not isinstance(source, Node) or not isinstance(index, int):
            raise refuse("no-operator", f"{node.name} picks no output of an op")
        self.known[node] = self.known[source][index]

    def constant(self, node: Node) -> None:
        """A tensor that the program brings, in its planned dtype."""
        tensor, dtype = self._source.held[node], self._source.planned[node.name][0]
        content = tensor if tensor.dtype == dtype else tensor.to(dtype)
        self.known[node] = self.write.constant(content, DType.holding(dtype))

    def number(self, node: Node) -> None:
        """A number: its expression over program symbols."""
        values = self._source.reader.read(node)
        expr = values[0].expr if values and isinstance(values[0], NumberValue) else None
        value = node.meta.get("val")
        if expr is None and isinstance(value, (bool, float)):
            self.known[node] = value
        elif expr is not None:
            self.known[node] = expr

    def origin(self, node: Node) -> Origin:
        """What the layers of an op are named after."""
        return Origin(target_name(node.target), node.name, stack_of(self._source.origins, node.name).best)

    def _expected(self, node: Node) -> tuple[Tensor | None, ...]:
        """What each output must be; ``None`` where nobody reads it."""
        planned = self._source.planned.get(node.name, ())
        single = isinstance(node.meta.get("val"), torch.Tensor)
        read = {user.args[1] for user in node.users if user.target is operator.getitem}
        values = self._source.reader.read(node)
        found: list[Tensor | None] = [None] * len(values)
        for index, (value, own) in enumerate(zip(values, planned, strict=False)):
            dtype = DType.of(own)
            if isinstance(value, TensorValue) and dtype is not None and (single or index in read):
                found[index] = Tensor(dtype, value.dims)
        return tuple(found)

    def _call(self, node: Node) -> Call:
        op, given = node.target, self._source.held
        assert isinstance(op, OpOverload)
        for source in node.all_input_nodes:
            if source not in self.known:
                self.number(source)
            if source not in self.known:
                raise refuse("opaque-argument", f"the value of {source.name} follows from no sizes")
        named = named_arguments(node, op)
        lists = {name: list(value) for name, value in named.items() if isinstance(value, (list, tuple))}
        items = {f"{name}[{place}]": item for name, value in lists.items() for place, item in enumerate(value)}
        read = {name: item for name, item in (named | items).items() if isinstance(item, Node)}
        held = {name: given[item] for name, item in read.items() if item in given}
        arguments = {name: map_arg(value, self.known.__getitem__) for name, value in (named | lists).items()}
        return Call(
            op, arguments, self._expected(node), self.write, held, reads_in_order(node), self._source.half_asked
        )

    def _check(self, node: Node, expected: Sequence[Tensor | None], results: Sequence[Value | None]) -> None:
        for index, want in enumerate(expected):
            if want is None:
                continue
            got = results[index] if index < len(results) else None
            if got is None:
                raise refuse("output-unsupported", f"output {index} is read, and no layer gives it")
            self.write.sizes.note(got)
            why = self._difference(want, got)
            if why:
                raise InternalError(
                    f"the converter of {self.origin(node)} gives another output {index} than the op",
                    because=why,
                    fix="report it with the model; keep_in_torch with this op avoids it",
                    reference="wrong-conversion",
                )

    def _difference(self, want: Tensor, got: Value) -> str:
        if got.dtype is not want.dtype:
            return f"the layers give {got.dtype.value}, the op {want.dtype.value}"
        if got.rank != want.rank:
            return f"the layers give {got.rank} dims, the op {want.rank}"
        facts = self.write.builder.facts
        for axis, (left, right) in enumerate(zip(got.shape, want.shape, strict=True)):
            if not facts.equal(left, right):
                told = f"dim {axis}: the layers give {to_text(left)}, the op {to_text(right)}"
                # Two numbers differ; anything else may be the same and beyond what can be proven.
                if not (isinstance(left, Num) and isinstance(right, Num)):
                    raise refuse("size-not-proven", f"{told}, which are not proven to be equal")
                return told
        return ""


def _refuse_small_integers(node: Node, call: Call) -> None:
    """Only casts take integers of 8 bits, so that no converter needs a way of its own around them.

    TensorRT converts uint8 to and from float32 and float16, next to the network's edge, and int8 stands for quantized
    numbers there.  The type plan has int32 for those that an op computes with or moves; as an index that would be
    another meaning.
    """
    indices = named_arguments(node, call.op).get("indices")
    for index in indices if isinstance(indices, (list, tuple)) else ():
        if isinstance(index, Node) and index.meta["val"].dtype is torch.uint8:
            raise refuse(
                "byte-mask", "it indexes with uint8, which PyTorch takes for a mask", "convert the mask to bool"
            )
    if is_cast(node) or makes_floats(node) or classify(node) is NodeKind.NO_OP:
        return
    values = [value for given in call.arguments.values() for value in (given if isinstance(given, list) else [given])]
    dtypes = [value.dtype for value in values if isinstance(value, Value)]
    for dtype in (*dtypes, *(want.dtype for want in call.outputs if want is not None)):
        if dtype in SMALL:
            raise refuse(
                "narrow-integer",
                f"it works on {dtype.value}, and TensorRT's layers know int32 and int64",
                "compute in int32 and convert the result",
            )


def reads_in_order(node: Node) -> bool:
    """Whether an op's result depends on how its tensor lies in memory, and that is in the order of its dims.

    There are no gaps then, and the tensor begins where its memory does.
    """
    if target_name(node.target) not in _READ_STRIDES:
        return False
    value = node.all_input_nodes[0].meta.get("val")
    if not isinstance(value, torch.Tensor):
        return False
    offset = value.storage_offset()
    return isinstance(offset, int) and offset == 0 and is_row_major(value)
