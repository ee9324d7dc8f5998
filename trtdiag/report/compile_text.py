"""What ``compile`` and ``verify`` print.

Names go in as rich ``Text``, never as markup.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from trtdiag.analysis.backend_times import INDUCTOR, Optimization
from trtdiag.analysis.compilation import pairs_of_int64
from trtdiag.analysis.fallbacks import reason_of
from trtdiag.analysis.stage_timing import StageTiming
from trtdiag.convert.facts import ConvertedSegment
from trtdiag.engine.build import Engine
from trtdiag.engine.manifest import Manifest
from trtdiag.engine.tensorrt.engine_per_gpu import unpacked
from trtdiag.grouping import grouped
from trtdiag.partition.facts import Cause, EnginePlan, Fallback
from trtdiag.partition.intrinsic_limits import COMPILED
from trtdiag.report.compile_words import (
    allowed_line,
    builders,
    builders_and_target,
    culprit_line,
    engine_sizes,
    input_text,
    movement_words,
    outcome,
    outcome_line,
    output_text,
    point_label,
)
from trtdiag.report.latency_tables import latency_text
from trtdiag.report.shown_paths import short_paths
from trtdiag.report.terminal_layout import hanging, unbroken
from trtdiag.symbolic.text import in_words
from trtdiag.verification.facts import OutputError, Verification
from trtdiag.verification.limits import left_out_words
from trtdiag.verification.points import point_sizes
from trtdiag.wording import amount, bytes_text, listed, one_line

_MOST_ENGINES = 20
_MOST_REASONS = 12
_MOST_OPS = 8
_MOST_PORTS = 6
_PORT_COLUMN = 9
_MOST_POINTS = 6
_MOST_OUTPUTS = 3
_LONGEST_NOTE_CHARS = 600
_LEAST_STAGE_S = 0.05


def engines_text(
    plan: EnginePlan,
    converted: Sequence[ConvertedSegment],
    engines: Sequence[Engine],
    notes: Sequence[str] = (),
    optimization: Optimization | None = None,
) -> RenderableType:
    """The engines, and what stays with PyTorch with the reason.

    Args:
        plan: What was planned.
        converted: Its networks.
        engines: What was built of them.
        notes: What was built otherwise than planned.
        optimization: What was measured to choose how each part runs.
    """
    names, manifests = plan.sizes.program.words, [engine.manifest for engine in engines]
    inside = sum(len(segment.ops) for segment in plan.partitioned.segments)
    left = [entry for entry in plan.partitioned.fallback if entry.computes]
    every = amount(inside + len(left), "op")
    if manifests:
        built = f"{inside:,} of {every} in {amount(len(manifests), 'engine')}"
        made_by = builders_and_target([manifest.backend for manifest in manifests], plan.target.name)
        head = Text(f"{built}, by {made_by}", style="bold green")
    else:
        kept = sum(entry.limit is COMPILED for entry in left)
        what = f"no engine beside the {kept:,} that it had before" if kept else "0 engines: everything stays in PyTorch"
        head = Text(f"{what} ({every}, {plan.target.name})", style="bold yellow")
    parts: list[RenderableType] = [head, Text("")]
    shown = list(zip(converted, manifests, strict=True))[:_MOST_ENGINES]
    for index, (one, manifest) in enumerate(shown):
        parts += [*_engine(index, one, manifest, names), Text("")]
    if len(manifests) > _MOST_ENGINES:
        parts += [Text(f"and {len(manifests) - _MOST_ENGINES:,} more engines", style="dim"), Text("")]
    if optimization is not None:
        parts += latency_text(optimization, names)
    for note in notes:
        parts += [hanging(2, f"note: {_note(in_words(note, names))}"), Text("")]
    if left:
        parts += [Text("Left to PyTorch", style="bold"), *_left_to_pytorch(left, names), Text("")]
    return Group(*parts)


def _engine(
    index: int, converted: ConvertedSegment, manifest: Manifest, names: Mapping[str, str]
) -> Iterator[RenderableType]:
    """An engine: its inputs, its outputs, and the sizes that it was built for, each said once."""
    ops, layers = len(converted.segment.ops), len(converted.network.layers)
    made = "code of AOTInductor" if manifest.backend == INDUCTOR else amount(layers, "layer")
    yield Text(f"engine {index}: {amount(ops, 'op')}, {made}", style="bold")
    pairs = pairs_of_int64(converted, manifest)
    inputs = [f"{port.name} {input_text(port, names, pairs)}" for port in manifest.inputs if port.value is None]
    outputs = [f"{port.name} {output_text(manifest, port, names)}" for port in manifest.outputs]
    sizes = engine_sizes(manifest, names)
    for label, items in (("in", inputs), ("out", outputs), ("sizes", sizes)):
        for at, item in enumerate(items[:_MOST_PORTS]):
            yield hanging(_PORT_COLUMN + 2, f"  {'' if at else label:<{_PORT_COLUMN - 2}}{one_line(item)}")
        if len(items) > _MOST_PORTS:
            yield Text(f"{'':{_PORT_COLUMN}}and {len(items) - _MOST_PORTS:,} more", style="dim")


def _left_to_pytorch(left: Sequence[Fallback], names: Mapping[str, str]) -> Iterator[RenderableType]:
    """Why ops stay, the reason of most ops first: the ops with a count, one reason of those alike, and what to do."""
    reasons = sorted(grouped((_reason_of(entry), entry) for entry in left).values(), key=len, reverse=True)
    for entries in reasons[:_MOST_REASONS]:
        ops = Counter(entry.op for entry in entries)
        called = [one_line(op) + (f" ({count:,}x)" if count > 1 else "") for op, count in ops.most_common()]
        told = dict.fromkeys(in_words(entry.limit.why, names) for entry in entries)
        alike = f" (and {len(told) - 1:,} like it)" if len(told) > 1 else ""
        why = _note(next(iter(told)).removeprefix(f"{entries[0].op} "))  # which stands before it
        every = f"{len(entries):,} calls: " if len(ops) > 1 else ""
        yield hanging(6, f"  {every}{listed(called, _MOST_OPS)}: ", f"{why}{alike}")
        fix = in_words(entries[0].limit.fix, names)
        if fix:
            yield hanging(11, ("      fix: ", "green"), _note(fix))
    if len(reasons) > _MOST_REASONS:
        yield Text(f"  and {amount(len(reasons) - _MOST_REASONS, 'more reason')}", style="dim")


def _note(text: str) -> str:
    return one_line(short_paths(text), _LONGEST_NOTE_CHARS)


def _reason_of(entry: Fallback) -> tuple[str, str]:
    return (entry.limit.code, "") if entry.cause is Cause.SMALL else reason_of(entry)


def ending_text(engines: Sequence[Engine], kept: int, saved: str, compiled: int = 0) -> RenderableType:
    """The line that ``compile`` ends with: what was really made.

    Args:
        engines: Those that were built.
        kept: How many engines the program had before.
        saved: Where it is now, ``model_trt.pt2 (1,000 bytes)``.
        compiled: How many segments that stay with PyTorch were compiled.
    """
    code = f"{amount(compiled, 'segment')} of PyTorch compiled by AOTInductor" if compiled else ""
    if engines:
        backends = [engine.manifest.backend for engine in engines]
        made = f"{amount(len(engines), 'engine')} of {builders(backends)}"
        told = f"compiled: {saved}, {made}{' (no TensorRT engine was built)' * ({*backends} == {'reference'})}"
        told += f", {code}" if code else ""
    elif compiled:
        told = f"compiled: {saved}, {code}, no engine"
    elif kept:
        told = f"compiled: {saved}, with the {amount(kept, 'engine')} that it had before, and no other"
    else:
        told = f"0 engines: everything stays in PyTorch; {saved} is the program as it was"
    line = unbroken(told)
    line.stylize("" if engines or kept or compiled else "bold yellow")
    return Group(line)  # a Text that is printed alone is wrapped whatever it says of itself


def gpus_line(engines: Sequence[Engine]) -> str:
    """The GPU generations that engines were built for by name, with their size; empty where they are for this GPU.

    ``for sm89, sm120: 0.9 MiB of engines``, or where each has its own ``for sm89 0.4 MiB, sm120 0.5 MiB of engines``.
    """
    gpus = tuple(dict.fromkeys(gpu for each in engines for gpu in each.manifest.compatibility.gpus))
    if not gpus:
        return ""
    own: Counter[str] = Counter()
    for each in engines:
        own.update({gpu: len(blob) for gpu, blob in (unpacked(memoryview(each.blob)) or {}).items()})
    if own:
        return f"for {', '.join(f'{gpu} {bytes_text(own[gpu])}' for gpu in gpus)} of engines"
    return f"for {', '.join(gpus)}: {bytes_text(sum(len(each.blob) for each in engines))} of engines"


def verification_text(found: Verification, names: Mapping[str, str]) -> RenderableType:
    """One line where the compiled program agrees, else where and by how much it is off; ``names`` are for symbols."""
    style = {"agrees": "bold green", "differs": "bold red", "unknown": "bold yellow"}[outcome(found)]
    simply = found.passed and not found.unstable
    allowed = f" ({found.tolerance.relative:g} is allowed)" if simply else ""
    parts: list[RenderableType] = [hanging(2, (outcome_line(found), style), allowed), *_points(found, names)]
    if found.culprit is not None:
        parts.append(hanging(2, (culprit_line(found.culprit, names), "red")))
    notes = [f"note: {short_paths(in_words(note, names))}" for note in found.notes]
    told = [*([] if simply else [f"allowed: {allowed_line(found)}"]), *notes]
    return Group(*parts, *(hanging(2, (line, "dim")) for line in told), Text(""))


def _points(found: Verification, names: Mapping[str, str]) -> Iterator[RenderableType]:
    """The sets of sizes that do not simply agree: what differs, then what is unstable, then what could not be run."""
    apart = [result for result in found.results if not result.skipped and (not result.passed or result.unstable)]
    for result in sorted(apart, key=lambda result: (result.passed, not result.unstable))[:_MOST_POINTS]:
        yield hanging(4, f"  {point_label(result.point, names)} ({point_sizes(result.point.sizes, names)})")
        if result.failed:
            yield hanging(6, (f"    failed: {one_line(short_paths(result.failed))}", "red"))
        told = [output for output in result.outputs if not output.passed or output.unstable]
        for output in sorted(told, key=lambda output: -output.max_rel)[:_MOST_OUTPUTS]:
            yield hanging(8, *_output_words(output))
        if len(told) > _MOST_OUTPUTS:
            yield Text(f"    and {amount(len(told) - _MOST_OUTPUTS, 'more output')}", style="dim")
    if len(apart) > _MOST_POINTS:
        yield Text(f"  and {len(apart) - _MOST_POINTS:,} more sets of sizes (--json has all)", style="dim")
    late = left_out_words(found, names)
    if late:
        yield hanging(4, (f"  not compared: {late}", "yellow"))
    others = (result for result in found.results if result.skipped and result.point not in found.left_out)
    skipped = grouped((re.sub(r"\d+", "#", result.skipped), result) for result in others)
    for results in skipped.values():
        first = results[0]
        sets = f"{amount(len(results), 'set')} of sizes"
        yield hanging(4, (f"  not compared at {sets}: {_note(first.skipped)}", "yellow"))
        example = f"{point_label(first.point, names)} ({point_sizes(first.point.sizes, names)})"
        yield hanging(6, (f"    {'such as ' if len(results) > 1 else ''}{example}", "dim"))


def _output_words(output: OutputError) -> Iterator[str | tuple[str, str]]:
    moved = movement_words(output)
    style = "yellow" if output.unstable else "red"
    told = f"unstable: {moved}" if output.unstable else output.why or "; ".join(filter(None, ("differs", moved)))
    name = f"{one_line(output.output)}{output.column}: " if output.output else ""
    # Of outputs of another shape or dtype nothing was subtracted.
    yield f"    {name}" + (f"max abs {output.max_abs:.2e}, max rel {output.max_rel:.2e}, " if output.compared else "")
    yield one_line(told), style


def stages_text(stages: Sequence[StageTiming]) -> RenderableType:
    """The time of all stages, and of those that took long enough to see."""
    ran = [stage for stage in stages if stage.state == "ok"]
    told = ", ".join(
        f"{stage.name} {stage.seconds:.2f}{f' ({stage.message})' * bool(stage.message)}"
        for stage in ran
        if stage.message or stage.seconds >= _LEAST_STAGE_S
    )
    every = sum(stage.seconds for stage in ran)
    return hanging(2, (f"seconds: {every:.2f} in all{f': {told}' if told else ''}", "dim"))
