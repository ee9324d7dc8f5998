"""Plans what every tensor of a lowered graph is inside an engine, and says which ops types keep out of engines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch.fx import Node

from trtdiag.dtypes.facts import Role
from trtdiag.dtypes.intervals import Constants
from trtdiag.dtypes.plan_doubles import Doubles
from trtdiag.dtypes.plan_facts import Planned, PlannedTensor, TypePlan, no_counterpart
from trtdiag.dtypes.plan_integers import NARROW, Integers
from trtdiag.dtypes.plan_uint8 import is_cast, is_uint8_at_the_edge
from trtdiag.frontend.node_origins import stack_of
from trtdiag.graph.inputs import Placeholder, placeholders_of
from trtdiag.graph.limit import COMPLEX_VIEW, Limit
from trtdiag.graph.node_kinds import NodeKind, attribute_of, classify
from trtdiag.graph.operators import named_arguments, operator_of, schema_name
from trtdiag.graph.quantizers import QUANTIZED_DTYPES, makes_floats
from trtdiag.graph.values import leaves
from trtdiag.lower.lowered_facts import Lowered
from trtdiag.symbolic.ranges import Range
from trtdiag.targets.target import Target
from trtdiag.wording import dtype_text

_VIEWS = frozenset({"aten::view_as_real", "aten::view_as_complex", "aten::resolve_conj"})
_VIEWED = "between complex numbers of PyTorch and an engine it is a view of pairs of real ones, which copies nothing"
_FIXED = "give it a length of small factors, or one of at most 512 (torch.fft.rfft(x, n=512)), or leave it to PyTorch"
_REAL = "write it with real and imaginary part (torch.view_as_real), or leave it to PyTorch"
_DOUBLE = "pass truncate_double=True (--truncate-double), or use complex64"


def complex_limit(node: Node, why: str, target: str) -> Limit:
    """The limit of an op that takes or gives complex tensors.

    Args:
        node: The op.
        why: Why lowering left it as it is; empty where it says nothing.
        target: ``TensorRT 11.4 has no complex64``.
    """
    op = operator_of(node)
    name = "" if op is None else schema_name(op)
    if not why and name in _VIEWS:
        return Limit(COMPLEX_VIEW, _VIEWED, "take and return real tensors (torch.view_as_real)")
    if not why:
        return Limit("no-counterpart", f"it takes or gives complex numbers, and {target}", _REAL)
    fix = _DOUBLE if "truncate_double" in why else _FIXED if name.startswith("aten::_fft") else _REAL
    return Limit("no-counterpart", why, fix)


# What networks compute with; int8 and smaller stand for quantized values in TensorRT, not for numbers.
_COMPUTED = frozenset({torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.bool})
_WORDS = {Role.INPUT: "input", Role.CONSTANT: "constant", Role.INNER: "operand"}


def plan_types(
    lowered: Lowered,
    ranges: Mapping[str, Range],
    target: Target,
    *,
    truncate_double: bool,
    names: Mapping[str, str] | None = None,
    constants: Constants | None = None,
) -> TypePlan:
    """Return the engine dtype of every tensor, and a limit for every op that has a tensor without one.

    Args:
        lowered: The graph, after precision.
        ranges: Of its symbols.
        target: What the engines are for.
        truncate_double: Whether float64 may become float32.
        names: Of symbols, for the text.
        constants: Spans of the tensors that were read before.

    Cost: linear in nodes; values are followed through the graph only where integers must be narrowed.
    """
    roles = placeholders_of(lowered.signature, lambda name, _target: lowered.tensors.get(name))
    integers = Integers(lowered, ranges, roles, names or {}, constants or {})
    return _Planning(lowered, target, roles, truncate_double, integers).plan()


@dataclass(frozen=True)
class _Tensor:
    """One tensor of a node: its dtype in the program, and what was planned for it."""

    dtype: torch.dtype
    planned: Planned


@dataclass
class _Planning:
    lowered: Lowered
    target: Target
    roles: Mapping[str, Placeholder]
    truncate_double: bool
    integers: Integers

    def __post_init__(self) -> None:
        self._doubles = Doubles(self.truncate_double, self._held)
        self._tensors: dict[Node, tuple[_Tensor, ...]] = {}
        self._left = {limit.node: limit.why for limit in self.lowered.limits}

    def plan(self) -> TypePlan:
        graph = self.lowered.graph_module.graph
        limits: dict[str, Limit] = {}
        for node in graph.nodes:
            self._tensors[node] = tuple(self._planned(node, value) for value in _tensors_of(node))
            limit = self._limit(node)
            if limit is not None:
                limits[node.name] = limit
        return TypePlan(
            target=self.target.version,
            engine={
                node.name: tuple(each.planned.dtype or each.dtype for each in found)
                for node, found in self._tensors.items()
            },
            limits=limits,
            entries=tuple(self._entries()),
        )

    def _planned(self, node: Node, value: torch.Tensor) -> _Tensor:
        dtype = value.dtype
        if dtype in _COMPUTED and dtype_text(dtype) in self.target.dtypes:
            planned = Planned(dtype)
        elif dtype == torch.float64:
            planned = self._doubles.planned(node, value)
        elif dtype == torch.uint8 and "uint8" in self.target.edge_dtypes and is_uint8_at_the_edge(node, self._held):
            planned = Planned(torch.uint8, "enters or leaves next to its cast")
        elif dtype in QUANTIZED_DTYPES and self._is_dequantized_weight(node, dtype):
            planned = Planned(dtype, "it is dequantized where it is read")
        elif dtype == torch.float8_e4m3fn and not _rounds_by_example(node):
            planned = Planned(torch.float32, f"float32 holds every {dtype_text(dtype)}")
        elif dtype in NARROW:
            planned = Planned(torch.int32, f"int32 holds every {dtype_text(dtype)}")
        elif dtype == torch.int64:
            planned = self.integers.narrowed(node)
        else:
            planned = no_counterpart(dtype, self.target.name_without(dtype_text(dtype)))
        return _Tensor(dtype, planned)

    def _is_dequantized_weight(self, node: Node, dtype: torch.dtype) -> bool:
        """Return whether a constant of few bits is read by nothing but ops that make floats of it."""
        has = dtype_text(dtype) in self.target.dtypes and "Dequantize" in self.target.layers
        return has and self._held(node) is not None and bool(node.users) and all(map(makes_floats, node.users))

    def _limit(self, node: Node) -> Limit | None:
        """Return why types keep an op out of engines; other nodes are in none by themselves."""
        if classify(node) not in (NodeKind.OP, NodeKind.NO_OP) or node.op != "call_function":
            return None
        touched = [each for source in (*node.all_input_nodes, node) for each in self._tensors[source]]
        complex_one = next((each for each in touched if each.dtype.is_complex), None)
        if complex_one is not None:
            return complex_limit(node, self._left.get(node.name, ""), complex_one.planned.why)
        for source in node.all_input_nodes:
            for each in self._tensors[source]:
                if each.planned.dtype is None:
                    return each.planned.limit(f"its {_WORDS[self._role(source)]} {source.name}", each.dtype)
        for index, each in enumerate(self._tensors[node]):
            if each.planned.dtype is None and _is_read(node, index):
                return each.planned.limit("its result", each.dtype)
        if any(each.dtype == torch.float64 for each in touched):
            return self._doubles.limit(node)
        narrowed = {each.dtype for each in touched if each.planned.dtype != each.dtype}
        return self.integers.limit(node, narrowed) if narrowed else None

    def _entries(self) -> Iterator[PlannedTensor]:
        returned = {source for node in self._tensors if node.op == "output" for source in node.all_input_nodes}
        for node, found in self._tensors.items():
            kind = classify(node)
            # A node with several outputs is reported through the nodes that pick them.
            if len(found) != 1 or (not node.users and kind in (NodeKind.PLACEHOLDER, NodeKind.ATTRIBUTE)):
                continue
            each = found[0]
            if each.planned.dtype != each.dtype:
                role = Role.OUTPUT if node in returned and self._role(node) is Role.INNER else self._role(node)
                frame = stack_of(self.lowered.origins, node.name).best
                yield PlannedTensor(node.name, role, each.dtype, each.planned.dtype, each.planned.why, frame)

    def _role(self, node: Node) -> Role:
        if node.op == "get_attr":
            return Role.CONSTANT
        if node.op != "placeholder":
            return Role.INNER
        known: Placeholder | None = self.roles.get(node.name)
        return Role.CONSTANT if known is not None and known.held and not known.changed else Role.INPUT

    def _held(self, node: Node) -> torch.Tensor | None:
        """Return the value of a constant; ``None`` for anything else."""
        if self._role(node) is not Role.CONSTANT:
            return None
        known = self.roles.get(node.name) if node.op == "placeholder" else None
        value = attribute_of(self.lowered.graph_module, node) if known is None else known.tensor
        return value if isinstance(value, torch.Tensor) else None


def _rounds_by_example(node: Node) -> bool:
    """Whether it is a cast that takes its dtype from another tensor, which converters do not see."""
    op = operator_of(node)
    return op is not None and is_cast(node) and "dtype" not in named_arguments(node, op)


def _tensors_of(node: Node) -> list[torch.Tensor]:
    if node.op == "output":
        return []
    return [value for value in leaves(node.meta.get("val")) if isinstance(value, torch.Tensor)]


def _is_read(node: Node, index: int) -> bool:
    """Whether anything takes this output; one that nobody picks is never computed."""
    if not isinstance(node.meta.get("val"), (list, tuple)):
        return True
    return any(classify(user) is not NodeKind.ELEMENT or user.args[1] == index for user in node.users)
