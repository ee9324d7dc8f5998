"""An exported program on another device.

Exporting writes the device into a program in many places: weights, constants, example inputs, the value of every node,
arguments of the ops that make tensors or copy them there, the checks before casts, and autocast blocks, in nested
graphs too.  They all go together, or the program runs on no device.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor, in_kernel_invocation_manager
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import GraphModule, Node
from torch.fx.node import map_aggregate
from torch.utils._pytree import tree_leaves, tree_map

from trtdiag.errors import UserError
from trtdiag.frontend.rebuilt_program import copied_graph, rebuilt_program
from trtdiag.graph.inputs import storage_key
from trtdiag.graph.node_kinds import attribute_of, walk
from trtdiag.graph.operators import HigherOrderOperator, target_name
from trtdiag.grouping import grouped
from trtdiag.wording import listed

_VALUES = ("val", "example_value", "eager_input_vals")
"""Entries of a node's metadata that hold tensors."""
_AUTOCAST = ("wrap_with_autocast", "torch.amp.autocast_mode._enter_autocast")
_HELD = frozenset({InputKind.USER_INPUT, InputKind.PARAMETER, InputKind.BUFFER})


def program_device(exported: ExportedProgram, *, but: Collection[str] = ()) -> torch.device | None:
    """Where a program's inputs, parameters and buffers are; ``None`` where it has none.

    What it makes itself may be elsewhere: a constant in the code is on the CPU, whatever it is used with.

    Args:
        exported: The program.
        but: Names of placeholders that do not count.

    Raises:
        UserError: ``program-devices`` where they are on several devices.
    """
    placeholders = exported.graph.find_nodes(op="placeholder")
    names = grouped(
        (value.device, spec.target or node.name)
        for node, spec in zip(placeholders, exported.graph_signature.input_specs, strict=True)
        if spec.kind in _HELD and node.name not in but and isinstance(value := node.meta.get("val"), torch.Tensor)
    )
    if len(names) > 1:
        told = "; ".join(f"{listed(found, 3)} on {device}" for device, found in names.items())
        raise UserError(
            f"the program is on several devices: {', '.join(map(str, names))}",
            because=f"{told}; an engine takes what is on one device",
            fix="export it with the model and all inputs on one device",
            reference="program-devices",
        )
    return next(iter(names), None)


def missing_device(exported: ExportedProgram) -> torch.device | None:
    """A device of the program that this machine lacks; ``None`` where there is none."""
    found = sorted({*_devices(exported, ())}, key=str)
    return next((device for device in found if not is_here(device)), None)


def on_device(exported: ExportedProgram, device: torch.device | str, *, stays: Collection[str] = ()) -> ExportedProgram:
    """The program on a device, with its ranges and guards; the given one where it is there already.

    It computes what it computed: an autocast block for the device that it leaves is one for the new device, and one
    for the new device, which had no effect, still has none.

    Args:
        exported: It stays as it is; tensors that are on the device already are shared.
        device: Without an index: where the program is on a device of that type already that one, else the current one.
        stays: Names of nodes that are left where they are.

    Raises:
        UserError: ``program-devices`` where its inputs and weights are on several devices.
        RuntimeError: Out of memory there.

    Cost: the memory of its weights once more, on the new device.
    """
    before = program_device(exported, but=stays)
    where = _settled(torch.device(device), before)
    if all(found == where for found in _devices(exported, stays)):
        return exported
    held = [*exported.state_dict.values(), *exported.constants.values(), *tree_leaves(exported.example_inputs)]
    read = [attribute_of(each.owner, each.node) for each in walk(exported.graph_module)]
    tensors = MovedTensors(where, [*held, *read])
    graph_module = _Move(where, before, tensors, stays).of(exported.graph_module)
    signature = copy.copy(exported.graph_signature)
    kept = {spec.target for spec in signature.input_specs if getattr(spec.arg, "name", None) in stays}
    return rebuilt_program(
        exported,
        graph_module,
        graph_module.graph,
        signature,
        {name: value if name in kept else tensors.of(value) for name, value in exported.state_dict.items()},
        {name: value if name in kept else tensors.of(value) for name, value in exported.constants.items()},
        example_inputs=tree_map(tensors.of, exported.example_inputs),
        same_modules=True,
    )


def _settled(device: torch.device, before: torch.device | None) -> torch.device:
    if device.index is not None or device.type in ("cpu", "meta"):
        return device
    if before is not None and before.type == device.type:
        return before
    here = is_here(torch.device(device.type))
    return torch.device(device.type, getattr(torch, device.type).current_device() if here else 0)


def _devices(exported: ExportedProgram, stays: Collection[str]) -> Iterator[torch.device]:
    for located in walk(exported.graph_module):
        if located.name not in stays:
            for entry in _VALUES:
                values = tree_leaves(located.node.meta.get(entry))
                yield from (value.device for value in values if isinstance(value, torch.Tensor))


