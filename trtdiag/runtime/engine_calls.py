"""The call of an engine in a program: what it is given, the call, and what it gives."""

from __future__ import annotations

import operator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.fx import Node

from trtdiag.convert.facts import CountCrossing, Crossing, RowWrite
from trtdiag.engine.manifest import EngineInput, Manifest
from trtdiag.engine.manifest_text import manifest_to_text
from trtdiag.engine.size_inputs import carrier_shape
from trtdiag.errors import InternalError
from trtdiag.graph.operators import CAST, REINTERPRET, UNSQUEEZE
from trtdiag.graph.segment import Segment
from trtdiag.graph.unbacked_symbols import BINDINGS, bindings, borne
from trtdiag.graph.values import leaves
from trtdiag.runtime.custom_op import EXECUTE_ENGINE
from trtdiag.runtime.draft import CompiledDraft
from trtdiag.runtime.torch_sizes import Fetch


class CutSegment(Protocol):
    """A segment of a graph, and what crosses its edge; ``ConvertedSegment`` says what each is."""

    @property
    def segment(self) -> Segment:
        """The ops."""
        ...

    @property
    def inputs(self) -> tuple[Crossing, ...]:
        """The tensors and sizes that enter."""
        ...

    @property
    def outputs(self) -> tuple[Crossing, ...]:
        """The tensors that leave."""
        ...


class CalledSegment(CutSegment, Protocol):
    """A segment that an engine runs, whatever the engine was made of."""

    @property
    def counts(self) -> tuple[CountCrossing, ...]:
        """Further outputs, for sizes that the data decides."""
        ...

    @property
    def rows(self) -> tuple[RowWrite, ...]:
        """The caches that are written behind the engine."""
        ...

    @property
    def born(self) -> AbstractSet[str]:
        """The symbols of the sizes that the data decides in it."""
        ...


@dataclass
class EngineCall:
    """Writes one segment as the call of its engine, with casts where PyTorch's dtypes are others.

    Args:
        draft: What is written to; afterwards the segment's outputs are at hand there.
        converted: The segment.
        manifest: Its engine's.
        engine: The placeholder of the engine's bytes.
        fetch: Gives what stands for a source node.
    """

    draft: CompiledDraft
    converted: CalledSegment
    manifest: Manifest
    engine: Node
    fetch: Fetch

    def __post_init__(self) -> None:
        self._nodes: dict[str, Node] = {node.name: node for node in self.draft.source.nodes}
        self._first = self._nodes[self.converted.segment.ops[0]]

    def write(self) -> None:
        """Write it."""
        pairs = zip(self.converted.inputs, self.manifest.inputs, strict=True)
        inputs = [self._entering(crossing, port) for crossing, port in pairs]
        outputs, text = self.converted.outputs, manifest_to_text(self.manifest)
        device = self._device()
        values = [
            self.draft.values.tensor(self._nodes[crossing.node].meta["val"].shape, crossing.engine_dtype, device)
            for crossing in outputs
        ]
        values += [self._counted(crossing, device) for crossing in self.converted.counts]
        if len(self.manifest.outputs) > len(values):  # what the segment does not need, and nobody reads
            given = [node.meta["val"] for node in inputs]
            every = self.draft.values.given_by(EXECUTE_ENGINE, given, self.engine.meta["val"], text)
            values += list(every)[len(values) :]
        name = f"engine_{self.converted.segment.index}"
        call = self.draft.call(EXECUTE_ENGINE, (inputs, self.engine, text), values, like=self._first, name=name)
        born = bindings(values, self.converted.born - borne(self.draft.graph))
        if born:
            call.meta[BINDINGS] = born
        for place, (crossing, value) in enumerate(zip(outputs, values, strict=False)):
            self._leaving(crossing, call, place, value)

    def _counted(self, crossing: CountCrossing, device: Any) -> torch.Tensor:
        bearer: Any = list(leaves(self._nodes[crossing.node].meta["val"]))[crossing.output]
        return self.draft.values.tensor((bearer.shape[crossing.dim], crossing.columns), crossing.engine_dtype, device)

    def _device(self) -> Any:
        tensors = (self._nodes[crossing.node].meta["val"] for crossing in self.converted.inputs if not crossing.is_size)
        return next((tensor.device for tensor in tensors), self.manifest.device)

    def _like(self, crossing: Crossing) -> Node:
        """Whose line what is done to a value belongs to: its own; an input of the program has none."""
        node = self._nodes[crossing.node]
        return self._first if node.op == "placeholder" else node

    def _entering(self, crossing: Crossing, port: EngineInput) -> Node:
        node = self.fetch(crossing.node)
        if port.is_size != crossing.is_size:
            raise InternalError(
                f"{crossing.node} enters an engine as another kind of value than it was converted as",
                because=f"conversion says {'size' if crossing.is_size else 'tensor'}, the manifest the other",
                fix="please report this with the program",
                reference="engine-input-kind",
            )
        if crossing.is_size:
            return self._carrier(crossing, node, port)
        if crossing.as_pairs:
            return self._pairs(node, self._like(crossing))
        if crossing.engine_dtype is crossing.program_dtype:
            return node  # type: ignore[no-any-return]  # a tensor is always a node
        return self._cast(node, crossing.engine_dtype, self._like(crossing), f"{crossing.node}_cast")

    def _pairs(self, node: Node, like: Node) -> Node:
        """What ``int32_pairs`` gives of a node."""
        tensor = node.meta["val"]
        shape, device = tensor.shape, tensor.device
        single = self.draft.values.tensor((*shape, 1), tensor.dtype, device)
        column = self.draft.call(UNSQUEEZE, (node, -1), single, like=like, name=f"{node.name}_column")
        value = self.draft.values.tensor((*shape, 2), torch.int32, device)
        return self.draft.call(REINTERPRET, (column, torch.int32), value, like=like, name=f"{node.name}_pairs")

    def _carrier(self, crossing: Crossing, number: Any, port: EngineInput) -> Node:
        """The tensor whose shape says a number."""
        like = self._like(crossing)
        call = self.draft.calls(like)
        if isinstance(number, bool) or (isinstance(number, Node) and isinstance(number.meta["val"], torch.SymBool)):
            number = int(number) if isinstance(number, bool) else call(torch.sym_ite, number, 1, 0)
        shape = carrier_shape(port, number, call)
        sizes = [size.meta["val"] if isinstance(size, Node) else size for size in shape]
        value = self.draft.values.tensor(sizes, torch.uint8, "cpu")
        op, cpu = torch.ops.aten.empty.memory_format, torch.device("cpu")
        how: dict[str, Any] = {"dtype": torch.uint8, "device": cpu, "pin_memory": False}
        return self.draft.call(op, (list(shape),), value, like=like, name=f"{crossing.node}_size", **how)

    def _leaving(self, crossing: Crossing, call: Node, place: int, value: torch.Tensor) -> None:
        like = self._nodes[crossing.node]
        same = crossing.engine_dtype is crossing.program_dtype
        name = crossing.node if same else f"{crossing.node}_engine"
        element = self.draft.call(operator.getitem, (call, place), value, like=like, name=name, stands=same)
        if not same:
            self._cast(element, crossing.program_dtype, like, crossing.node, stands=True)

    def _cast(self, node: Node, dtype: torch.dtype, like: Node, name: str, *, stands: bool = False) -> Node:
        value = self.draft.values.tensor(node.meta["val"].shape, dtype, node.meta["val"].device)
        return self.draft.call(CAST, (node,), value, like=like, name=name, stands=stands, dtype=dtype)
