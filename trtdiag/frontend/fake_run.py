"""Runs an exported program on shapes: fake tensors of given sizes, guards on, no memory and no arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stderr, redirect_stdout
from io import StringIO
from math import prod
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from trtdiag.frontend.fake_call_cache import FakeCallCache
from trtdiag.frontend.program import InputDim, InputTensor
from trtdiag.graph.operators import operator_of, short_name
from trtdiag.graph.unbacked_symbols import BINDINGS
from trtdiag.symbolic import evaluate
from trtdiag.wording import first_line

_UNDECIDABLE = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    GuardOnDataDependentSymNode,
    NotImplementedError,
)


_OF_DATA = ("data-dependent", "expected to contain only concrete integers")


class NotRunnableError(Exception):
    """Shapes alone do not tell how this program goes on; the reason is a readable clause."""


class FailsAtExampleError(NotRunnableError):
    """The program fails with the very inputs that it was exported with."""


class ShapeRunner:
    """Runs one program at any number of points.

    Args:
        exported: The program.
        inputs: Its user inputs in order, sizes over the symbols of the points.
        args: Example inputs: their dtype, device and structure count, and the sizes of what is not dynamic.
        kwargs: The same.

    Raises:
        NotRunnableError: Its inputs have another structure than the example's.
    """

    def __init__(self, exported: ExportedProgram, inputs: Sequence[InputTensor], args: Any, kwargs: Any) -> None:
        self._leaves, self._spec = pytree.tree_flatten((tuple(args), dict(kwargs or {})))
        if len(self._leaves) != len(inputs):
            raise NotRunnableError("its inputs have another structure than the example's")
        self._inputs = inputs
        self._example = {
            dim.site: int(leaf.shape[dim.index])
            for leaf, tensor in zip(self._leaves, inputs, strict=True)
            if isinstance(leaf, torch.Tensor)
            for dim in tensor.dims
        }
        self._module: Any = _of_any_layout(exported.module())
        # Between the points most ops have sizes in common; a symbol of data is another one in each run.
        graphs = [each.graph for each in exported.graph_module.modules() if isinstance(each, GraphModule)]
        self._of_data = any(BINDINGS in node.meta for graph in graphs for node in graph.nodes)
        self._calls: dict[Any, Any] = {}

    def size(self, dim: InputDim, point: Mapping[str, int]) -> int:
        """The size of an input dim at ``point``; the example's where a symbol of it has no value there."""
        try:
            return int(evaluate(dim.expr, point))
        except KeyError:
            return self._example[dim.site]

    def refusal(self, point: Mapping[str, int]) -> str:
        """Why the program refuses the sizes of ``point`` (symbol -> value); empty where it takes them.

        Raises:
            NotRunnableError: What the program does depends on data.
        """
        return self._run(point, nullcontext())

    def most_elements(self, point: Mapping[str, int]) -> int:
        """The elements of the largest tensor at ``point``, as far as it runs there: its inputs and all between.

        Raises:
            NotRunnableError: What the program does depends on data, or such a tensor cannot be.
        """
        count = _Counting()
        self._run(point, count)
        if not isinstance(count.most, int):  # a count that is known to be the largest, and not how large
            raise NotRunnableError("data decide how large its largest tensor is")
        return count.most

    def input_elements(self, point: Mapping[str, int]) -> int:
        """The elements of the largest input at ``point``."""
        return max((prod(self.size(dim, point) for dim in tensor.dims) for tensor in self._inputs), default=0)

    def _run(self, point: Mapping[str, int], watch: AbstractContextManager[object]) -> str:
        # No size is symbolic here, so every guard of the program is decided by numbers.
        mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv())
        quiet = redirect_stdout(StringIO()), redirect_stderr(StringIO())
        # The formula of attention: what the fused kernels take is checked when they run, if at all.
        # Of tensors of one element FakeTensorMode follows the values, and so writes into them.
        single = [buffer for buffer in self._module.buffers() if buffer.numel() == 1]
        formula = sdpa_kernel(SDPBackend.MATH)
        calls = FakeCallCache(mode, None if self._of_data else self._calls)
        with put_back(single), mode, calls, torch.no_grad(), quiet[0], quiet[1], formula, watch:
            args, kwargs = pytree.tree_unflatten([self._fake(*pair, point) for pair in self._pairs()], self._spec)
            try:
                self._module(*args, **kwargs)
            except _UNDECIDABLE as error:
                raise NotRunnableError(f"{type(error).__name__}: {first_line(error, 'no message')}") from error
            except Exception as error:  # whatever refuses these sizes, its words are the answer
                # The second: no size is symbolic here but one that is read from a tensor, and this op wants a number.
                if isinstance(error.__context__, _UNDECIDABLE) or any(words in str(error) for words in _OF_DATA):
                    raise NotRunnableError(first_line(error, "no message")) from error
                return f"{type(error).__name__}: {first_line(error, 'no message')}"
        return ""

    def _pairs(self) -> Iterable[tuple[Any, InputTensor]]:
        return zip(self._leaves, self._inputs, strict=True)

    def _fake(self, leaf: Any, tensor: InputTensor, point: Mapping[str, int]) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        sizes = [self.size(dim, point) for dim in tensor.dims]
        try:
            return torch.empty(sizes, dtype=leaf.dtype, device=leaf.device)
        except RuntimeError as error:  # the bytes of such a tensor do not fit into 64 bits
            raise NotRunnableError(f"no tensor of {sizes} can be made: {first_line(error, 'no message')}") from error


def _of_any_layout(module: GraphModule) -> GraphModule:
    """``module`` that reshapes what attention gives, where it views it.

    Such a view was traced over the layout of a fused kernel, and runs with it; the formula lays its result out
    otherwise, and no view fits that.
    """
    laid: set[Node] = set()
    for node in module.graph.nodes:
        op = operator_of(node)
        if op is not None and short_name(op) == "scaled_dot_product_attention":
            laid.add(node)
        elif op is not None and node.args and node.args[0] in laid:
            if op is torch.ops.aten.view.default:
                node.target = torch.ops.aten.reshape.default
            if torch.Tag.pointwise in op.tags or any(given.alias_info for given in op._schema.returns):
                laid.add(node)
    module.recompile()
    return module


class _Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    """Notes the elements of the largest tensor that any op gives."""

    supports_higher_order_operators = True  # of conditions and loops, what they give

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.most = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = func(*args, **(kwargs or {}))
        self.most = max(self.most, most_elements(given))
        return given


@contextmanager
def put_back(tensors: Iterable[torch.Tensor]) -> Iterator[None]:
    """Afterwards the tensors hold what they held before."""
    before = [(tensor, tensor.detach().clone()) for tensor in tensors]
    try:
        yield
    finally:
        with torch.no_grad():
            for tensor, value in before:
                tensor.copy_(value)


def with_values(result: Any) -> Any:
    """``result`` of a model; raises a ``NotRunnableError`` where the model keeps what an export traced it with."""
    if any(isinstance(leaf, FakeTensor) for leaf in pytree.tree_leaves(result)):
        raise NotRunnableError("it keeps a tensor without values, of its export")
    return result


def most_elements(value: Any) -> int:
    """The elements of the largest of its tensors."""
    return max((leaf.numel() for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)), default=0)
