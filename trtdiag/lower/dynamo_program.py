"""A graph of torch.compile, made ready to be traced again, as an exported program.

The graph is traced in the fake mode and ShapeEnv that it belongs to, so what tracing learns of sizes becomes guards of
torch.compile: a call that breaks one is compiled again, and never reaches the program.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._export.passes.lift_constants_pass import ConstantAttrMap, lift_constants_pass
from torch._functorch.aot_autograd import aot_export_module
from torch.export import ExportedProgram, ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import _convert_to_export_graph_signature
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import ShapeEnv, guard_float
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from trtdiag.errors import UserError
from trtdiag.frontend.rebuilt_program import copied_graph

_MAPS = "_vmap_increment_nesting"
"""The function with which a part that ``torch.vmap`` maps begins in a graph of torch.compile."""
_DERIVATIVES = {"_grad_increment_nesting", "_jvp_increment_nesting"}
"""The same of ``torch.func.grad`` and ``vjp``, and of ``jvp``."""


def traceable_graph(graph_module: GraphModule) -> GraphModule:
    """A copy that gives the same when it is traced; ``graph_module`` stays as it is.

    Blocks of autocast really begin and end: tracing only notes the calls that torch.compile writes, so that ops inside
    would be traced in the dtypes of outside.  Floats of the model (``eps``), which enter as tensors where everything
    is dynamic, are numbers, and guards of torch.compile: an engine holds them as constants.  A dropout that drops
    nothing gives its input itself, as it does in PyTorch: what tracing has of it cannot be written in place.
    """
    graph, copies = copied_graph(graph_module.graph)
    for old, new in copies.items():
        if old.target is torch.amp.autocast_mode._enter_autocast:
            new.target = _enter
        elif old.target is torch.amp.autocast_mode._exit_autocast:
            new.target = _exit
        elif _is_float_of_model(old):
            _put(new, guard_float(old.meta["example_value"]))
        elif _drops_nothing(old):
            _put(new, new.args[0] if new.args else new.kwargs["input"])
    made = GraphModule(graph_module, graph)
    made.meta.update(copy.copy(graph_module.meta))
    return made


def _put(node: Node, instead: Any) -> None:
    """Let whoever reads ``node`` read ``instead``."""

    def put(argument: Node) -> Any:
        return instead if argument is node else argument

    for user in list(node.users):
        user.args, user.kwargs = map_arg((user.args, user.kwargs), put)
    node.graph.erase_node(node)


def _enter(*arguments: Any) -> torch.amp.autocast_mode.autocast:
    """Begin a block of autocast, for real and in the trace."""
    device, dtype, enabled, cached = arguments
    mode = torch.amp.autocast_mode.autocast(device, dtype=dtype, enabled=enabled, cache_enabled=cached)
    mode.__enter__()  # type: ignore[no-untyped-call]
    return mode


def _exit(mode: torch.amp.autocast_mode.autocast) -> None:
    mode.__exit__(None, None, None)


def _drops_nothing(node: Node) -> bool:
    if node.op != "call_function" or node.target not in (torch.nn.functional.dropout, torch.dropout):
        return False
    training = node.args[2] if len(node.args) > 2 else node.kwargs.get("training", node.kwargs.get("train", True))
    return training is False


def _is_float_of_model(node: Node) -> bool:
    if (
        node.op != "call_method"
        or node.target != "item"
        or not isinstance(node.meta.get("example_value"), torch.SymFloat)
    ):
        return False
    source = node.args[0]
    return isinstance(source, Node) and bool(getattr(source.meta.get("grapharg"), "pass_arg_as_tensor", False))


@dataclass(frozen=True)
class DynamoProgram:
    """An exported program of a graph of torch.compile.

    Attributes:
        exported: Holds the weights that the graph was compiled for.
        taken: Which of the graph's arguments it is called with, by position.
        held: Which of them are the weights that it holds.
    """

    exported: ExportedProgram
    taken: tuple[int, ...]
    held: tuple[int, ...]

    def with_weights(self, weights: Sequence[torch.Tensor]) -> ExportedProgram:
        """The same program with others, in the order of ``held``: torch.compile asks for the same sizes and dtypes."""
        own = self.exported
        return ExportedProgram(
            root=own.graph_module,
            graph=own.graph,
            graph_signature=own.graph_signature,
            state_dict={_held(index): weight.detach() for index, weight in zip(self.held, weights, strict=True)},
            constants=own.constants,
            range_constraints=own.range_constraints,
            module_call_graph=own.module_call_graph,
        )


def dynamo_program(graph_module: GraphModule, example_inputs: Sequence[Any]) -> DynamoProgram:
    """The program of a graph that torch.compile hands to its backend; the graph stays as it is.

    Parameters and buffers that the graph does not change become constants of the program.  A number that is a size of
    an input is read there.

    Args:
        graph_module: Its placeholders have example values.
        example_inputs: What it is to be compiled for: weights as they are, numbers as SymInts.

    Raises:
        UserError: ``derivatives-inside`` where the graph takes derivatives itself.
    """
    graphs = [each.graph for each in graph_module.modules() if isinstance(each, GraphModule)]
    transforms = {str(getattr(node.target, "__name__", "")) for graph in graphs for node in graph.nodes}
    if transforms & _DERIVATIVES:
        raise UserError(
            "a graph of torch.compile takes derivatives, and was not compiled",
            because="torch.func.grad, vjp, jvp and what is made of them change what the ops inside mean",
            fix="decorate the function that takes them with torch.compiler.disable",
            reference="derivatives-inside",
        )
    placeholders = [node for node in graph_module.graph.nodes if node.op == "placeholder"]
    static = {index for index, node in enumerate(placeholders) if _is_static(node, example_inputs[index])}
    while True:
        bound = _Bound(graph_module, placeholders, example_inputs, static)
        # Over a mapped dim only the dispatcher tells what an op computes: ops are traced behind it, in smaller parts.
        traced, signature = aot_export_module(
            bound, bound.arguments(), trace_joint=False, pre_dispatch=_MAPS not in transforms
        )
        written = {int(name.removeprefix("held_")) for name in signature.buffers_to_mutate.values()}
        if not written:
            assert isinstance(traced, GraphModule)
            return DynamoProgram(_exported(traced, signature, bound), bound.taken, tuple(sorted(static)))
        static -= written  # the caller's tensor must change, so it is an input


class _Bound(torch.nn.Module):
    """The graph with its static inputs as buffers, called with the others."""

    def __init__(
        self, graph_module: GraphModule, placeholders: Sequence[Node], inputs: Sequence[Any], static: set[int]
    ) -> None:
        super().__init__()
        self._graph_module = (traceable_graph(graph_module),)  # in a tuple: its own parameters are none of this module
        self._examples = [
            node.meta.get("example_value", given) for node, given in zip(placeholders, inputs, strict=True)
        ]
        self._static = frozenset(static)
        self._sizes = dict(_sizes_of_tensors(self._examples, static))
        for index in sorted(static):
            self.register_buffer(_held(index), inputs[index].detach())
        self.taken = tuple(
            index for index in range(len(placeholders)) if index not in static and index not in self._sizes
        )

    def arguments(self) -> tuple[Any, ...]:
        """The example values of what is taken."""
        return tuple(self._examples[index] for index in self.taken)

    def forward(self, *taken: Any) -> Any:
        values = dict(zip(self.taken, taken, strict=True))
        for index in self._static:
            values[index] = getattr(self, _held(index))
        for index, (tensor, dim) in self._sizes.items():
            values[index] = values[tensor].shape[dim]
        return self._graph_module[0](*(values[index] for index in range(len(values))))


def _held(index: int) -> str:
    return f"held_{index}"


def _is_static(node: Node, given: Any) -> bool:
    """Whether torch.compile takes an input for a weight: one object in all calls of a layer, another in another's."""
    if not isinstance(given, torch.Tensor):
        return False
    marked = node.meta.get("tensor_dict") or {}
    return isinstance(given, torch.nn.Parameter) or marked.get("_dynamo_static_input_type") is not None


