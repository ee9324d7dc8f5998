"""Whether the first dim of a program is a batch: samples that have nothing to do with each other."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch.fx import Node

from trtdiag.deployment import batch_axis_moves as batch_axis_moves  # its rules
from trtdiag.deployment.batch_axis import FREE, Batch, CoupledError, Free, Rows, Sizes, State, need
from trtdiag.deployment.batch_axis_rules import Seen, rows_of
from trtdiag.deployment.interface import Interface
from trtdiag.errors import ArtifactError
from trtdiag.frontend.read_guards import read_guards
from trtdiag.network import Network, from_bytes
from trtdiag.network.layers.constant import Constant
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.runtime.engine_cache import engine_bytes
from trtdiag.runtime.engine_nodes import EngineNode, engine_nodes
from trtdiag.symbolic import Condition, Range, Sym, ValueSet, allowed, free_symbols, to_text
from trtdiag.wording import amount, one_line


@dataclass(frozen=True)
class Batching:
    """What is known of a program's batch.

    Attributes:
        symbol: The symbol of the first dim of all inputs and outputs; ``None`` where it is not one, from 1 on.
        most: The largest batch; ``None`` where it has no end.
        proven: Whether no sample plays a part in what another gives.
        why: By what that is proven, or why it is not, in words.
    """

    symbol: str | None
    most: int | None
    proven: bool
    why: str


def batching_of(compiled: CompiledProgram, interface: Interface) -> Batching:
    """Look for the batch of a program, and prove that its samples are apart.

    It is proven layer by layer on the networks that engines were built from: those of the reference backend, or that
    ``portable=True`` kept.
    """
    try:
        symbol = _first_dim(interface)
    except CoupledError as found:
        return Batching(None, 0, False, str(found))
    most = interface.ranges.get(symbol, Range(1, None)).max
    try:
        layers = _prove(compiled, interface, symbol)
    except CoupledError as found:
        return Batching(symbol, most, False, str(found))
    engines = amount(len(compiled.manifests), "engine")
    why = f"the first dim is one size everywhere, and none of the {amount(layers, 'layer')} of {engines} mixes samples"
    return Batching(symbol, most, True, why)


def _first_dim(interface: Interface) -> str:
    """The symbol that is the first dim of all inputs and outputs and nothing else.

    Raises:
        CoupledError: There is none.
    """
    ports = (*interface.inputs, *interface.outputs)
    need(bool(interface.inputs and interface.outputs), "there are no inputs, or no outputs")
    for port in ports:
        need(bool(port.dims), f"{port.said} has no dims")
        need(isinstance(port.dims[0], Sym), f"the first dim of {port.said} is {to_text(port.dims[0])} for all calls")
    first = ports[0].dims[0]
    assert isinstance(first, Sym)
    for port in ports:
        need(port.dims[0] == first, f"the first dims of {ports[0].said} and {port.said} are not the same size")
        shared = any(first.name in free_symbols(dim) for dim in port.dims[1:])
        need(not shared, f"another dim of {port.said} follows from its first")
    range_ = interface.ranges.get(first.name, Range(1, None))
    need((range_.min or 0) <= 1, f"the first dim begins at {range_.min}, not at 1")
    for guard in read_guards(interface.program):
        need(guard.condition is not None, "a condition of the program cannot be read")
        assert guard.condition is not None
        need(not _narrows(guard.condition, first.name, range_), f"a condition is about it: {to_text(guard.condition)}")
    return first.name


def _narrows(condition: Condition, symbol: str, range_: Range) -> bool:
    """Whether a condition leaves out sizes of the range, or ties them to others."""
    names = free_symbols(condition)
    if symbol not in names:
        return False
    if names != {symbol}:
        return True
    found = allowed([condition], symbol, range_)
    return not found.proof.proven or found.values != ValueSet.full(range_)


def _prove(compiled: CompiledProgram, interface: Interface, symbol: str) -> int:
    """Follow the samples through the program; gives how many layers were looked at.

    Raises:
        CoupledError: They are not shown to stay apart; says where.
    """
    exported = compiled.exported_program
    signature = exported.graph_signature
    changed = {**signature.buffers_to_mutate, **signature.user_inputs_to_mutate}
    need(not changed, f"a call changes {next(iter(changed.values()), '')}")
    inputs = {port.node: port for port in interface.inputs}
    calls = {call.node: (index, call) for index, call in enumerate(engine_nodes(exported))}
    states: dict[Node, Any] = {}
    count = 0
    for node in exported.graph.nodes:
        if node.op == "placeholder":
            states[node] = Rows(0) if node.name in inputs else FREE
        elif node in calls:
            network = _network(compiled, *calls[node])
            states[node] = through(
                network, [_entering(states, given) for given in node.args[0]], f"the engine {calls[node][1].buffer}"
            )
            count += len(network.layers)
        elif node.op == "call_function" and node.target is operator.getitem:
            states[node] = states[node.args[0]][node.args[1]]
        elif node.op == "call_function":
            states[node] = _in_torch(node, states)
    outputs = {node.name: node for node in states}
    for port in interface.outputs:
        need(states[outputs[port.node]] == Rows(0), f"{port.said} is not one result for each sample")
    return count


def _entering(states: Mapping[Node, Any], given: object) -> State:
    return states[given] if isinstance(given, Node) else FREE


def _in_torch(node: Node, states: Mapping[Node, Any]) -> State:
    """An op between engines: a cast, or the size of a tensor."""
    name = getattr(node.target, "__name__", str(node.target))
    below = [states[arg] for arg in node.all_input_nodes]
    if name.startswith("sym_size"):
        return Sizes()
    if name in ("_to_copy.default", "to.dtype") and not set(node.kwargs) - {"dtype"} and len(below) == 1:
        need(not isinstance(below[0], Sizes), f"{name} ({node.name}) runs in PyTorch")
        return below[0]  # type: ignore[no-any-return]
    if all(isinstance(state, Free) for state in below) or not node.users:
        return FREE
    raise CoupledError(f"{name} ({node.name}) runs in PyTorch, where samples are not followed")


def _network(compiled: CompiledProgram, index: int, call: EngineNode) -> Network:
    """The network of an engine, with its weights where they are.

    Raises:
        CoupledError: It was not kept.
    """
    if compiled.networks:
        return from_bytes(compiled.networks[index])
    if call.manifest.backend != "reference":
        raise CoupledError("the networks of its engines were not kept to prove it by: compile with --portable")
    try:
        return from_bytes(engine_bytes(call.engine))
    except ArtifactError as error:
        raise CoupledError(f"the network of an engine cannot be read: {error.because}") from error


def through(network: Network, given: Sequence[State], where: str) -> list[State]:
    """Where the samples lie in the outputs of a network.

    Args:
        network: The network.
        given: Where they lie in its inputs.
        where: What to call it.

    Raises:
        CoupledError: A layer mixes them; names it.
    """
    named = {_symbol(network, index, state.axis) for index, state in enumerate(given) if isinstance(state, Rows)}
    if not named:
        need(all(isinstance(state, Free) for state in given), f"{where} computes with the size of the batch")
        return [FREE for _ in network.outputs]
    need(len(named) == 1 and None not in named, f"{where} has no one size for the batch")
    batch = Batch(str(named.pop()), network)
    states: dict[int, State] = {}
    for index, (port, state) in enumerate(zip(network.inputs, given, strict=True)):
        tensor = network.input_types[index]
        known = batch.known(tensor)
        fits = not isinstance(state, Rows) or state == Rows(state.axis)
        need(fits, f"samples have several rows where they enter {where}")
        others = [
            size for axis, size in enumerate(tensor.shape) if not (isinstance(state, Rows) and axis == state.axis)
        ]
        need(not any(map(batch.in_, others)), f"another dim of the input {port.name} of {where} follows from the batch")
        states[port.tensor] = state if known is None else known
        need(not isinstance(states[port.tensor], Sizes) or known is not None, f"{where} takes an unknown size")
    range_ = network.ranges.get(batch.symbol, Range(0, None))
    for condition in network.given:
        expanded = batch.facts.expanded(condition)
        need(not _narrows(expanded, batch.symbol, range_), f"{where} rests on {to_text(condition)}")
    for placed in network.layers:
        seen = Seen(
            [states[number] for number in placed.inputs],
            [network.tensors[number] for number in placed.inputs],
            [network.tensors[number] for number in placed.outputs],
            batch,
        )
        try:
            found = _state(placed.layer, seen)
        except CoupledError as fault:
            raise CoupledError(one_line(f"{network.describe(placed)}: {fault}")) from fault
        each = found if isinstance(found, tuple) else [found] * len(placed.outputs)
        for number, own in zip(placed.outputs, each, strict=True):
            known = batch.known(network.tensors[number])
            states[number] = own if known is None else known
    return [states[port.tensor] for port in network.outputs]


def _symbol(network: Network, index: int, axis: int) -> str | None:
    size = network.input_types[index].shape[axis]
    return size.name if isinstance(size, Sym) else None


def _state(layer: Any, seen: Seen) -> State | tuple[State, ...]:
    if isinstance(layer, Constant):
        return FREE
    sizes_alone = all(seen.batch.known(tensor) is not None for tensor in seen.outputs)
    if sizes_alone or (all(isinstance(state, Free) for state in seen.states) and not _grows(seen)):
        return FREE  # where the outputs are sizes, what they are is read off them
    return rows_of(layer, seen)


def _grows(seen: Seen) -> bool:
    """Whether an output has a dim that follows from the batch, which attributes alone can bring."""
    return any(seen.batch.in_(size) for tensor in seen.outputs for size in tensor.shape)
