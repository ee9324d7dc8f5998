"""Writes op after op with its converter, and checks each result against the op's own metadata."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, Union

import torch
from torch.fx import Node

from trtdiag.convert.call import Call, Expected, flat_nodes, mapped, named_arguments
from trtdiag.convert.layout import lies_in_order, reads_layout
from trtdiag.convert.refusal import Refused, refuse
from trtdiag.convert.registry import converter_of
from trtdiag.convert.writer import Writer
from trtdiag.dtypes.plan_uint8 import is_cast
from trtdiag.errors import InternalError
from trtdiag.frontend.program import OpOrigin
from trtdiag.graph.operators import OpOverload, target_name
from trtdiag.graph.values import NumberValue, TensorValue, ValueReader
from trtdiag.graph.walk import NodeKind, classify
from trtdiag.network import DType, Origin
from trtdiag.network.dtype import SMALL
from trtdiag.network.value import Value
from trtdiag.symbolic import Condition, Expr, Num, to_text

Known: TypeAlias = Union[Value, Sequence[Value | None], Expr, Condition, int, float, bool, None]


class Interpreter:
    """Writes ops of one lowered graph into one network.

    Args:
        write: Where to.
        planned: The engine dtype of each output of each node, by name.
        reader: Reads metadata; shared between networks of one graph.
        origins: Of ops, by node name.
        held: The tensors that the program itself brings, by node.
    """

    def __init__(
        self,
        write: Writer,
        planned: Mapping[str, Sequence[torch.dtype]],
        reader: ValueReader,
        origins: Mapping[str, OpOrigin],
        held: Mapping[Node, torch.Tensor],
    ) -> None:
        self.write = write
        self.known: dict[Node, Any] = {}
        self._planned = planned
        self._reader = reader
        self._origins = origins
        self._held = held

    def op(self, node: Node) -> None:
        """Write one op; its outputs are known afterwards.

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
            made = converter.run(call)
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
        tensor, dtype = self._held[node], self._planned[node.name][0]
        self.known[node] = self.write.constant(tensor if tensor.dtype == dtype else tensor.to(dtype))

    def number(self, node: Node) -> None:
        """A number: its expression over program symbols."""
        values = self._reader.read(node)
        expr = values[0].expr if values and isinstance(values[0], NumberValue) else None
        value = node.meta.get("val")
        if expr is None and isinstance(value, (bool, float)):
            self.known[node] = value
        elif expr is not None:
            self.known[node] = expr

    def origin(self, node: Node) -> Origin:
        """What the layers of an op are named after."""
        found = self._origins.get(node.name)
        return Origin(target_name(node.target), node.name, found.stack.best if found else None)

    def expected(self, node: Node) -> tuple[Expected | None, ...]:
        """What each output must be; ``None`` where nobody reads it."""
        values = self._reader.read(node)
        planned = self._planned.get(node.name, ())
        single = isinstance(node.meta.get("val"), torch.Tensor)
        read = {user.args[1] for user in node.users if user.target is operator.getitem}
        found: list[Expected | None] = []
        for index, value in enumerate(values):
            dtype = DType.of(planned[index]) if index < len(planned) else None
            if not isinstance(value, TensorValue) or dtype is None or not (single or index in read):
                found.append(None)
            else:
                found.append(Expected(dtype, value.dims))
        return tuple(found)

    def _call(self, node: Node) -> Call:
        named = named_arguments(node)
        held: dict[str, torch.Tensor] = {}
        own_memory: set[str] = set()
        for name, value in named.items():
            for source in flat_nodes(value):
                if source not in self.known:
                    self.number(source)
                if source not in self.known:
                    raise refuse("opaque-argument", f"the value of {source.name} follows from no sizes")
            for place, item in enumerate(value) if isinstance(value, (list, tuple)) else ():
                if isinstance(item, Node) and item in self._held:
                    held[f"{name}[{place}]"] = self._held[item]
            if isinstance(value, Node):
                if value in self._held:
                    held[name] = self._held[value]
                if reads_layout(node) and lies_in_order(value):
                    own_memory.add(name)
        arguments = {name: mapped(value, self.known) for name, value in named.items()}
        target = node.target
        assert isinstance(target, OpOverload)
        return Call(target, node.name, arguments, self.expected(node), self.write, held, frozenset(own_memory))

    def _check(self, node: Node, expected: Sequence[Expected | None], results: Sequence[Value | None]) -> None:
        for index, want in enumerate(expected):
            if want is None:
                continue
            got = results[index] if index < len(results) else None
            if got is None:
                raise refuse("output-unsupported", f"output {index} is read, and no layer gives it")
            self.write.sizes.note(got)
            why = self._difference(want, got)
            if why:
                raise self._wrong(node, index, why)

    def _difference(self, want: Expected, got: Value) -> str:
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

    def _wrong(self, node: Node, index: int, why: str) -> InternalError:
        return InternalError(
            f"the converter of {self.origin(node)} gives another output {index} than the op",
            because=why,
            fix="report it with the model; keep_in_torch with this op avoids it",
            reference="wrong-conversion",
        )


def _refuse_small_integers(node: Node, call: Call) -> None:
    """Only casts take integers of 8 bits, so that no converter needs a way of its own around them.

    TensorRT converts uint8 to and from float32 and float16, next to the network's edge, and int8 stands for quantized
    numbers there.  The type plan has int32 for those that an op computes with or moves; as an index that would be
    another meaning.
    """
    indices = named_arguments(node).get("indices")
    for index in indices if isinstance(indices, (list, tuple)) else ():
        if isinstance(index, Node) and index.meta["val"].dtype is torch.uint8:
            raise refuse(
                "byte-mask", "it indexes with uint8, which PyTorch takes for a mask", "convert the mask to bool"
            )
    if is_cast(node) or classify(node) is NodeKind.NO_OP:
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


__all__ = ["Interpreter", "Refused"]