def _sizes_of_tensors(examples: Sequence[Any], static: set[int]) -> Iterator[tuple[int, tuple[int, int]]]:
    """Numbers that are a dim of a tensor: their position, and the tensor's position and the dim."""
    places: dict[Any, tuple[int, int]] = {}
    for index, example in enumerate(examples):
        if isinstance(example, torch.Tensor) and index not in static:
            for dim, size in enumerate(example.shape):
                if isinstance(size, torch.SymInt):
                    places.setdefault(size.node.expr, (index, dim))
    for index, example in enumerate(examples):
        if isinstance(example, torch.SymInt) and example.node.expr in places:
            yield index, places[example.node.expr]


def _exported(traced: GraphModule, signature: Any, bound: _Bound) -> ExportedProgram:
    arguments = bound.arguments()
    in_spec = pytree.tree_structure((arguments, {}))
    outputs = tuple(signature.user_outputs)
    out_spec = pytree.tree_structure(outputs)
    entry = ModuleCallEntry("", ModuleCallSignature(inputs=[], outputs=[], in_spec=in_spec, out_spec=out_spec))
    for owner in traced.modules():
        if isinstance(owner, GraphModule):
            _value_numbers(owner)
    own = _convert_to_export_graph_signature(signature, traced, set())
    # Tensors that the model's code makes of numbers (``torch.tensor(2.0)``) are attributes so far.
    constants = lift_constants_pass(traced, own, ConstantAttrMap())
    return ExportedProgram(
        root=traced,
        graph=traced.graph,
        graph_signature=own,
        state_dict=dict(bound.named_buffers()),
        constants=constants,
        range_constraints=_ranges(traced),
        module_call_graph=[entry],
    )


def _value_numbers(owner: GraphModule) -> None:
    """Give values to what nested graphs take that is a number: tracing has the number in its place, and gives none."""
    for node in owner.graph.find_nodes(op="get_attr"):
        nested = getattr(owner, str(node.target), None)
        if not isinstance(nested, GraphModule):
            continue
        taken = nested.graph.find_nodes(op="placeholder")
        for user in node.users:
            given = [each for argument in user.args if isinstance(argument, (tuple, list)) for each in argument]
            for placeholder, number in zip(taken, given if len(given) == len(taken) else (), strict=False):
                if isinstance(number, (bool, int, float)):
                    placeholder.meta.setdefault("val", number)


def _ranges(traced: GraphModule) -> dict[Any, Any]:
    """The range that torch.compile has for each symbol of the inputs."""
    found: dict[Any, Any] = {}
    for node in traced.graph.find_nodes(op="placeholder"):
        val = node.meta.get("val")
        for size in val.shape if isinstance(val, torch.Tensor) else (val,):
            if isinstance(size, torch.SymInt):
                env: ShapeEnv = size.node.shape_env
                found.update({s: env.var_to_range[s] for s in size.node.expr.free_symbols})
    return found
