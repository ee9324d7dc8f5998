"""Traces the decomposition of one call, alone, over stand-ins of its own inputs."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence, Set as AbstractSet
from contextlib import contextmanager, nullcontext
from itertools import zip_longest
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from trtdiag.graph.node_kinds import NodeKind, classify
from trtdiag.lower.decomposable import Decomposition, decomposition_of, traces_whole
from trtdiag.lower.draft import Keep
from trtdiag.lower.functionalise import functionalised_graph
from trtdiag.lower.template import (
    Keys,
    Ref,
    Step,
    Template,
    UntraceableError,
    filled,
    gathered,
    replaced,
    stand_in,
    with_refs,
)
from trtdiag.lower.tracing_conditions import Proofs, asking
from trtdiag.wording import first_line

_DISAGREES = "its decomposition gives another dtype or other sizes than the program recorded"


class Tracer:
    """Decomposes calls until nothing is left to decompose; equal calls are traced once."""

    def __init__(self, mode: FakeTensorMode, keep: Keep, proofs: Proofs) -> None:
        self._mode = mode
        self._keep = keep
        self._proofs = proofs
        # The template of a call and which of its outputs are not as recorded, or why there is none.
        self._known: dict[Any, tuple[Template, frozenset[int]] | str] = {}
        self._open: set[Any] = set()
        self.keys = Keys()
        self.traced = 0

    def template(
        self, target: OpOverload, args: Any, kwargs: Any, vals: Sequence[Any], out: Any, read: AbstractSet[int] | None
    ) -> Template | None:
        """The decomposition of a call, ``None`` where the op has none or is kept.

        Args:
            target: The op.
            args: Its arguments, with ``Ref(i)`` for the i-th input.
            kwargs: As ``args``.
            vals: The value of each input.
            out: The recorded value of the call, with which the decomposition must agree.
            read: The outputs that something reads, of an op with several; ``None``: all.  torch's decomposition of
                attention on the CPU returns the weights in the place of their logarithm, which no model reads.

        Raises:
            UntraceableError: It has one that cannot be used here.
        """
        if self._keep(target):
            return None
        decomposition = decomposition_of(target)
        if decomposition is None:
            return None
        key = self.keys.call(target, args, kwargs, vals)
        if key in self._open:
            return None  # it decomposes into itself: the op is as simple as it gets
        known = self._known.get(key)
        if known is None:
            self._open.add(key)
            try:
                made = self._nested(self._one_level(target, decomposition, args, kwargs, vals), vals)
                known = made, _other_outputs(made, vals, out)
            except UntraceableError as why:
                known = str(why)
            finally:
                self._open.discard(key)
            self._known[key] = known
        if isinstance(known, str):
            raise UntraceableError(known)
        template, wrong = known
        if wrong if read is None else wrong & read:
            raise UntraceableError(_DISAGREES)
        only = template.steps[0] if len(template.steps) == 1 else None
        return None if only is not None and only.target is target and only.args == tuple(args) else template

    def of_function(self, key: Any, body: Callable[..., Any], vals: Sequence[Any]) -> Template:
        """The steps of a function of tensors and sizes, decomposed like those of a decomposition.

        Args:
            key: Equal for functions that do the same on equal values.
            body: The function.
            vals: The value of each of its arguments.

        Raises:
            UntraceableError: It cannot be traced on these values.
        """
        key = "function", key, tuple(map(self.keys.val, vals))
        known = self._known.get(key)
        if known is None:
            try:
                known = self._nested(self._traced(body, vals, whole=False), vals), frozenset()
            except UntraceableError as why:
                known = str(why)
            self._known[key] = known
        if isinstance(known, str):
            raise UntraceableError(known)
        return known[0]

    def _one_level(
        self, target: OpOverload, decomposition: Decomposition, args: Any, kwargs: Any, vals: Sequence[Any]
    ) -> Template:
        def body(*given: Any) -> Any:
            made = decomposition(*filled(args, given), **filled(kwargs, given))
            return tuple(made) if isinstance(made, tuple) else made  # a named tuple has no place in a graph

        return self._traced(body, vals, whole=traces_whole(target))

    def _traced(self, body: Callable[..., Any], vals: Sequence[Any], *, whole: bool) -> Template:
        self.traced += 1
        env = self._mode.shape_env
        pending = [] if env is None else list(env.pending_fresh_unbacked_symbols)
        try:
            # With the Python dispatcher the ops inside find their symbolic decompositions, as in torch's own tracing.
            within = enable_python_dispatcher() if whole else nullcontext()
            with _without_onednn(), within, torch.no_grad(), self._mode, asking(env) as answers:
                inputs = [stand_in(val, self._mode) for val in vals]
                answers.clear()
                traced = make_fx(body, pre_dispatch=not whole)(*inputs)
        except UntraceableError:
            raise
        except Exception as error:  # a decomposition may raise anything; the reason is reported
            raise UntraceableError(
                f"its decomposition raises {type(error).__name__}: {first_line(error, 'no text')}"
            ) from error
        finally:
            if env is not None:
                env.pending_fresh_unbacked_symbols[:] = pending
        doubt = self._proofs.doubt(env, answers)
        if doubt:
            raise UntraceableError(f"its decomposition would only be right where {doubt}")
        changed, stay = functionalised_graph(traced.graph)
        if changed or stay:
            raise UntraceableError("its decomposition changes a tensor in place that has to stay")
        return as_template(traced, len(vals))

    def _nested(self, template: Template, vals: Sequence[Any]) -> Template:
        """The template with the decomposition of each of its steps in its place."""
        steps: list[Step] = []
        now: list[Any] = [Ref(index) for index in range(template.inputs)]
        values: list[Any] = list(vals)

        def append(step: Step) -> Ref:
            steps.append(step)
            values.append(step.val)
            return Ref(template.inputs + len(steps) - 1)

        read = _read_outputs(template)
        for index, step in enumerate(template.steps, template.inputs):
            args, kwargs = filled(step.args, now), filled(step.kwargs, now)
            if step.target is operator.getitem and isinstance(args[0], (list, tuple)):
                now.append(args[0][args[1]])
                continue
            inner = self._inner(step, args, kwargs, values, read.get(index))
            if inner is None:
                now.append(append(Step(step.target, args, kwargs, step.val)))
                continue
            body, given = inner
            now.append(_inlined(body, given, append))
        return Template(template.inputs, tuple(steps), filled(template.result, now))

    def _inner(
        self, step: Step, args: Any, kwargs: Any, values: list[Any], read: AbstractSet[int] | None
    ) -> tuple[Template, list[Ref]] | None:
        if not isinstance(step.target, OpOverload):
            return None
        given, (local_args, local_kwargs) = with_refs((args, kwargs), Ref)
        vals = [values[ref.index] for ref in given]
        body = self.template(step.target, local_args, local_kwargs, vals, step.val, read)
        return None if body is None else (body, given)


def _other_outputs(template: Template, vals: Sequence[Any], out: Any) -> frozenset[int]:
    """The positions of the outputs whose dtype or sizes the template gives otherwise than ``out``."""
    values = [*vals, *(step.val for step in template.steps)]
    made = filled(template.result, values)
    wanted, got = (value if isinstance(value, (tuple, list)) else (value,) for value in (out, made))
    if len(wanted) != len(got):
        raise UntraceableError(_DISAGREES)
    return frozenset(index for index, pair in enumerate(zip(wanted, got, strict=True)) if not alike(*pair))


def _read_outputs(template: Template) -> dict[int, set[int]]:
    """Value -> the outputs of it that are read, for the values of which single outputs are taken and nothing else."""
    taken: dict[int, set[int]] = {}
    used = set(gathered(template.result, Ref))
    for index, step in reversed(list(enumerate(template.steps, template.inputs))):
        refs = gathered((step.args, step.kwargs), Ref)
        if step.target is not operator.getitem:
            used.update(refs)
        else:
            outputs = taken.setdefault(refs[0].index, set())
            outputs.update({step.args[1]} if Ref(index) in used or taken.get(index) else ())
    return {index: read for index, read in taken.items() if Ref(index) not in used}


@contextmanager
def _without_onednn() -> Iterator[None]:
    """With oneDNN an LSTM would become an op that exists on the CPU alone."""
    # torch.backends.mkldnn.flags sets TF32 as well, which warns.
    enabled = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(enabled)


def _inlined(body: Template, given: list[Ref], append: Callable[[Step], Ref]) -> Any:
    """Append the steps of a decomposition over ``given``; its result."""
    local: list[Any] = list(given)

    for step in body.steps:
        args, kwargs = filled((step.args, step.kwargs), local)
        local.append(append(Step(step.target, args, kwargs, step.val)))
    return filled(body.result, local)


def alike(left: Any, right: Any) -> bool:
    """Whether values have tensors of the same dtypes and sizes in the same places."""
    pairs = zip_longest(pytree.tree_leaves(left), pytree.tree_leaves(right), fillvalue=...)
    return all(
        one.dtype == other.dtype and one.dim() == other.dim() and all(map(_same_size, one.shape, other.shape))
        if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)
        else type(one) is type(other)
        for one, other in pairs
    )


def _same_size(left: Any, right: Any) -> bool:
    # Two ways to write a size may differ in form; at the example's sizes equal ones agree.
    numbers = [size if isinstance(size, int) else size.node.hint for size in (left, right)]
    return None in numbers or numbers[0] == numbers[1]


def as_template(traced: GraphModule, inputs: int) -> Template:
    """The steps of a traced graph.

    Raises:
        UntraceableError: It holds what no template can.
    """
    position: dict[Node, Any] = {}
    steps: list[Step] = []
    result: Any = None
    for node in traced.graph.nodes:
        if node.op == "placeholder":
            position[node] = Ref(len(position))
        elif node.op == "output":
            result = replaced(node.args[0], position.__getitem__, Node)
        elif node.op != "call_function" or isinstance(node.target, HigherOrderOperator):
            raise UntraceableError(f"its decomposition holds a {node.op} node: {node.target}")
        elif classify(node) is NodeKind.ASSERT or (classify(node) is NodeKind.NO_OP and "val" not in node.meta):
            continue  # the op itself has checked its input; modes of autograd do not matter here
        else:
            if "val" not in node.meta:
                raise UntraceableError(f"{node.target} in its decomposition has no known value")
            args, kwargs = replaced((node.args, node.kwargs), position.__getitem__, Node)
            steps.append(Step(node.target, args, kwargs, node.meta["val"]))
            position[node] = Ref(inputs + len(steps) - 1)
    return Template(inputs, tuple(steps), result)
