"""The facts of the verify stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from trtdiag.network.network import Origin
from trtdiag.symbolic.text import in_words
from trtdiag.wording import told_name


@dataclass(frozen=True)
class Tolerance:
    """How far an output may be off: ``absolute + relative * (its own size)`` for each element.

    Attributes:
        relative: Of the largest magnitude of that output, since errors of large elements reach small ones through
            sums and norms.
        absolute: On top of it.
        why: Where the numbers come from.
    """

    relative: float
    absolute: float
    why: str


@dataclass(frozen=True)
class Point:
    """One set of sizes.

    Attributes:
        label: ``example``, ``min``, ``max``, ``h max, w min``, ``in between``, ``towards max``.
        sizes: By graph symbol.
        moved: Whether the corner itself is not allowed by the guards, and this is the allowed point next to it.
    """

    label: str
    sizes: Mapping[str, int]
    moved: bool = False


@dataclass(frozen=True)
class OutputError:
    """How one output differs at one point.

    Attributes:
        output: Its name, or its place.
        dtype: Its dtype.
        shape: Its shape.
        max_abs: The largest difference.
        max_rel: That, of the largest magnitude of the expected output; 0 where both are 0.
        allowed: The largest difference that the tolerance takes, or that the original's own movement explains.
        passed: Whether it is within, and dtype and shape agree.
        why: What is wrong besides numbers: shape, dtype, NaN in other places; empty where nothing is.
        moved: How far the original's own output moves when its inputs change by a unit in the last place; ``None``
            where that was not measured, which it is only where more differs than the tolerance takes.
        column: The slice of it that is the furthest off beside what its own magnitude allows, ``[:, 4]``, where that is
            more than the tolerance takes; then the numbers are those of the slice.
        tied: The op that chooses among equal values, where the output differs in nothing but which of them it chose;
            no difference then.
        finite: Whether any number of the expected output is; where none is, agreement says nothing.
    """

    output: str
    dtype: str
    shape: tuple[int, ...]
    max_abs: float
    max_rel: float
    allowed: float
    passed: bool
    why: str = ""
    moved: float | None = None
    tied: str = ""
    column: str = ""
    finite: bool = True

    @property
    def compared(self) -> bool:
        """Whether its numbers were: one of another shape, dtype or kind has none to subtract."""
        return self.passed or not self.why or self.max_abs > 0 or self.allowed > 0

    @property
    def unstable(self) -> bool:
        """Whether it is off by more than the tolerance, but by no more than the original's movement explains."""
        return self.passed and self.moved is not None


@dataclass(frozen=True)
class PointResult:
    """What became of one point: its outputs, or why it was not run or cannot be compared, or what failed.

    Attributes:
        point: The sizes.
        outputs: How each differs.
        skipped: Why it was not run, or cannot be compared; empty where it was.
        failed: How the compiled program failed; empty where it did not.
        unstable: Where it agrees only as far as the original itself is stable: how far that moves; empty elsewhere.
    """

    point: Point
    outputs: tuple[OutputError, ...] = ()
    skipped: str = ""
    failed: str = ""
    unstable: str = ""

    @property
    def passed(self) -> bool:
        """Whether it ran and all outputs agree."""
        return not self.skipped and not self.failed and all(output.passed for output in self.outputs)

    def named(self, names: Mapping[str, str]) -> PointResult:
        """The same with the user's names for symbols in what torch said."""
        return replace(self, skipped=in_words(self.skipped, names), failed=in_words(self.failed, names))


@dataclass(frozen=True)
class Culprit:
    """The first op whose output differs.

    Attributes:
        segment: The segment it is in.
        origin: The op, its node and source line; ``None`` where only the segment is known.
        layer: The layer that gives the wrong output.
        max_abs: By how much.
        point: At which sizes.
        since: The last op before it that is right, where the ops between the two could not be told apart.
        note: What is known of it beyond that, in words.
        ends: Tensors of the segment's network that end the difference where they are outputs of its engine; empty
            where none did, or the network itself is wrong.
        measured: The largest difference of each tensor that was compared on the way to it, each engine given the right
            inputs, by node of the lowered graph.
    """

    segment: int
    origin: Origin | None
    layer: str
    max_abs: float
    point: Point
    since: Origin | None = None
    note: str = ""
    ends: tuple[int, ...] = ()
    measured: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, repr=False)
class Verification:
    """The comparison of a compiled program with the original.

    Attributes:
        results: By point.
        tolerance: What was allowed.
        culprit: Where a difference begins; ``None`` where there is none, or it could not be found.
        notes: What was not compared, in words.
        seconds: How long it took.
        total_s: What all points together were allowed to take, in seconds; ``None`` where there was no limit.
        left_out: The points that were not compared since they were not expected to end within that, the costliest
            first.  Which they are depends on how fast the machine was.
    """

    results: tuple[PointResult, ...]
    tolerance: Tolerance
    culprit: Culprit | None = None
    notes: tuple[str, ...] = field(default=())
    seconds: float = 0.0
    total_s: float | None = None
    left_out: tuple[Point, ...] = field(default=())

    @property
    def passed(self) -> bool:
        """Whether at least one point was compared, and nothing differed or failed."""
        ran = [result for result in self.results if not result.skipped]
        return bool(ran) and all(result.passed for result in ran)

    @property
    def differs(self) -> bool:
        """Whether some point ran, and an output differed there or the compiled program failed.

        Where this and ``passed`` are both false no point was compared, and neither is known.
        """
        return any(not result.skipped and not result.passed for result in self.results)

    def __repr__(self) -> str:
        ran = [result for result in self.results if not result.skipped]
        if not ran:
            why = next((result.skipped for result in self.results), "there were none")
            return f"Verification(no point could be compared: {told_name(why)})"
        wrong = [result for result in ran if not result.passed]
        agrees = f"{len(ran) - len(wrong)} of {len(ran)} points agree"
        if len(ran) < len(self.results):
            agrees += f", {len(self.results) - len(ran)} were not compared"
        if wrong and wrong[0].failed:
            return f"Verification({agrees}; at {wrong[0].point.label} it failed: {told_name(wrong[0].failed)})"
        worst, off = self.worst, ""
        if worst is not None:
            how = told_name(worst.why) if worst.why else f"at most {worst.max_rel:.1e} of its magnitude off"
            off = f"; {told_name(worst.output)}: {how}"
        return f"Verification({agrees}{off}; allowed is {self.tolerance.relative:g} of the magnitude)"

    @property
    def unstable(self) -> tuple[PointResult, ...]:
        """The points that agree only as far as the original itself is stable."""
        return tuple(result for result in self.results if result.unstable)

    @property
    def worst(self) -> OutputError | None:
        """The output that is furthest off, of its own magnitude."""
        found = [output for result in self.results for output in result.outputs]
        return max(found, key=lambda output: (not output.passed, output.max_rel), default=None)