class _Move:
    """Copies graphs.

    Args:
        where: The new device.
        before: Where the program was.
        tensors: Gives tensors there.
        stays: Nodes of the outermost graph that are copied as they are.
    """

    def __init__(
        self, where: torch.device, before: torch.device | None, tensors: MovedTensors, stays: Collection[str]
    ) -> None:
        self._where = where
        self._before = where.type if before is None else before.type
        self._tensors = tensors
        self._stays = stays
        self._nested: dict[int, GraphModule] = {}

    def of(self, module: GraphModule) -> GraphModule:
        """A graph on the new device, with all that it names."""
        graph, copies = copied_graph(module.graph)
        graph.set_codegen(copy.copy(module.graph._codegen))
        attributes: dict[str, Any] = {}
        for old, new in copies.items():
            if old.op == "get_attr":
                attributes[str(old.target)] = self._attribute(attribute_of(module, old))
            if not self._stays or new.name not in self._stays:
                self._place(new)
        self._values(next(iter(reversed(graph.nodes))))
        made = GraphModule(attributes, graph, module.__class__.__name__)
        made.meta.update(module.meta)
        return made

    def _attribute(self, value: Any) -> Any:
        if not isinstance(value, GraphModule):
            return self._tensors.of(value)
        if id(value) not in self._nested:
            self._nested[id(value)] = _Move(self._where, torch.device(self._before), self._tensors, ()).of(value)
        return self._nested[id(value)]

    def _place(self, node: Node) -> None:
        self._values(node)
        if node.op != "call_function":
            return
        node.args, node.kwargs = map_aggregate(
            (node.args, node.kwargs), lambda each: self._where if isinstance(each, torch.device) else each
        )
        if isinstance(node.target, OpOverload):
            node.kwargs = {**node.kwargs, **self._made_there(node.target, node.kwargs)}
        elif _name(node) in _AUTOCAST:
            node.args = (self._autocast(str(node.args[0])), *node.args[1:])

    def _made_there(self, op: OpOverload, kwargs: dict[str, Any]) -> dict[str, Any]:
        """The device of an op that makes a tensor from none, else on the CPU; there alone a tensor can be pinned."""
        arguments = op._schema.arguments
        if not any(argument.name == "device" for argument in arguments):
            return {}
        of_tensor = any("Tensor" in str(argument.type) for argument in arguments)
        found: dict[str, Any] = {}
        if isinstance(kwargs.get("device"), str) or (not of_tensor and kwargs.get("device") is None):
            found["device"] = self._where
        if kwargs.get("pin_memory") and self._where.type != "cpu":
            found["pin_memory"] = False
        return found

    def _autocast(self, device: str) -> str:
        """The two devices in each other's place: a block for a device where nothing was has no effect."""
        others = {self._before: self._where.type, self._where.type: self._before}
        return others.get(device, device)

    def _values(self, node: Node) -> None:
        for entry in _VALUES:
            if entry in node.meta:
                node.meta[entry] = tree_map(self._tensors.of, node.meta[entry])


def _name(node: Node) -> str:
    if isinstance(node.target, HigherOrderOperator):
        return str(node.target.name())  # type: ignore[no-untyped-call]
    return target_name(node.target)


def is_here(device: torch.device) -> bool:
    """Whether this machine has a device; tensors without content (``meta``) are everywhere."""
    if device.type in ("cpu", "meta"):
        return True
    module = getattr(torch, device.type, None)
    if module is None or not module.is_available():
        return False
    return device.index is None or bool(device.index < module.device_count())


# Tensors on another device: each copied once, those that share memory still sharing it.


_ALIAS: OpOverload = torch.ops.aten.alias.default


class MovedTensors:
    """Gives tensors on a device; one that is there already is given as it is.

    Args:
        device: With its index, where it has several.
        every: All tensors that will be asked for: those of one storage go there together.
    """

    def __init__(self, device: torch.device, every: Iterable[Any] = ()) -> None:
        self._device = device
        distinct = {id(tensor): tensor for tensor in every if _is_plain(tensor)}
        self._users = Counter(storage_key(tensor) for tensor in distinct.values())
        self._moved: dict[int, tuple[Any, Any]] = {}  # with the original: its id is another's once it is gone
        self._storages: dict[int, Tensor] = {}

    def of(self, value: Any) -> Any:
        """The tensor there; a fake one stays fake, and one without content (meta) and what is no tensor as they are."""
        if not isinstance(value, Tensor):
            return value
        known = self._moved.get(id(value))
        if known is None:
            with torch.no_grad():
                known = self._moved[id(value)] = (value, self._made(value))
        return known[1]

    def _made(self, tensor: Tensor) -> Tensor:
        if isinstance(tensor, FakeTensor):
            fake = fake_on(tensor, self._device)
            return nn.Parameter(fake, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else fake
        if tensor.device == self._device or tensor.device.type == "meta":
            return tensor
        if not _is_plain(tensor):
            return tensor.to(self._device)
        shared = self._users[storage_key(tensor)] > 1
        moved = None if shared else tensor.detach().to(self._device)
        if moved is None or moved.stride() != tensor.stride():
            moved = self._viewed(tensor)
        if isinstance(tensor, nn.Parameter):
            return nn.Parameter(moved, requires_grad=tensor.requires_grad)
        return moved.requires_grad_(tensor.requires_grad)

    def _viewed(self, tensor: Tensor) -> Tensor:
        """The same elements of the same storage, as strided."""
        at = storage_key(tensor)
        if at not in self._storages:
            bytes_ = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())
            self._storages[at] = bytes_.to(self._device)
        storage = self._storages[at].untyped_storage()
        made = torch.empty(0, dtype=tensor.dtype, device=self._device)
        return made.set_(storage, tensor.storage_offset(), tensor.size(), tensor.stride())


def fake_on(value: FakeTensor, device: torch.device) -> FakeTensor:
    """The same value of a trace on another device, in the same fake mode; sizes and strides are not looked at."""
    with in_kernel_invocation_manager(value.fake_mode):
        content_free = _ALIAS(value)
    return FakeTensor(value.fake_mode, content_free, device)


def _is_plain(value: Any) -> bool:
    return type(value) in (Tensor, nn.Parameter, nn.Buffer) and value.layout is torch.strided
