"""Writes down how tensors are computed from the parameters of a program while it is lowered and converted.

Lowering folds constants, casts weights and merges batch norms; converters move and scale them.  All of that is done
with ops of torch on real tensors.  A tape sees each of these ops, whoever calls it, so that what an engine holds can
be computed again from other parameters.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from trtdiag.graph.values import memory_state


@dataclass(frozen=True, eq=False)
class Parameter:
    """A parameter or buffer of the program's state, by its name."""

    name: str


@dataclass(frozen=True, eq=False)
class Held:
    """A tensor that comes from no parameter; nobody changes it."""

    tensor: torch.Tensor


@dataclass(frozen=True, eq=False)
class Computed:
    """What an op gives.

    Attributes:
        op: The op.
        args: Its arguments, recipes among them.
        kwargs: Those by name.
        output: Which of its results, where it has several.
    """

    op: OpOverload
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    output: int | None = None


@dataclass(frozen=True, eq=False)
class Unknown:
    """What depends on these parameters in a way that cannot be done again, such as a write in place."""

    parameters: frozenset[str]


Recipe = Parameter | Held | Computed | Unknown
RECIPES = (Parameter, Held, Computed, Unknown)

_SAME = frozenset({"aten::detach", "aten::alias", "aten::lift_fresh", "aten::lift_fresh_copy"})
"""Ops that give the elements as they are."""


@dataclass
class Tape:
    """The recipes of all tensors that were computed from parameters while it ran.

    Attributes:
        read: What Python asked of tensors, with the answer: what was decided by it holds for equal answers only.
    """

    read: list[tuple[Recipe, bool | int | float]] = field(default_factory=list)
    _known: dict[Hashable, tuple[torch.Tensor, Recipe]] = field(default_factory=dict)
    _made: dict[Hashable, Recipe] = field(default_factory=dict)
    _written: dict[Hashable, tuple[torch.Tensor, Unknown]] = field(default_factory=dict)

    def begin(self, state: Mapping[str, torch.Tensor]) -> None:
        """Take the state of a program for its parameters; names of one tensor are one parameter, the first."""
        for name, tensor in state.items():
            if isinstance(tensor, torch.Tensor) and not isinstance(tensor, FakeTensor) and self.of(tensor) is None:
                self._keep(tensor, Parameter(name))

    def of(self, tensor: torch.Tensor) -> Recipe | None:
        """How a tensor is computed from parameters; ``None`` where it is not."""
        place = None if isinstance(tensor, FakeTensor) or not tensor.numel() else _place(tensor)
        found = None if place is None else self._written.get(place[:2]) or self._known.get(place)
        return None if found is None else found[1]

    def note(self, op: OpOverload, args: tuple[Any, ...], kwargs: Mapping[str, Any], made: Any) -> None:
        """Write down one op that was run."""
        tensors = [each for each in tree_flatten((args, kwargs))[0] if isinstance(each, torch.Tensor)]
        if any(isinstance(each, FakeTensor) or each.is_meta for each in tensors):
            return
        if all(self.of(each) is None for each in tensors):
            return
        sources = tree_map(self._source, (args, dict(kwargs)))
        if op._schema.is_mutable:
            unknown = Unknown(frozenset().union(*(parameters_of(each) for each in tree_flatten(sources)[0])))
            for argument, value in zip(op._schema.arguments, args, strict=False):
                place = _place(value) if isinstance(value, torch.Tensor) else None
                if place is not None and argument.alias_info is not None and argument.alias_info.is_write:
                    self._written[place[:2]] = value, unknown
            return
        several = isinstance(made, (list, tuple))
        for index, each in enumerate(made if several else (made,)):
            if isinstance(each, torch.Tensor):
                same = op._schema.name in _SAME
                recipe: Any = (
                    sources[0][0] if same else self._computed(op, sources[0], sources[1], index if several else None)
                )
                self._keep(each, recipe)
            elif isinstance(each, (bool, int, float)):
                self.read.append((self._computed(op, sources[0], sources[1], index if several else None), each))

    def _source(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return self.of(value) or self._held(value)

    def _held(self, tensor: torch.Tensor) -> Held:
        key = ("held", _place(tensor) or id(tensor))
        made = self._made.setdefault(key, Held(tensor))
        assert isinstance(made, Held)
        return made

    def _computed(self, op: OpOverload, args: Any, kwargs: Any, output: int | None) -> Recipe:
        leaves, spec = tree_flatten((args, kwargs))
        key = (op, tuple((type(each), each) for each in leaves), str(spec), output)
        return self._made.setdefault(key, Computed(op, tuple(args), kwargs, output))

    def _keep(self, tensor: torch.Tensor, recipe: Recipe) -> None:
        place = _place(tensor)
        if place is not None and tensor.numel():
            self._known.setdefault(place, (tensor, recipe))  # held, so that no other tensor takes its place in memory


def _place(tensor: torch.Tensor) -> tuple[Hashable, ...] | None:
    """Device, memory and layout of a tensor.

    Not the count of writes: what an op gives has another one while it is written down than afterwards.
    """
    state = memory_state(tensor)
    return None if state is None else state[:-1]


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    """Shows each op that runs to a tape."""

    def __init__(self, tape: Tape) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._tape = tape

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the op and write it down."""
        del types
        made = func(*args, **(kwargs or {}))
        if isinstance(func, OpOverload):
            self._tape.note(func, tuple(args), kwargs or {}, made)
        return made


_TAPE: ContextVar[Tape | None] = ContextVar("tape", default=None)


@contextmanager
def new_tape(wanted: bool) -> Iterator[Tape | None]:
    """A tape for what is planned and converted inside, where one is wanted."""
    tape = Tape() if wanted else None
    token = _TAPE.set(tape)
    try:
        yield tape
    finally:
        _TAPE.reset(token)


def current_tape() -> Tape | None:
    """The tape of the compilation that is under way, where it has one."""
    return _TAPE.get()


@contextmanager
def recording(state: Mapping[str, torch.Tensor] | None = None) -> Iterator[None]:
    """Ops that run inside are written on the current tape; nothing where there is none.

    Args:
        state: The program's parameters and buffers, where the tape does not know them yet.
    """
    tape = _TAPE.get()
    if tape is None:
        yield
        return
    tape.begin(state or {})
    with torch.no_grad(), _Recorder(tape):
        yield


def parameters_of(value: Any) -> frozenset[str]:
    """The names of the parameters that a recipe is made of; none of anything else."""
    found: set[str] = set()
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, Parameter):
            found.add(each.name)
        elif isinstance(each, Unknown):
            found |= each.parameters
        elif isinstance(each, Computed):
            waiting += tree_flatten((each.args, dict(each.kwargs)))[0]
    return frozenset(found)
