"""A judge of exported programs: does the program take every size that its declaration admits?

Two ways, both torch's own.  The program's guards, as its module checks them, are evaluated on stand-ins that know only
their sizes, at thousands of points.  The module itself, guards on, is run with fake tensors at the corners, beside
them and at random points.  Where fake tensors cannot (values decide), small real tensors made of the example are used.
"""

from __future__ import annotations

import itertools
import random as randomness
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from tests.harness.admitted import Admitted, Ask, Asked, Point, Shapes, admitted, asked_dims

MOST_REAL_ELEMENTS = 4_000_000
MOST_VALUES = 4_000
MOST_JOINT = 4_000
SEED = 20240131

_NEEDS_VALUES = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)
_OF_DATA = re.compile(r"\bu\d+\b")


@dataclass(frozen=True)
class Failure:
    """A point that is admitted and refused."""

    point: Point
    shapes: Shapes
    message: str


@dataclass
class Judgement:
    """What came of trying.

    Attributes:
        failures: Points that the program admits and refuses.
        points: At how many the program ran.
        guarded: At how many its guards were evaluated.
        excluded: Points that say nothing of the sizes, with the reason.
        real: At how many of the points real tensors were needed.
        unfinished: Whether the time was over before the last point.
        capped: Axes without a largest value, cut off.
    """

    failures: list[Failure] = field(default_factory=list)
    points: int = 0
    guarded: int = 0
    excluded: list[Failure] = field(default_factory=list)
    real: int = 0
    unfinished: bool = False
    capped: tuple[str, ...] = ()

    @property
    def sound(self) -> bool:
        """Whether it ran at points, and was refused at none."""
        return not self.failures and self.points > 0


@dataclass(frozen=True)
class Sized:
    """Stands for a tensor where only its sizes are looked at."""

    shape: tuple[int, ...]

    def size(self) -> tuple[int, ...]:
        """As of a tensor."""
        return self.shape


class Runner:
    """Runs one program at points, its guards on."""

    def __init__(self, program: ExportedProgram) -> None:
        assert program.example_inputs is not None
        self.example, self.spec = pytree.tree_flatten(program.example_inputs)
        self.mode = FakeTensorMode(allow_non_fake_inputs=True)
        self._program = program
        self._faked = _with_fake_state(program.module(), self.mode)
        self._real: torch.nn.Module | None = None

    def guards(self, shapes: Shapes) -> str:
        """Which guard refuses these sizes, in torch's words; empty where none does."""
        check = getattr(self._faked, "_guards_fn", None)
        if check is None:
            return ""
        try:
            check(*[kept if shape is None else Sized(shape) for shape, kept in zip(shapes, self.example, strict=True)])
        except AssertionError as error:
            return str(error)
        return ""

    def run(self, shapes: Shapes) -> tuple[str, bool]:
        """What refuses these sizes (empty: nothing), and whether real tensors were needed to know."""
        try:
            with self.mode, torch.no_grad():
                leaves = [
                    kept if shape is None else torch.empty(shape, dtype=kept.dtype, device=kept.device)
                    for shape, kept in zip(shapes, self.example, strict=True)
                ]
                args, kwargs = pytree.tree_unflatten(leaves, self.spec)
                self._faked(*args, **kwargs)
        except _NEEDS_VALUES:
            return self._run_real(shapes), True
        except Exception as error:
            return _told(error), False
        return "", False

    def _run_real(self, shapes: Shapes) -> str:
        elements = sum(torch.Size(shape).numel() for shape in shapes if shape is not None)
        if elements > MOST_REAL_ELEMENTS:
            raise TooLarge(f"needs values, and {elements} elements are too many to make")
        if self._real is None:
            self._real = self._program.module()
        leaves = [
            kept if shape is None else repeated(kept, shape) for shape, kept in zip(shapes, self.example, strict=True)
        ]
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        try:
            with torch.no_grad():
                self._real(*args, **kwargs)
        except Exception as error:
            return _told(error)
        return ""


class TooLarge(Exception):
    """A point that would need too much memory."""


