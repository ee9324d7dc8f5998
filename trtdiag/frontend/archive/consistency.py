"""Whether the parts of a saved program agree: what names what, how many there are, and what each call is given.

torch's builder follows the names of a file and checks few of them: a program whose input of an op was renamed, or
whose module calls lost their signature, is built, and fails wherever it is used first.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, InputSpec
from torch.fx import GraphModule, Node

from trtdiag.frontend.archive.example_sizes import dim_fault, stated_sizes
from trtdiag.graph.aliases import alias_roots
from trtdiag.graph.kernel_bounds.check import reach_of_sizes
from trtdiag.graph.node_kinds import subgraph_of
from trtdiag.graph.operators import named_arguments

_HELD = {InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR}
_NUMBERS = (int, float, complex, torch.SymInt, torch.SymFloat, torch.SymBool)
_WHOLE = (int, torch.SymInt, torch.SymBool, torch.dtype, torch.layout, torch.memory_format)
_FITTING: Mapping[str, tuple[type, ...]] = {
    # A number stands for a tensor without dims.
    "TensorType": (torch.Tensor, *_NUMBERS),
    # Python's dtypes, layouts and memory formats are whole numbers to torch.
    "IntType": _WHOLE,
    "SymIntType": _WHOLE,
    "FloatType": _NUMBERS,
    "NumberType": _NUMBERS,
    "BoolType": (int, torch.SymBool, torch.SymInt),
    "StringType": (str,),
    "DeviceObjType": (torch.device, str),
}
_STRIDED = frozenset({"aten::as_strided", "aten::as_strided_", "aten::as_strided_copy", "aten::as_strided_scatter"})
_RELABELLED = frozenset({"aten::_reshape_alias", "aten::_reshape_alias_copy"})


class DisagreementError(Exception):
    """Two parts of a program that do not agree; its argument says which, as a clause."""


class BeyondMemoryError(Exception):
    """A call that reads beyond its tensor.

    Attributes:
        node: The node.
        target: What it calls.
        reason: Why it does, as a clause.
    """

    def __init__(self, node: str, target: str, reason: str) -> None:
        super().__init__(reason)
        self.node, self.target, self.reason = node, target, reason


def check_agreement(exported: ExportedProgram) -> None:
    """Pass a program whose parts agree.

    Raises:
        DisagreementError: They do not.
        BeyondMemoryError: A call reads beyond its tensor at the sizes of the example.
    """
    calls = exported.module_call_graph
    if not calls or calls[0].fqn != "" or calls[0].signature is None:
        raise DisagreementError("module_call_graph does not begin with the whole program and its signature")
    _check_inputs(exported)
    users, leaves = len(exported.graph_signature.user_outputs), exported.call_spec.out_spec.num_leaves
    if leaves != users:  # that these are the outputs of the graph is checked by torch's verifier
        raise DisagreementError(f"the program returns {leaves} values, and its signature {users}")
    for module in exported.graph_module.modules():
        if not isinstance(module, GraphModule):
            continue
        for node in module.graph.nodes:
            if node.op == "call_function":
                _check_call(module, node)
        _check_views(module)


def _check_inputs(exported: ExportedProgram) -> None:
    placeholders = [node for node in exported.graph.nodes if node.op == "placeholder"]
    specs = exported.graph_signature.input_specs
    names = [getattr(spec.arg, "name", "") for spec in specs]
    if names != [node.name for node in placeholders] or len({*names}) != len(names):
        raise DisagreementError("the inputs of the signature are not those of the graph")
    if any(node.target == "self" for node in placeholders):
        # It is written into the source of a method.
        raise DisagreementError("an input of the graph is called self")
    users = [spec for spec in specs if spec.kind is InputKind.USER_INPUT]
    leaves = exported.call_spec.in_spec.num_leaves
    if leaves != len(users):
        raise DisagreementError(f"the program takes {leaves} values, and its signature {len(users)}")
    if len(exported.call_spec.in_spec.children()) != 2:
        raise DisagreementError("the program does not take positional and keyword arguments")
    _check_names(exported)
    for spec, node in zip(specs, placeholders, strict=True):
        if spec.kind in _HELD:
            _check_held(exported, spec, node)
        value = node.meta.get("val")
        if not isinstance(spec.arg, ConstantArgument) and spec.kind is InputKind.USER_INPUT and value is None:
            raise DisagreementError(f"nothing is said of the input {node.name}")


def _check_names(exported: ExportedProgram) -> None:
    """The names of the arguments of ``forward``, of which its source is made."""
    names = exported.module_call_graph[0].signature.forward_arg_names or ()
    by_place, by_name = exported.call_spec.in_spec.children()
    if len({*names}) != len(names):
        raise DisagreementError("two arguments of forward have one name")
    if {*names[: by_place.num_children]} & {*(by_name.context or ())}:
        raise DisagreementError("an argument of forward is given by place and by name")


def _check_held(exported: ExportedProgram, spec: InputSpec, node: Node) -> None:
    target = str(spec.target)
    held = exported.state_dict.get(target, exported.constants.get(target))
    if not isinstance(held, torch.Tensor):
        raise DisagreementError(f"there is no tensor {target}, which the graph takes as {node.name}")
    if spec.kind is InputKind.BUFFER and isinstance(held, torch.nn.Parameter):
        raise DisagreementError(f"{target} is a parameter, and the graph takes it as a buffer")
    said = node.meta.get("val")
    if not isinstance(said, torch.Tensor):
        raise DisagreementError(f"{node.name} is said to be no tensor, and {target} is one")
    sizes = [size for size in said.shape if isinstance(size, int)]
    if len(sizes) == said.dim() and tuple(sizes) != tuple(held.shape):
        raise DisagreementError(f"{target} has the sizes {tuple(held.shape)}, and {node.name} is said to have {sizes}")


def _check_call(module: GraphModule, node: Node) -> None:
    target: Any = node.target
    if isinstance(target, OpOverload):
        fault = _fault(target, node)
    else:
        called = target.__call__ if isinstance(target, HigherOrderOperator) else target
        fault = _binding_fault(called, node) or _branch_fault(module, node)
    if fault:
        name = str(target) if isinstance(target, OpOverload) else getattr(target, "__name__", str(target))
        raise DisagreementError(f"the node {node.name} calls {name}: {fault}")


def _fault(op: OpOverload, node: Node) -> str:
    arguments = op._schema.arguments
    positional = [argument.name for argument in arguments if not argument.kwarg_only]
    if len(node.args) > len(positional):
        return f"it takes {len(positional)} arguments by place, not {len(node.args)}"
    given = dict(zip(positional, node.args, strict=False))
    known = {argument.name for argument in arguments}
    for name, value in node.kwargs.items():
        if name not in known or name in given:
            return f"it takes no {name}" if name not in known else f"it is given {name} twice"
        given[name] = value
    for argument in arguments:
        if argument.name not in given:
            if not argument.has_default_value():
                return f"it is not given {argument.name}"
        elif not _fits(given[argument.name], argument.type):
            return f"what it is given as {argument.name} is no {argument.type}"
    if op._schema.name == "aten::segment_reduce" and given.get("unsafe"):
        raise BeyondMemoryError(node.name, str(op), "it is told to leave its lengths unchecked")
    reach = reach_of_sizes(op, node.args, node.kwargs, stated_sizes)
    if reach:
        raise BeyondMemoryError(node.name, str(op), reach)
    return dim_fault(op._schema.name, given) or _result_fault(op, node)


def _result_fault(op: OpOverload, node: Node) -> str:
    returns = op._schema.returns
    value = node.meta.get("val")
    if len(returns) == 1 and str(returns[0].type) == "Tensor" and not isinstance(value, torch.Tensor):
        return "it gives a tensor, and is said to give none"
    if len(returns) > 1 and (not isinstance(value, (tuple, list)) or len(value) != len(returns)):
        return f"it gives {len(returns)} values, and is said to give others"
    return ""


def _fits(value: Any, kind: Any) -> bool:
    """Whether an argument is of a kind that the schema allows; kinds that are not in the table are not judged."""
    if isinstance(value, Node):
        if "val" not in value.meta:
            return True
        value = value.meta["val"]
    name = kind.kind()
    if name == "OptionalType":
        return value is None or _fits(value, kind.getElementType())
    if name == "ListType":
        inner = kind.getElementType()
        if isinstance(value, (list, tuple)):
            return all(_fits(each, inner) for each in value)
        # One number stands for as many as there are dims.
        return inner.kind() != "TensorType" and _fits(value, inner)
    fitting = _FITTING.get(name)
    return fitting is None or isinstance(value, fitting)


def _binding_fault(function: Any, node: Node) -> str:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a builtin that does not say what it takes
        return ""
    try:
        signature.bind(*node.args, **node.kwargs)
    except TypeError as error:
        return str(error)
    return ""


def _branch_fault(module: GraphModule, node: Node) -> str:
    """Whether graphs that a branch or a loop runs take as many values as it hands them."""
    name = getattr(node.target, "__name__", "")
    counts = {"cond": (1, 3), "while_loop": (0, 2), "map_impl": (0, 1)}.get(name)
    if counts is None or not isinstance(node.target, HigherOrderOperator):
        return ""
    first, last = counts
    handed = 0
    for operands in node.args[last:]:
        if not isinstance(operands, (list, tuple)):
            return "what it hands on is no list"
        handed += len(operands)
    for graph in node.args[first:last]:
        child = subgraph_of(module, graph) if isinstance(graph, Node) else None
        if child is None:
            return "a branch of it is no graph"
        taken = len(child.graph.find_nodes(op="placeholder"))
        if taken != handed:
            return f"it hands on {handed} values to a graph that takes {taken}"
    return ""


def _check_views(module: GraphModule) -> None:
    """That views by strides stay within the memory of their tensor, at the sizes of the example."""
    roots: dict[Node, Node] = {}
    for node in module.graph.nodes:
        op = node.target
        if not isinstance(op, OpOverload) or op._schema.name not in (_STRIDED | _RELABELLED):
            continue
        roots = roots or alias_roots(module.graph)
        given = named_arguments(node, op)
        base, start = given["self"], given.get("storage_offset")
        # One number stands for a list of one.
        lists = [each if isinstance(each, (list, tuple)) else [each] for each in (given["size"], given["stride"])]
        if len(lists[0]) != len(lists[1]):
            raise DisagreementError(f"the node {node.name} is given sizes and strides of different numbers")
        own, whole = (
            each.meta.get("val") if isinstance(each, Node) else None for each in (base, roots.get(base, base))
        )
        if not isinstance(own, torch.Tensor) or not isinstance(whole, torch.Tensor):
            continue
        if start is None:
            start = 0 if op._schema.name in _RELABELLED else own.storage_offset()
        memory, read = _elements(whole.storage_offset(), whole.shape, whole.stride()), _elements(start, *lists)
        if memory is None or read is None:
            continue
        if read > memory:
            reason = f"it reads element {read - 1:,} of a tensor that has {memory:,} in memory"
            raise BeyondMemoryError(node.name, str(op), reason)
        if any((_number(each) or 0) < 0 for each in (start, *lists[0], *lists[1])):
            raise BeyondMemoryError(node.name, str(op), "it is given a negative size, stride or offset")


def _elements(start: Any, sizes: Sequence[Any], strides: Sequence[Any]) -> int | None:
    """The elements in memory up to the last one of a tensor; ``None`` where the example does not tell."""
    numbers = [_number(each) for each in (start, *sizes, *strides)]
    known = [number for number in numbers if number is not None]
    if len(known) < len(numbers):
        return None
    pairs = list(zip(known[1 : 1 + len(sizes)], known[1 + len(sizes) :], strict=True))
    return 1 + known[0] + sum((size - 1) * step for size, step in pairs) if all(size > 0 for size, _ in pairs) else 0


def _number(value: Any) -> int | None:
    """A size at the example."""
    if isinstance(value, Node):
        value = value.meta.get("val")
    hint = value.node.hint if isinstance(value, torch.SymInt) else value
    return int(hint) if isinstance(hint, int) else None
