"""What ``torch.autocast`` does to one op: exported graphs keep the region and not the casts that it stands for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from trtdiag.graph.operators import CAST, target_name
from trtdiag.lower.local_trace import as_template
from trtdiag.lower.nested_calls import ENTERS, LEAVES, Modes, modes_of_nodes
from trtdiag.lower.template import Keys, Template, UntraceableError, filled, stand_in
from trtdiag.lower.tracing_conditions import asking


class Autocast:
    """Finds the casts of an op's inputs by running it on fake tensors with autocast on; equal calls are run once."""

    def __init__(self, mode: FakeTensorMode) -> None:
        self._mode = mode
        self._keys = Keys()
        self._known: dict[Any, dict[int, torch.dtype]] = {}

    def casts(
        self, op: OpOverload, args: Any, kwargs: Any, vals: Sequence[Any], out: Any, modes: Modes
    ) -> dict[int, torch.dtype]:
        """The dtype that each input is cast to before the op runs; inputs that stay as they are have no entry.

        Args:
            op: The op.
            args: Its arguments, with ``Ref(i)`` for the i-th input.
            kwargs: As ``args``.
            vals: The value of each input.
            out: The recorded value of the call.
            modes: The state of autocast around it.

        Raises:
            UntraceableError: Autocast does something else to the op than to cast its inputs.
        """
        key = (tuple(sorted(modes.items())), self._keys.call(op, args, kwargs, vals))
        if key not in self._known:
            self._known[key] = self._find(op, args, kwargs, vals, out, modes)
        return self._known[key]

    def parts(self, op: OpOverload, args: Any, kwargs: Any, vals: Sequence[Any], modes: Modes) -> Template:
        """The ops below autocast, casts included, that a call becomes; for what ``casts`` refuses.

        Raises:
            UntraceableError: It cannot be traced.
        """

        def body(*given: Any) -> Any:
            own_args, own_kwargs = filled((args, kwargs), given)
            return op(*own_args, **own_kwargs)

        try:
            with torch.no_grad(), self._mode, asking(self._mode.shape_env), autocast_switched(modes):
                traced = make_fx(body)(*(stand_in(val, self._mode) for val in vals))
        except Exception as error:  # a fake kernel may raise anything; the reason is reported
            raise UntraceableError(f"{op} cannot be traced under autocast: {type(error).__name__}") from error
        return as_template(traced, len(vals))

    def _find(
        self, op: OpOverload, args: Any, kwargs: Any, vals: Sequence[Any], out: Any, modes: Modes
    ) -> dict[int, torch.dtype]:
        inputs = [stand_in(val, self._mode) for val in vals]
        off = dict.fromkeys(modes)
        ran = self._run(op, args, kwargs, inputs, modes)
        plain = self._run(op, args, kwargs, inputs, off)
        if ran.seen == plain.seen and plain.made == _dtypes(out):
            return {}
        casts: dict[int, torch.dtype] = {}
        for source, (_, dtypes) in zip(ran.sources, ran.seen, strict=True):
            if source is None:
                break  # from the first op that is no cast of an input on, it is the op itself
            casts[source] = dtypes[0]
        cast = [self._as(value, casts.get(index)) for index, value in enumerate(inputs)]
        again = self._run(op, args, kwargs, cast, off)
        if ran.seen[len(casts) :] != again.seen or again.made != _dtypes(out):
            raise UntraceableError(f"autocast changes more of {op} than the dtypes of its inputs")
        return casts

    def _as(self, value: Any, dtype: torch.dtype | None) -> Any:
        if dtype is None:
            return value
        with self._mode:
            return torch.empty_strided(value.shape, value.stride(), dtype=dtype, device=value.device)

    def _run(self, op: OpOverload, args: Any, kwargs: Any, inputs: list[Any], modes: Modes) -> _Recorder:
        """The ops below autocast that one call becomes."""
        args, kwargs = filled((args, kwargs), inputs)
        positions = {id(value): index for index, value in reversed(list(enumerate(inputs)))}
        recorder = _Recorder(positions)
        try:
            with torch.no_grad(), self._mode, asking(self._mode.shape_env), autocast_switched(modes), recorder:
                recorder.made = _dtypes(op(*args, **kwargs))
        except Exception as error:  # a fake kernel may raise anything; the reason is reported
            raise UntraceableError(f"{op} cannot be run under autocast here: {type(error).__name__}") from error
        return recorder


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's class has no types
    def __init__(self, positions: Mapping[int, int]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # as above
        self.seen: list[tuple[Any, tuple[Any, ...]]] = []  # the ops with the dtypes of their results
        self.sources: list[int | None] = []  # which input each of them casts
        self.made: tuple[Any, ...] = ()  # the dtypes of the call's result
        self._positions = positions

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        out = func(*args, **(kwargs or {}))
        if func.namespace == "aten":  # the others ask for devices and sizes
            self.seen.append((func, _dtypes(out)))
            self.sources.append(self._positions.get(id(args[0])) if func is CAST else None)
        return out


def under_autocast(graph: Graph, modes: Modes) -> Iterator[Node]:
    """The nodes of a graph in order, each with autocast switched as it is at that node; switches are left out."""
    for node, at_node in modes_of_nodes(graph, modes):
        if node.op == "call_function" and target_name(node.target) in (ENTERS, LEAVES):
            continue
        with autocast_switched(at_node):
            yield node


@contextmanager
def autocast_switched(modes: Modes) -> Iterator[None]:
    """Autocast as ``modes`` say, also for devices that this machine does not have."""
    if not modes:
        yield
        return
    before = {kind: (torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in modes}
    cached = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)  # each cast is to be seen
    try:
        for kind, dtype in modes.items():
            torch.set_autocast_enabled(kind, dtype is not None)
            if dtype is not None:
                torch.set_autocast_dtype(kind, dtype)
        yield
    finally:
        for kind, (enabled, dtype) in before.items():
            torch.set_autocast_enabled(kind, enabled)
            torch.set_autocast_dtype(kind, dtype)
        torch.set_autocast_cache_enabled(cached)


def _dtypes(value: Any) -> tuple[Any, ...]:
    return tuple(leaf.dtype if isinstance(leaf, torch.Tensor) else type(leaf) for leaf in pytree.tree_leaves(value))