def repeated(example: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """The example cut or repeated along each dim: its values keep their character (token ids, masks)."""
    for dim, size in enumerate(shape):
        example = example.index_select(dim, torch.arange(size) % max(example.shape[dim], 1))
    return example


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"


def _with_fake_state(module: torch.nn.Module, mode: FakeTensorMode) -> torch.nn.Module:
    """The module with parameters, buffers and constants that have sizes only: buffers can be written to."""
    for part in module.modules():
        for held in (part._parameters, part._buffers, part.__dict__):
            for name, tensor in list(held.items()):
                if isinstance(tensor, torch.Tensor):
                    held[name] = mode.from_tensor(tensor)  # type: ignore[index, assignment]
    return module


def _ends(values: Sequence[int]) -> list[int]:
    """Minimum, maximum, their neighbours and a prime in between."""
    prime = next((v for v in values[len(values) // 3 :] if v > 2 and all(v % d for d in range(2, int(v**0.5) + 1))), 0)
    found = [values[0], values[-1], values[min(1, len(values) - 1)], values[max(-2, -len(values))]]
    return list(dict.fromkeys([*found, prime] if prime else found))


def points(of: Admitted, random: int) -> Iterator[Point]:
    """Corners first, then each axis alone, then random ones; always the same."""
    values = {axis.name: of.values(axis) for axis in of.axes}
    if not all(values.values()):
        return
    low = {name: v[0] for name, v in values.items()}
    high = {name: v[-1] for name, v in values.items()}
    hint = {axis.name: axis.hint if axis.hint in set(values[axis.name]) else low[axis.name] for axis in of.axes}
    yield from (low, high, hint)
    for axis, base in itertools.product(of.axes, (low, hint, high)):
        yield from ({**base, axis.name: value} for value in _ends(values[axis.name]))
    chance = randomness.Random(SEED)
    for _ in range(random):
        yield {name: chance.choice(v) for name, v in values.items()}


def guard_points(of: Admitted) -> Iterator[Point]:
    """Every value of each axis beside corners of the others; all combinations where they are few."""
    values = {axis.name: _thinned(of.values(axis)) for axis in of.axes}
    if not all(values.values()):
        return
    total = 1
    for v in values.values():
        total *= len(v)
    if total <= MOST_JOINT:
        yield from (dict(zip(values, one, strict=True)) for one in itertools.product(*values.values()))
        return
    bases = [{name: pick(v) for name, v in values.items()} for pick in (min, max, lambda v: v[len(v) // 2])]
    bases.append({axis.name: axis.hint for axis in of.axes if axis.hint in set(values[axis.name])})
    for axis, base in itertools.product(of.axes, bases):
        if len(base) == len(of.axes):
            yield from ({**base, axis.name: value} for value in values[axis.name])


def _thinned(values: list[int]) -> list[int]:
    """At most MOST_VALUES of them, both ends included, the steps no round number."""
    if len(values) <= MOST_VALUES:
        return values
    return sorted({*values[: MOST_VALUES // 4], *randomness.Random(SEED).sample(values, MOST_VALUES // 2), values[-1]})


def _tried(of: Admitted, candidates: Iterator[Point]) -> Iterator[tuple[Point, Shapes]]:
    """Points whose sizes were asked for, each once."""
    seen: set[tuple[int, ...]] = set()
    for point in candidates:
        key = tuple(point[axis.name] for axis in of.axes)
        if key in seen:
            continue
        seen.add(key)
        shapes = of.shapes(point)
        if of.inside(shapes):
            yield point, shapes


def judge(
    program: ExportedProgram, ask: Ask, asked: Sequence[Asked] | None = None, random: int = 24, limit_s: float = 120.0
) -> Judgement:
    """Whether a program takes every size that its declaration admits.

    Args:
        program: The export.
        ask: The model and the declaration that the export was made with.
        asked: The ranges that were asked at first; those of ``ask`` where left out.  Sizes outside do not count.
        random: How many random points are tried.
        limit_s: No new point is begun after this; the guards come first, then the corners.
    """
    of = admitted(program, ask, asked_dims(ask) if asked is None else asked)
    runner, found = Runner(program), Judgement(capped=of.capped)
    began = time.monotonic()
    for point, shapes in _tried(of, guard_points(of)):
        found.guarded += 1
        refusal = runner.guards(shapes)
        if refusal:
            found.failures.append(Failure(point, shapes, refusal))
        if time.monotonic() - began > limit_s / 2:
            found.unfinished = True
            break
    for point, shapes in _tried(of, points(of, random)):
        if time.monotonic() - began > limit_s and found.points:
            found.unfinished = True
            break
        _run_at(runner, point, shapes, found)
    return found


def _run_at(runner: Runner, point: Point, shapes: Shapes, found: Judgement) -> None:
    try:
        refusal, real = runner.run(shapes)
    except TooLarge as error:
        found.excluded.append(Failure(point, shapes, str(error)))
        return
    found.real += real
    if refusal and real and _OF_DATA.search(refusal):
        found.excluded.append(Failure(point, shapes, f"data decides, not sizes: {refusal}"))
        return
    found.points += 1
    if refusal and all(earlier.point != point for earlier in found.failures):
        found.failures.append(Failure(point, shapes, refusal))
