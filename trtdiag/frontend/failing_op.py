"""Finds the op at which a run on tensors fails, and whether it fails for the sizes or for what the inputs hold."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import GraphModule, Interpreter, Node
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from trtdiag.frontend.fake_run import most_elements
from trtdiag.frontend.node_origins import origin_of
from trtdiag.graph.node_kinds import reached
from trtdiag.graph.operators import OF_SIZES, schema_name, target_name
from trtdiag.graph.source import NO_STACK, Stack
from trtdiag.graph.values import NodeReader, NumberValue, TensorValue
from trtdiag.symbolic import Expr, free_symbols

MOST_ELEMENTS = 1 << 24
"""Of one tensor, input or between: 64 MiB of float32.  Own choice, as an op on that many takes about a second."""


_REPEATS = "aten::repeat_interleave"


@dataclass(frozen=True)
class Failing:
    """The op that failed: its name, node and source lines, and the dims of its tensors over the program's symbols."""

    op: str = ""
    node: str = ""
    stack: Stack = NO_STACK
    dims: tuple[tuple[Expr, ...], ...] = ()


class StoppedError(Exception):
    """A run that was stopped: why, as a readable clause."""


class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    """Stops a run that takes too long or too much, between two ops, and keeps the call that failed."""

    supports_higher_order_operators = True  # a branch runs op by op like the rest

    def __init__(self, deadline: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._deadline = deadline
        self.failed: tuple[Any, Any, Any] | None = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if time.monotonic() > self._deadline:
            raise StoppedError("the time for runs was over")
        try:
            given = func(*args, **(kwargs or {}))
        except Exception:
            self.failed = (func, args, kwargs or {})
            raise
        most = most_elements(given)
        if most > MOST_ELEMENTS:
            raise StoppedError(too_many(most))
        return given


def too_many(count: int) -> str:
    """Why a tensor of so many elements is not made."""
    return f"a tensor of {count:,} elements"


class Search(Interpreter):
    """Finds the node that fails.

    Args:
        module: The program's.
        watch: Around the runs.
        known: The symbols of the inputs' sizes.
    """

    def __init__(self, module: GraphModule, watch: Watch, known: Collection[str]) -> None:
        super().__init__(module)
        self._watch = watch
        self._known = known
        self._reader = NodeReader()
        self._at: Node | None = None

    def failing(self, leaves: Sequence[Any]) -> Node | None:
        """The node; ``None`` where none fails."""
        try:
            self.run(*leaves, enable_io_processing=False)
        except Exception as error:  # the caller has it already
            del error
        return self._at

    def run_node(self, n: Node) -> Any:
        """Run one node, and keep the first that fails."""
        try:
            return super().run_node(n)
        except Exception:
            if self._at is None and n.op in ("call_function", "call_module"):
                self._at = n
            raise

    def described(self, node: Node) -> Failing:
        """The op of a node."""
        values = [value for source in node.all_input_nodes for value in self._reader.read(source)]
        dims = tuple(value.dims for value in values if isinstance(value, TensorValue))
        name = "" if node.op == "call_module" else target_name(node.target)
        return Failing(name, node.name, _user_stack(node), dims)

    def by_sizes(self, node: Node, error: Exception) -> bool:
        """Whether the node fails whatever the inputs hold, and none of its sizes comes from what they hold."""
        if node.op == "call_module":
            return True  # the guards of the program, which speak of sizes alone
        if type(error).__name__ == "LinAlgError" or self._sized_by_data(node):
            return False
        if not depends_on_contents(node):
            return True
        if self._chooses_by_mask(node) or _asks_data_alone(node):
            return False
        if isinstance(node.target, OpOverload):
            if schema_name(node.target) == _REPEATS:  # neither 0 nor 1 tells whether some have the sum that is asked
                return False
            return _always_fails(node.target, lambda other: map_arg((node.args, node.kwargs), self._with(other)))
        # A branch or loop: the call inside of it that failed, all of whose integers may come from the inputs.
        if self._watch.failed is None:
            return False
        op, *given = self._watch.failed
        return _always_fails(op, lambda other: pytree.tree_map(other, given))

    def _with(self, other: Callable[[Any], Any]) -> Callable[[Node], Any]:
        """The value that a node before the failed one gave, another in the place of the inputs' contents."""

        def given(source: Node) -> Any:
            value = self.env[source]
            return pytree.tree_map(other, value) if depends_on_contents(source) else value

        return given

    def _sized_by_data(self, node: Node) -> bool:
        for source in (node, *node.all_input_nodes):
            for value in self._reader.read(source):
                found = value.dims if isinstance(value, TensorValue) else ()
                if isinstance(value, NumberValue) and value.expr is not None:
                    found = (value.expr,)  # type: ignore[assignment]  # a condition has symbols as well
                if any(free_symbols(each) - set(self._known) for each in found):
                    return True
        return False

    def _chooses_by_mask(self, node: Node) -> bool:
        """Whether a mask among the indices says how many elements the call reads or writes."""
        if "index" not in target_name(node.target) or len(node.args) < 2:
            return False
        indices = pytree.tree_leaves(map_arg(node.args[1], self.env.get))
        return any(isinstance(leaf, torch.Tensor) and leaf.dtype in (torch.bool, torch.uint8) for leaf in indices)


def _user_stack(node: Node) -> Stack:
    """The lines of a node; of a check that torch itself wrote into the graph those of what it asks about."""
    waiting = [node]
    for here in waiting:
        stack = origin_of(here).stack
        if stack.best is not None:
            return stack
        waiting += [each for each in here.all_input_nodes if each not in waiting]
    return origin_of(node).stack


def _always_fails(op: Any, given: Callable[[Callable[[Any], Any]], Any]) -> bool:
    """Whether a call fails also with 0 in the place of all given integers, and then with 1 in that of all floats."""
    for other in (_zeros, _zeros_and_ones):
        args, kwargs = given(other)
        try:
            op(*args, **kwargs)
        except StoppedError:
            return False
        except Exception:  # that it fails is the answer
            continue
        return False
    return True


def _zeros(value: Any) -> Any:
    is_number = isinstance(value, torch.Tensor) and not value.dtype.is_floating_point
    return torch.zeros_like(value) if is_number else value


def _zeros_and_ones(value: Any) -> Any:
    is_float = isinstance(value, torch.Tensor) and value.dtype.is_floating_point
    return torch.ones_like(value) if is_float else _zeros(value)


def depends_on_contents(node: Node) -> bool:
    """Whether a path leads to ``node`` from an input, other than through sizes (``arange(x.shape[1])``).

    Args:
        node: Of a graph whose placeholders are the user's inputs, weights and buffers being attributes.

    Cost: linear in the nodes before it.
    """
    before = reached([node], lambda here: () if _of_sizes(here) else here.all_input_nodes)
    return any(here.op == "placeholder" for here in before)


def _of_sizes(node: Node) -> bool:
    """Whether the call reads nothing of its tensors but sizes, dtype and device."""
    if not isinstance(node.target, OpOverload):
        return False
    name = schema_name(node.target)
    return name in OF_SIZES or name.endswith("_like") or name.startswith("aten::new_")


def _asks_data_alone(node: Node) -> bool:
    """Whether a check speaks of numbers from data and of no size: what other contents fail it as well is no proof.

    How many placeholders of images a text has, for instance: it is right for the example alone, at any length.
    """
    if node.target is not torch.ops.aten._assert_scalar.default:
        return False
    seen, waiting = set(), list(node.all_input_nodes)
    while waiting:
        number = waiting.pop()
        if number in seen or any(isinstance(given.meta.get("val"), torch.Tensor) for given in number.all_input_nodes):
            if target_name(number.target).startswith(("aten.sym_size", "aten.sym_numel", "aten.sym_stride")):
                return False
            seen.add(number)
            continue
        if number.op == "placeholder":
            return False
        seen.add(number)
        waiting += number.all_input_nodes
    return True
