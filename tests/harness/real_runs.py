"""A judge with real tensors: an exported program beside its model at small sizes that differ from each other.

Fake tensors do not see all that an op asks of its sizes (attention over keys and values of two lengths passes), so
only numbers tell.  Small sizes, since what breaks breaks at 7 and 9 as it does at 700 and 900.  Attention runs by its
definition: the fused kernel of torch 2.13 for the CPU reads beyond values that are shorter than the keys, and says
nothing.
"""

from __future__ import annotations

import itertools
import random as randomness
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch.export import ExportedProgram
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import _pytree as pytree

from tests.harness.admitted import Admitted, Ask, Asked, Point, admitted, asked_dims
from tests.harness.soundness import repeated

MOST_ELEMENTS = 2_000_000
"""Of all inputs together: attention over them stays far below a gigabyte."""
SMALL = 24
"""So many of the smallest values of each axis are drawn from."""
SEED = 20240131
RELATIVE = 2e-3
"""Of the largest value: float32 sums in another order, over at most some hundred terms, are off by less than 1e-4;
what sizes break is off by more than a tenth, or raises."""


@dataclass(frozen=True)
class RealFailure:
    """Admitted sizes at which the program fails, or gives something else than the model."""

    point: Point
    message: str


@dataclass
class RealJudgement:
    """What came of running on real tensors.

    Attributes:
        failures: Admitted points at which the program or its model fails, or both differ.
        points: At how many both ran.
        of_data: Points that invented contents break (an index out of range); they say nothing of sizes.
        unfinished: Whether the time was over before the last point.
    """

    failures: list[RealFailure] = field(default_factory=list)
    points: int = 0
    of_data: list[RealFailure] = field(default_factory=list)
    unfinished: bool = False

    @property
    def sound(self) -> bool:
        """Whether it ran somewhere, and failed nowhere."""
        return not self.failures and self.points > 0


def unequal_points(of: Admitted, count: int) -> Iterator[Point]:
    """Sizes that differ from each other wherever the axes leave them free, the same in every run.

    First all at their least, then each axis alone above it, then ascending and descending choices, then random ones.
    """
    values = {axis.name: of.values(axis) for axis in of.axes}
    if not values or not all(values.values()):
        return
    low = {name: v[0] for name, v in values.items()}
    yield low
    for name, v in values.items():
        yield from ({**low, name: one} for one in (v[min(place, len(v) - 1)] for place in (1, 4, 12)))
    chance = randomness.Random(SEED)
    names = list(values)
    for order in (names, names[::-1], *(chance.sample(names, len(names)) for _ in range(count))):
        taken: set[int] = set()
        point = {}
        for name in order:
            near = values[name][:SMALL]
            free = [one for one in near if one not in taken] or near
            point[name] = free[min(len(taken), len(free) - 1)] if order in (names, names[::-1]) else chance.choice(free)
            taken.add(point[name])
        yield {name: point[name] for name in names}


def judge_on_data(
    program: ExportedProgram,
    ask: Ask,
    count: int = 12,
    asked: Sequence[Asked] | None = None,
    limit_s: float = 120.0,
) -> RealJudgement:
    """Run a program and its model on real tensors at admitted sizes.

    Args:
        program: The export.
        ask: The model and the declaration that the export was made with.
        count: How many random points beside the regular ones.
        asked: The ranges that were asked at first; those of ``ask`` where left out.  Sizes outside do not count.
        limit_s: No new point is begun after this.
    """
    of = admitted(program, ask, asked_dims(ask) if asked is None else asked)
    assert program.example_inputs is not None
    leaves, spec = pytree.tree_flatten(program.example_inputs)
    module, found = program.module(), RealJudgement()
    seen: set[tuple[int, ...]] = set()
    began = time.monotonic()
    for point in unequal_points(of, count):
        if time.monotonic() - began > limit_s and found.points:
            found.unfinished = True
            break
        key = tuple(point[axis.name] for axis in of.axes)
        shapes = of.shapes(point)
        elements = sum(torch.Size(shape).numel() for shape in shapes if shape is not None)
        if key in seen or not of.inside(shapes) or elements > MOST_ELEMENTS:
            continue
        seen.add(key)
        made = [kept if shape is None else filled(kept, shape) for shape, kept in zip(shapes, leaves, strict=True)]
        _compare(module, ask.model, made, spec, point, found)
    return found


def filled(example: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """Random numbers; integers and booleans are the example's, cut or repeated, so that indices stay inside."""
    if example.is_floating_point():
        return torch.randn(shape, generator=torch.Generator().manual_seed(SEED)).to(example.dtype)
    if 0 in example.shape:
        return torch.zeros(shape, dtype=example.dtype)
    return repeated(example, shape)


def _compare(
    program: torch.nn.Module,
    model: torch.nn.Module,
    made: list[torch.Tensor],
    spec: pytree.TreeSpec,
    point: Point,
    found: RealJudgement,
) -> None:
    results = []
    for who, module in (("program", program), ("model", model)):
        args, kwargs = pytree.tree_unflatten([_copied(leaf) for leaf in made], spec)
        try:
            with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
                results.append(pytree.tree_leaves(module(*args, **kwargs)))
        except IndexError as error:
            found.of_data.append(RealFailure(point, f"{who}: {error}"))
            return
        except Exception as error:  # whatever is raised, the size was admitted
            message = str(error).strip().splitlines()
            if "out of range" in str(error) or "out of bounds" in str(error):
                found.of_data.append(RealFailure(point, f"{who}: {error}"))
            else:
                found.failures.append(RealFailure(point, f"{who}: {type(error).__name__}: {message[:1]}"))
            return
    found.points += 1
    for index, (one, other) in enumerate(itertools.zip_longest(*results)):
        if isinstance(one, torch.Tensor) and not _agree(one, other):
            found.failures.append(RealFailure(point, f"output {index} differs from the model's"))
            return


def _copied(leaf: object) -> object:
    """A model may write into its inputs: each run has its own."""
    return leaf.clone() if isinstance(leaf, torch.Tensor) else leaf


def _agree(one: torch.Tensor, other: torch.Tensor) -> bool:
    if not isinstance(other, torch.Tensor) or one.shape != other.shape or one.dtype != other.dtype:
        return False
    if not one.is_floating_point():
        return torch.equal(one, other)
    scale = float(other.abs().nan_to_num().max()) if other.numel() else 0.0
    return torch.allclose(one, other, rtol=0, atol=RELATIVE * max(scale, 1e-3), equal_nan=True)
