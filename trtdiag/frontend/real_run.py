"""Runs an exported program on tensors: what shapes alone do not show is whether its ops take the sizes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from enum import Enum
from io import StringIO
from typing import Any

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Interpreter, Node
from torch.fx.node import map_arg
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from trtdiag.frontend.bounds_checked_run import BeyondTensorsError, trusted_calls_checked
from trtdiag.frontend.fake_run import (
    FailsAtExampleError,
    NotRunnableError,
    ShapeRunner,
    most_elements,
    put_back,
)
from trtdiag.frontend.model_comparison import difference
from trtdiag.frontend.node_origins import origin_of
from trtdiag.frontend.program import InputDim, InputTensor
from trtdiag.frontend.sized_inputs import InputMaker
from trtdiag.graph.content_flow import depends_on_contents
from trtdiag.graph.index_inputs import index_inputs
from trtdiag.graph.operators import target_name
from trtdiag.graph.source import NO_STACK, Stack
from trtdiag.graph.values import NodeReader, NumberValue, TensorValue
from trtdiag.symbolic import Expr, free_symbols
from trtdiag.wording import first_line

MOST_ELEMENTS = 1 << 24
"""Of one tensor, input or between: 64 MiB of float32.  Own choice, as an op on that many takes about a second."""


class RunOutcome(Enum):
    """How a run ended."""

    PASSED = "passed"
    REFUSED = "refused"  # an op does not take these sizes, whatever the inputs hold
    UNDECIDED = "undecided"  # it fails for what the inputs hold, or may
    UNRUN = "unrun"  # too much to run


@dataclass(frozen=True)
class Failing:
    """The op that failed: its name, node and source lines, and the dims of its tensors over the program's symbols."""

    op: str = ""
    node: str = ""
    stack: Stack = NO_STACK
    dims: tuple[tuple[Expr, ...], ...] = ()


@dataclass(frozen=True)
class Ran:
    """One run: how it ended, torch's words or why it was not run, and the op that failed where it is known."""

    outcome: RunOutcome
    words: str = ""
    failing: Failing = Failing()


class _StoppedError(Exception):
    """A run that was stopped: why, as a readable clause."""


