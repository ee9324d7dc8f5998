"""Runs an exported program on tensors: what shapes alone do not show is whether its ops take the sizes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from io import StringIO
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import _pytree as pytree

from trtdiag.frontend.bounds_checked_run import BeyondTensorsError, trusted_calls_checked
from trtdiag.frontend.failing_op import MOST_ELEMENTS, Failing, Search, StoppedError, Watch, too_many
from trtdiag.frontend.fake_run import FailsAtExampleError, NotRunnableError, ShapeRunner, put_back, with_values
from trtdiag.frontend.program import InputTensor
from trtdiag.frontend.result_difference import difference
from trtdiag.frontend.sized_inputs import SEED, InputMaker
from trtdiag.graph.index_inputs import ends_of_offsets, index_inputs
from trtdiag.symbolic import free_symbols
from trtdiag.wording import first_line

BESIDE_MODEL = "the program "  # how words begin of a run that passed, and gave something else than the model
_WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


class RunOutcome(Enum):
    """How a run ended."""

    PASSED = "passed"
    REFUSED = "refused"  # an op does not take these sizes, whatever the inputs hold
    UNDECIDED = "undecided"  # it fails for what the inputs hold, or may
    UNRUN = "unrun"  # too much to run


@dataclass(frozen=True)
class Ran:
    """One run: how it ended, torch's words or why it was not run, and the op that failed where it is known.

    ``compared`` says whether the model gave the same; ``unchecked`` that a check of what the inputs hold ended the run,
    which no run of the model makes.
    """

    outcome: RunOutcome
    words: str = ""
    failing: Failing = field(default_factory=Failing)
    compared: bool = False
    unchecked: bool = False


class RealRunner(ShapeRunner):
    """Runs one program on tensors at any number of points.

    Floats are drawn, integers and masks are the example's (`InputMaker`).  Attention is computed by PyTorch's own
    matmuls: its fused kernel for the CPU reads beyond the end of values that are shorter than their keys.

    Args:
        exported: The program; its buffers are put back after each run.
        inputs: Its user inputs in order, sizes over the symbols of the points.
        args: Example inputs.
        kwargs: The same.
        seconds: For all runs together.
        model: What the program was made of.  Both must give the same: torch leaves no guard where the model goes
            another way at sizes of 0 and 1, nor where it asks what kind of number a size is, or makes text of one.
        assumed: Whether the program has checks of data that the model does not have yet: of what these refuse, the
            model, once it has them, takes nothing either.

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
        *,
        assumed: bool = False,
    ) -> None:
        super().__init__(exported, inputs, args, kwargs)
        self._model = model
        self._assumed = assumed
        self.unlike = ""
        self._compared_example = False
        held = [*exported.state_dict.values(), *exported.constants.values(), *self._leaves]
        if any(isinstance(value, torch.Tensor) and value.is_meta for value in held):
            raise NotRunnableError("the model is on the meta device, without data")
        indices = index_inputs(exported)
        self._pointing = [
            tensor.placeholder in indices and isinstance(leaf, torch.Tensor) for leaf, tensor in self._pairs()
        ]
        self._whole = [getattr(each, "dtype", None) in _WHOLE for each in self._leaves]
        self._asserts = any(node.target is torch.ops.aten._assert_scalar.default for node in exported.graph.nodes)
        """Checks of sizes from data, which torch bounds as if no size were 0 or 1."""
        self._maker = InputMaker(inputs, self._leaves, indices, ends=ends_of_offsets(exported))
        self._without_indices = InputMaker(inputs, self._leaves, ())
        self._known = {symbol for tensor in inputs for dim in tensor.dims for symbol in free_symbols(dim.expr)}
        self._deadline = time.monotonic() + seconds
        self._seconds = seconds

    @property
    def out_of_time(self) -> bool:
        """Whether the seconds are over."""
        return time.monotonic() > self._deadline

    def check_example(self, hints: Mapping[str, int]) -> None:
        """Run at the example, where that is not too large; then ``unlike`` says what the model gives another of there.

        Raises:
            FailsAtExampleError: It fails there: what fails elsewhere then says nothing about sizes.
            BeyondTensorsError: It would reach beyond its tensors there.
        """
        if self._too_large(hints):
            self._model = None  # nothing shows that the two can be compared
            return
        error = self._error(self._leaves, Watch(self._deadline))
        if isinstance(error, BeyondTensorsError):
            raise error
        if error is not None and not isinstance(error, StoppedError):
            raise FailsAtExampleError(f"it fails at the example itself: {_words(error)}")
        self._compare_example()

    def run(self, point: Mapping[str, int], *, beside_model: bool = False) -> Ran:
        """Run at ``point`` (symbol -> value); ``beside_model`` compares also where little time is left."""
        why = "the time for runs was over" if self.out_of_time else self._too_large(point)
        if why:
            return Ran(RunOutcome.UNRUN, why)
        low = not {0, 1}.isdisjoint(point.values())
        leaves = self._maker.at(point)
        first = self._tried(leaves)
        if first.outcome is RunOutcome.UNDECIDED and any(self._pointing):
            # A check may ask for more than an index into such sizes can be, and what looks like an index may be none.
            other = self._without_indices.at(point)
            again = self._tried(other)
            leaves, first = (other, again) if again.outcome is RunOutcome.PASSED else (leaves, first)
        undecided = first.outcome is RunOutcome.UNDECIDED
        if undecided and self._taken_by_model(first, leaves):
            return _refused(first)
        if low and self._asserts and self._takes_zeros:
            leaves_of_zeros = self._with_zeros(point, self._whole)
            zeros = self._tried(leaves_of_zeros)
            if zeros.outcome is RunOutcome.UNDECIDED and self._taken_by_model(zeros, leaves_of_zeros):
                return _refused(zeros)
        # A model takes as long as its program: sizes of 0 and 1, which torch does not trace, come before the others.
        early = time.monotonic() < self._deadline - self._seconds / 2
        if first.outcome is RunOutcome.PASSED and (beside_model or early or low):
            self._compare_example()
            words, _raised = self._difference(leaves, self._module)
            if words:
                return Ran(RunOutcome.REFUSED, words, Failing("a run beside the model"))
            return replace(first, compared=words is not None)
        if not undecided or not any(self._pointing):
            return first
        # Indices that were repeated from the example may not fit these sizes; 0 fits whatever is not empty.
        again = self._tried(self._with_zeros(point, self._pointing))
        return again if again.outcome is not RunOutcome.UNDECIDED else first

    @cached_property
    def _takes_zeros(self) -> bool:
        """Whether no check of the program refuses zeros at the example: else they say nothing of other sizes."""
        return self._tried(_zeros(self._leaves, self._whole)).outcome is not RunOutcome.UNDECIDED

    def _with_zeros(self, point: Mapping[str, int], which: Sequence[bool]) -> list[Any]:
        return _zeros(self._maker.at(point), which)

    def _compare_example(self) -> None:
        """Leave the model out of it where the program is another than it already at the example."""
        if self._compared_example:
            return
        self._compared_example = True
        words, raised = self._difference(self._leaves, self._module)
        if words:
            # A model that raises there, or is never twice the same, is no measure.
            self.unlike = "" if raised or self._difference(self._leaves, self._model)[0] else words
            self._model = None

    def _taken_by_model(self, ran: Ran, leaves: Sequence[Any]) -> bool:
        """Whether the model, which agrees with its program at the example, runs with inputs that ended its program."""
        if ran.unchecked:  # its kernel would read anything
            return False
        self._compare_example()
        if self._model is None or self._assumed:
            return False
        with put_back(self._model.buffers()):
            return self._error(leaves, Watch(self._deadline), self._model) is None

    def _difference(self, leaves: Sequence[Any], module: Any) -> tuple[str | None, bool]:
        """What a module gives in the place of what the model does, and whether the model raises.

        Empty where they agree, ``None`` where nothing is known.
        """
        if self._model is None:
            return None, False
        watch, results = Watch(self._deadline), []
        for one in (module, self._model):
            copies = [leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
            args, kwargs = pytree.tree_unflatten(copies, self._spec)
            with put_back(self._model.buffers()), self._around(watch):
                try:
                    results.append(with_values(one(*args, **kwargs)))
                except (StoppedError, MemoryError, torch.OutOfMemoryError):
                    return None, False
                except Exception as error:  # whatever the model raises, its program took the same
                    raised = one is not module
                    return f"{BESIDE_MODEL}takes it, and the model raises {_words(error)}" if raised else None, raised
        words = difference(*results)
        return (f"{BESIDE_MODEL}gives {words}, compared with the model" if words else ""), False

    def _too_large(self, point: Mapping[str, int]) -> str:
        try:
            count = self.most_elements(point)
        except NotRunnableError:  # data decide a size, or it is beyond all memory: the run itself is watched
            count = self.input_elements(point)
        return too_many(count) if count > MOST_ELEMENTS else ""

    def _tried(self, leaves: Sequence[Any]) -> Ran:
        watch = Watch(self._deadline)
        error = self._error(leaves, watch)
        if error is None:
            return Ran(RunOutcome.PASSED)
        if isinstance(error, StoppedError):
            return Ran(RunOutcome.UNRUN, str(error))
        words = _words(error)
        if isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in words:
            return Ran(RunOutcome.UNRUN, words)
        if isinstance(error, NotImplementedError) or "not implemented for" in words:
            return Ran(RunOutcome.UNDECIDED, words)
        search = Search(self._module, watch, self._known)
        with self._around(watch):
            node = search.failing(leaves)
            if node is None:  # refused before the first op: by the ranges of its inputs
                return Ran(RunOutcome.REFUSED, words)
            outcome = RunOutcome.REFUSED if search.by_sizes(node, error) else RunOutcome.UNDECIDED
        return Ran(outcome, words, search.described(node), unchecked=isinstance(error, BeyondTensorsError))

    def _error(self, leaves: Sequence[Any], watch: Watch, module: Any = None) -> Exception | None:
        with self._around(watch):
            args, kwargs = pytree.tree_unflatten(list(leaves), self._spec)
            try:
                (module or self._module)(*args, **kwargs)
            except Exception as error:  # whatever it raises is the answer
                return error
        return None

    @contextmanager
    def _around(self, watch: Watch) -> Iterator[None]:
        """No gradients, no output; buffers and the random state as before, which is not what tracing a seed leaves."""
        tensors = (leaf for leaf in self._leaves if isinstance(leaf, torch.Tensor))
        devices = sorted({leaf.device.index or 0 for leaf in tensors if leaf.device.type == "cuda"})
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
            for index in (None, *devices):
                (torch.default_generator if index is None else torch.cuda.default_generators[index]).manual_seed(SEED)
            yield


def _zeros(leaves: Sequence[Any], which: Sequence[bool]) -> list[Any]:
    return [torch.zeros_like(leaf) if zero else leaf for leaf, zero in zip(leaves, which, strict=True)]


def _refused(ran: Ran) -> Ran:
    return replace(ran, outcome=RunOutcome.REFUSED, words=f"{ran.words}, and the model takes the same")


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {first_line(error, 'no message')}"
