"""What quantizing costs: each op by itself, all together, and all but one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Interpreter, Node

from trtdiag.calibration.facts import OpLoss, QuantizedOp, Quantizers
from trtdiag.calibration.observe import Batch, module_of, own_copy
from trtdiag.calibration.scales import after_quantizing, after_quantizing_weight
from trtdiag.frontend.call_leaves import call_leaves
from trtdiag.graph.operators import writes

WORST = 48
"""Ops that are left in floats one by one, to measure what that wins back: those that lose most by themselves."""
_RUNS = 96
"""Own choice: runs of the program for that; measuring takes about as long as calibrating with so many batches."""
_KEPT_BYTES = 2**30
_FEWEST, _MOST = 2, 8
"""Batches that errors are measured on."""


class Squares:
    """Sums of squares of what a tensor is off and of the tensor itself, over batches."""

    def __init__(self) -> None:
        self._off = self._whole = 0.0

    def add(self, exact: torch.Tensor, other: torch.Tensor) -> None:
        """Compare two tensors; where the exact one has no finite number nothing is compared."""
        exact, other = exact.detach(), other.detach()
        size = _squares(exact)
        if not math.isfinite(size):
            finite = torch.isfinite(exact)
            exact, other = exact[finite], other[finite]
            size = _squares(exact)
        self._off += _squares(other - exact)
        self._whole += size

    @property
    def error(self) -> float:
        """The root mean square of what it is off, of that of the tensor; infinite where only the tensor is 0."""
        if not self._off:
            return 0.0
        return math.sqrt(self._off / self._whole) if self._whole else math.inf


def _squares(x: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(x, dtype=torch.float64)) ** 2


class Weights:
    """Weights as they are after quantizing, each computed once, up to ``_KEPT_BYTES`` of them."""

    def __init__(self) -> None:
        self._known: dict[str, torch.Tensor] = {}
        self._bytes = 0

    def rounded(self, op: QuantizedOp, weight: torch.Tensor) -> torch.Tensor:
        """The weight of an op."""
        if op.node in self._known:
            return self._known[op.node]
        made = after_quantizing_weight(weight, op.axis)
        if self._bytes + made.nbytes <= _KEPT_BYTES:
            self._known[op.node] = made
            self._bytes += made.nbytes
        return made


class Measured:
    """Runs a program in floats and quantized beside it.

    Args:
        exported: The program, its batch norms folded.
        quantizers: Of its ops.
        batches: What to run it on; some of them, spread over all, the fewer the more ops there are.
        step: Called with each run that begins, in words.
    """

    def __init__(
        self,
        exported: ExportedProgram,
        quantizers: Quantizers,
        batches: Sequence[Batch],
        step: Callable[[str], None],
    ) -> None:
        self._exported = exported
        self._ops = {op.node: op for op in quantizers.ops}
        self._step = step
        alone = max(1, min(len(self._ops), WORST))
        most = min(len(batches), max(_FEWEST, min(_MOST, _RUNS // alone)))
        chosen = [batches[len(batches) * each // most] for each in range(most)]
        self._calls = [call_leaves(exported, *batch) for batch in chosen]
        self._outputs: list[list[torch.Tensor]] = []
        self._weights = Weights()

    @property
    def batches(self) -> int:
        """How many batches errors are measured on."""
        return len(self._calls)

    def losses(self) -> tuple[float, tuple[OpLoss, ...]]:
        """The error of the outputs, and what each op loses and wins back, the one that wins most first."""
        self._step("measure each op")
        alone = {name: Squares() for name in self._ops}
        module = module_of(self._exported)
        self._outputs = [
            _floats(_Beside(module, self._ops, self._weights, alone).outputs(call)) for call in self._calls
        ]
        found = [OpLoss(op.node, op.op, op.module, alone[op.node].error) for op in self._ops.values()]
        found.sort(key=lambda loss: -loss.error)
        self._step("measure all ops together")
        whole = self._error_of(self._ops)
        for place, loss in enumerate(found[:WORST]):
            self._step(f"measure without {loss.node}")
            others = {name: op for name, op in self._ops.items() if name != loss.node}
            found[place] = replace(loss, error_without=self._error_of(others))
        found.sort(key=lambda loss: math.inf if loss.error_without is None else loss.error_without)
        return whole, tuple(found)

    def _error_of(self, ops: Mapping[str, QuantizedOp]) -> float:
        """The error of the worst output where these ops are quantized."""
        module = module_of(self._exported)
        sums: list[Squares] = []
        for call, exact in zip(self._calls, self._outputs, strict=True):
            outputs = _floats(_Quantized(module, ops, self._weights).outputs(call))
            sums = sums or [Squares() for _ in exact]
            for total, one, other in zip(sums, exact, outputs, strict=True):
                # Sizes that data decide may differ, and then nothing compares them.
                if one.shape == other.shape:
                    total.add(one, other)
        return max((total.error for total in sums), default=0.0)


class _Flat(Interpreter):
    """Runs a module on its leaves."""

    def outputs(self, leaves: Sequence[Any]) -> Iterator[Any]:
        with torch.no_grad():
            result = self.run(*own_copy(list(leaves)), enable_io_processing=False)
        yield from result if isinstance(result, (list, tuple)) else [result]


class _Quantized(_Flat):
    """Runs a module with some of its ops quantized."""

    def __init__(self, module: GraphModule, ops: Mapping[str, QuantizedOp], weights: Weights) -> None:
        super().__init__(module)
        self._ops = ops
        self._weights = weights

    def _rounded(self, args: Sequence[Any], op: QuantizedOp) -> list[Any]:
        taken = list(args)
        for each in op.inputs:
            taken[each.at] = after_quantizing(taken[each.at], each.scale)
        if op.weight is not None:
            taken[op.weight] = self._weights.rounded(op, taken[op.weight])
        return taken

    def run_node(self, n: Node) -> Any:
        op = self._ops.get(n.name)
        if op is None:
            return super().run_node(n)
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return n.target(*self._rounded(args, op), **kwargs)  # type: ignore[operator]  # an op


class _Beside(_Quantized):
    """Runs a module in floats, and each op on quantized inputs beside it."""

    def __init__(
        self, module: GraphModule, ops: Mapping[str, QuantizedOp], weights: Weights, sums: Mapping[str, Squares]
    ) -> None:
        super().__init__(module, ops, weights)
        self._sums = sums

    def run_node(self, n: Node) -> Any:
        op = self._ops.get(n.name)
        if op is None:
            return super().run_node(n)
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        taken = [each.clone() if isinstance(each, torch.Tensor) else each for each in args] if writes(n) else args
        beside = n.target(*self._rounded(taken, op), **kwargs)  # type: ignore[operator]  # an op
        exact = n.target(*args, **kwargs)  # type: ignore[operator]  # an op
        self._sums[n.name].add(exact, beside)
        return exact


def _floats(outputs: Iterator[Any]) -> list[torch.Tensor]:
    return [each for each in outputs if isinstance(each, torch.Tensor) and each.is_floating_point()]