class RealRunner:
    """Runs one program on tensors at any number of points.

    Floats are drawn, integers and masks are the example's (`InputMaker`).  Attention is computed by PyTorch's own
    matmuls: its fused kernel for the CPU reads beyond the end of values that are shorter than their keys.

    Args:
        exported: The program; its buffers are put back after each run.
        inputs: Its user inputs in order, sizes over the symbols of the points.
        args: Example inputs.
        kwargs: The same.
        seconds: For all runs together.
        model: What the program was made of.  At sizes of 0 and 1 both must give the same: torch traces as if there were
            none, and leaves no guard where the model goes another way there.

    Raises:
        NotRunnableError: It cannot run at all: it holds no data, or fails at the example itself.
    """

    def __init__(
        self,
        exported: ExportedProgram,
        inputs: Sequence[InputTensor],
        args: Any,
        kwargs: Any,
        seconds: float,
        model: torch.nn.Module | None = None,
    ) -> None:
        self._model = model
        self._alike_at_example: bool | None = None
        self._shapes = ShapeRunner(exported, inputs, args, kwargs)
        self._leaves, self._spec = pytree.tree_flatten((tuple(args), dict(kwargs or {})))
        self._module: Any = exported.module()
        held = [*exported.state_dict.values(), *exported.constants.values(), *self._leaves]
        if any(isinstance(value, torch.Tensor) and value.is_meta for value in held):
            raise NotRunnableError("the model is on the meta device, without data")
        self._pointing = [
            tensor.placeholder in index_inputs(exported) and isinstance(leaf, torch.Tensor)
            for tensor, leaf in zip(inputs, self._leaves, strict=True)
        ]
        self._maker = InputMaker(inputs, self._leaves, index_inputs(exported))
        self._known = {symbol for tensor in inputs for dim in tensor.dims for symbol in free_symbols(dim.expr)}
        self._reader = NodeReader()
        self._deadline = time.monotonic() + seconds

    @property
    def out_of_time(self) -> bool:
        """Whether the seconds are over."""
        return time.monotonic() > self._deadline

    def size(self, dim: InputDim, point: Mapping[str, int]) -> int:
        """As `ShapeRunner.size`."""
        return self._shapes.size(dim, point)

    def check_example(self, hints: Mapping[str, int]) -> None:
        """Run at the example, where that is not too large.

        Raises:
            FailsAtExampleError: It fails there: what fails elsewhere then says nothing about sizes.
            BeyondTensorsError: It would reach beyond its tensors there.
        """
        if self._too_large(hints):
            self._model = None  # nothing shows that the two can be compared
            return
        error = self._error(self._leaves, _Watch(self._deadline))
        if isinstance(error, BeyondTensorsError):
            raise error
        if error is not None and not isinstance(error, _StoppedError):
            raise FailsAtExampleError(f"it fails at the example itself: {_words(error)}")

    def run(self, point: Mapping[str, int]) -> Ran:
        """Run at ``point`` (symbol -> value)."""
        if self.out_of_time:
            return Ran(RunOutcome.UNRUN, "the time for runs was over")
        why = self._too_large(point)
        if why:
            return Ran(RunOutcome.UNRUN, why)
        leaves = self._maker.at(point)
        first = self._tried(leaves)
        if first.outcome is RunOutcome.PASSED and not {0, 1}.isdisjoint(point.values()):
            return self._beside_model(self._maker.at(point)) or first
        if first.outcome is not RunOutcome.UNDECIDED or not any(self._pointing):
            return first
        # Indices that were repeated from the example may not fit these sizes; 0 fits whatever is not empty.
        zeros = [
            torch.zeros_like(leaf) if points else leaf for leaf, points in zip(leaves, self._pointing, strict=True)
        ]
        again = self._tried(zeros)
        return again if again.outcome is not RunOutcome.UNDECIDED else first

    def _beside_model(self, leaves: Sequence[Any]) -> Ran | None:
        """A refusal where the model gives something else than its program, which agrees with it at the example."""
        words = self._difference(leaves)
        if words and self._alike_at_example is None:
            self._alike_at_example = self._difference(self._leaves) == ""
        return (
            Ran(RunOutcome.REFUSED, words, Failing("a run beside the model"))
            if words and self._alike_at_example
            else None
        )

    def _difference(self, leaves: Sequence[Any]) -> str:
        """What the program gives in the place of what the model does; empty where they agree or nothing is known."""
        if self._model is None:
            return ""
        watch, results = _Watch(self._deadline), []
        for module in (self._module, self._model):
            copies = [leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
            args, kwargs = pytree.tree_unflatten(copies, self._spec)
            with put_back(self._model.buffers()), self._around(watch):
                try:
                    results.append(module(*args, **kwargs))
                except (_StoppedError, MemoryError, torch.OutOfMemoryError):
                    return ""
                except Exception as error:  # whatever the model raises, its program took the same
                    return (
                        "" if module is self._module else f"the program takes it, and the model raises {_words(error)}"
                    )
        words = difference(*results)
        return f"the program gives {words}, compared with the model" if words else ""

    def _too_large(self, point: Mapping[str, int]) -> str:
        try:
            count = self._shapes.most_elements(point)
        except NotRunnableError:  # data decide a size, or it is beyond all memory: the run itself is watched
            count = self._shapes.input_elements(point)
        return _large(count) if count > MOST_ELEMENTS else ""

    def _tried(self, leaves: Sequence[Any]) -> Ran:
        watch = _Watch(self._deadline)
        error = self._error(leaves, watch)
        if error is None:
            return Ran(RunOutcome.PASSED)
        if isinstance(error, _StoppedError):
            return Ran(RunOutcome.UNRUN, str(error))
        words = _words(error)
        if isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in words:
            return Ran(RunOutcome.UNRUN, words)
        if isinstance(error, NotImplementedError) or "not implemented for" in words:
            return Ran(RunOutcome.UNDECIDED, words)
        search = _Search(self._module)
        with self._around(watch):
            node = search.failing(leaves)
            if node is None:  # refused before the first op: by the ranges of its inputs
                return Ran(RunOutcome.REFUSED, words)
            outcome = RunOutcome.REFUSED if self._by_sizes(node, search, watch, error) else RunOutcome.UNDECIDED
        return Ran(outcome, words, self._described(node))

    def _error(self, leaves: Sequence[Any], watch: _Watch) -> Exception | None:
        with self._around(watch):
            args, kwargs = pytree.tree_unflatten(list(leaves), self._spec)
            try:
                self._module(*args, **kwargs)
            except Exception as error:  # whatever the program raises is the answer
                return error
        return None

    @contextmanager
    def _around(self, watch: _Watch) -> Iterator[None]:
        """No gradients, no output, the same random state and buffers afterwards."""
        devices = sorted({leaf.device.index or 0 for leaf in self._leaves if _on_cuda(leaf)})
        with (
            put_back(self._module.buffers()),
            torch.no_grad(),
            torch.random.fork_rng(devices),
            redirect_stdout(StringIO()),
            redirect_stderr(StringIO()),
            sdpa_kernel(SDPBackend.MATH),
            watch,
            trusted_calls_checked(self._module),
        ):
            yield

    def _described(self, node: Node) -> Failing:
        values = [value for source in node.all_input_nodes for value in self._reader.read(source)]
        dims = tuple(value.dims for value in values if isinstance(value, TensorValue))
        name = "" if node.op == "call_module" else target_name(node.target)
        return Failing(name, node.name, origin_of(node).stack, dims)

    def _by_sizes(self, node: Node, search: _Search, watch: _Watch, error: Exception) -> bool:
        """Whether the op fails whatever the inputs hold, and none of its sizes comes from what they hold."""
        if node.op == "call_module":
            return True  # the guards of the program, which speak of sizes alone
        if type(error).__name__ == "LinAlgError" or self._sized_by_data(node):
            return False
        if not depends_on_contents(node):
            return True
        if _chooses_by_mask(node, search):
            return False
        if isinstance(node.target, OpOverload):
            return all(search.fails_again(node, ones=ones) for ones in (False, True))
        # A branch or loop: the call inside of it that failed, all of whose integers may come from the inputs.
        return watch.failed is not None and all(_fails(watch.failed, ones=ones) for ones in (False, True))

    def _sized_by_data(self, node: Node) -> bool:
        for source in (node, *node.all_input_nodes):
            for value in self._reader.read(source):
                found = value.dims if isinstance(value, TensorValue) else ()
                if isinstance(value, NumberValue) and value.expr is not None:
                    found = (value.expr,)  # type: ignore[assignment]  # a condition has symbols as well
                if any(free_symbols(each) - self._known for each in found):
                    return True
        return False


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    """Stops a run that takes too long or too much, between two ops, and keeps the call that failed."""

    supports_higher_order_operators = True  # a branch runs op by op like the rest

    def __init__(self, deadline: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._deadline = deadline
        self.failed: tuple[Any, Any, Any] | None = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if time.monotonic() > self._deadline:
            raise _StoppedError("the time for runs was over")
        try:
            given = func(*args, **(kwargs or {}))
        except Exception:
            self.failed = (func, args, kwargs or {})
            raise
        most = most_elements(given)
        if most > MOST_ELEMENTS:
            raise _StoppedError(_large(most))
        return given


class _Search(Interpreter):
    """Finds the node that fails."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module)
        self._at: Node | None = None

    def failing(self, leaves: Sequence[Any]) -> Node | None:
        """The node; ``None`` where none fails."""
        try:
            self.run(*leaves, enable_io_processing=False)
        except Exception as error:  # the caller has it already
            del error
        return self._at

    def run_node(self, n: Node) -> Any:
        try:
            return super().run_node(n)
        except Exception:
            if self._at is None and n.op in ("call_function", "call_module"):
                self._at = n
            raise

    def fails_again(self, node: Node, *, ones: bool) -> bool:
        """Whether the failed node fails also where what comes from the inputs' contents is another."""

        def given(source: Node) -> Any:
            value = self.env[source]
            return (
                pytree.tree_map(lambda leaf: _other(leaf, ones=ones), value) if depends_on_contents(source) else value
            )

        return _raises(node.target, map_arg(node.args, given), map_arg(node.kwargs, given))

    def value(self, node: Node) -> Any:
        """What a node before the failed one gave."""
        return self.env.get(node)


def _fails(call: tuple[Any, Any, Any], *, ones: bool) -> bool:
    op, args, kwargs = call
    args, kwargs = pytree.tree_map(lambda leaf: _other(leaf, ones=ones), (args, kwargs))
    return _raises(op, args, kwargs)


def _other(value: Any, *, ones: bool) -> Any:
    """0 for all integers, and 1 for all floats where that is asked."""
    if not isinstance(value, torch.Tensor):
        return value
    if not value.dtype.is_floating_point:
        return torch.zeros_like(value)
    return torch.ones_like(value) if ones else value


def _raises(op: Any, args: Any, kwargs: Any) -> bool:
    try:
        op(*args, **kwargs)
    except _StoppedError:
        return False
    except Exception:  # that it fails is the answer
        return True
    return False


def _chooses_by_mask(node: Node, search: _Search) -> bool:
    """Whether a mask among the indices says how many elements the call reads or writes."""
    if "index" not in target_name(node.target) or len(node.args) < 2:
        return False
    indices = pytree.tree_leaves(map_arg(node.args[1], search.value))
    return any(isinstance(leaf, torch.Tensor) and leaf.dtype in (torch.bool, torch.uint8) for leaf in indices)


def _large(count: int) -> str:
    return f"a tensor of {count:,} elements"


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {first_line(error, 'no message')}"


def _on_cuda(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.device.type == "cuda"
