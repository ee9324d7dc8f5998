"""What ``compile`` and ``verify`` print.

Names go in as rich ``Text``, never as markup.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trtdiag.analysis.stage_timing import StageTiming
from trtdiag.convert.facts import ConvertedSegment
from trtdiag.engine.build import Engine
from trtdiag.engine.manifest import Manifest
from trtdiag.engine.tensorrt.engine_per_gpu import unpacked
from trtdiag.partition.facts import EnginePlan
from trtdiag.report.compile_words import (
    allowed_line,
    culprit_line,
    movement_words,
    outcome,
    outcome_line,
    point_label,
    point_sizes,
    port_text,
    tensor_text,
)
from trtdiag.report.plain_table import plain_table
from trtdiag.symbolic.text import in_words
from trtdiag.verification.facts import PointResult, Verification
from trtdiag.wording import bytes_text, one_line

_MOST_ENGINES = 20
_MOST_REASONS = 12
_MOST_PORTS = 4
_MOST_POINTS = 24
_LONGEST_NOTE_CHARS = 600


def engines_text(
    plan: EnginePlan, converted: Sequence[ConvertedSegment], engines: Sequence[Engine], notes: Sequence[str] = ()
) -> RenderableType:
    """The engines, and what stays with PyTorch with the reason; ``notes`` say what was built otherwise than planned."""
    names, manifests = plan.sizes.program.names, [engine.manifest for engine in engines]
    inside = sum(len(segment.ops) for segment in plan.partitioned.segments)
    left = [entry for entry in plan.partitioned.fallback if entry.computes]
    backend = manifests[0].backend if manifests else "none"
    count = len(manifests)
    head = f"{inside} of {inside + len(left)} ops in {count} engine{'s' * (count != 1)}"
    parts: list[RenderableType] = [
        Text(f"{head} (backend {backend}, {plan.target.name})", style="bold green" if count else "bold yellow")
    ]
    if count:
        parts.append(_engine_table(converted, manifests, names))
    parts += [
        Padding(Text(f"note: {one_line(in_words(note, names), _LONGEST_NOTE_CHARS)}", overflow="fold"), (0, 0, 1, 0))
        for note in notes
    ]
    if left:
        reasons = Counter((entry.op, entry.limit.why) for entry in left)
        lines = [
            Text(one_line(f"{op}{f' ({times}x)' if times > 1 else ''}: {in_words(why, names)}"), overflow="fold")
            for (op, why), times in reasons.most_common(_MOST_REASONS)
        ]
        if len(reasons) > _MOST_REASONS:
            lines.append(Text(f"and {len(reasons) - _MOST_REASONS} more reasons", style="dim"))
        parts += [Text("Left to PyTorch"), Padding(Group(*lines), (0, 0, 1, 2))]
    return Group(*parts)


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


def _engine_table(
    converted: Sequence[ConvertedSegment], manifests: Sequence[Manifest], names: Mapping[str, str]
) -> RenderableType:
    table = plain_table(numbers=("engine", "ops", "layers"))
    table.add_column("inputs", overflow="fold", ratio=3)
    table.add_column("outputs", overflow="fold", ratio=2)
    shown = list(zip(converted, manifests, strict=True))[:_MOST_ENGINES]
    for index, (one, manifest) in enumerate(shown):
        outputs = [f"{o.name} {tensor_text(o.dtype, o.dims, names)}" for o in manifest.outputs]
        counts = (str(number) for number in (index, len(one.segment.ops), len(one.network.layers)))
        inputs = [port_text(port, names) for port in manifest.inputs]
        table.add_row(*counts, Text(_listed(inputs)), Text(_listed(outputs)))
    more = [Text(f"and {len(manifests) - _MOST_ENGINES} more engines", style="dim")]
    return Padding(Group(table, *(more if len(manifests) > _MOST_ENGINES else [])), (1, 0))


def _listed(items: Sequence[str]) -> str:
    shown = [one_line(item) for item in items[:_MOST_PORTS]]
    return "\n".join([*shown, *([f"and {len(items) - _MOST_PORTS} more"] if len(items) > _MOST_PORTS else [])])


def verification_text(found: Verification, names: Mapping[str, str]) -> RenderableType:
    """Whether the compiled program agrees, and by how much it is off at each point; ``names`` are for symbols."""
    style = {"agrees": "bold green", "differs": "bold red", "unknown": "bold yellow"}[outcome(found)]
    parts: list[RenderableType] = [Text(outcome_line(found), style=style), _points_table(found, names)]
    if found.culprit is not None:
        parts.append(Text(culprit_line(found.culprit, names), style="red", overflow="fold"))
    told = [f"allowed: {allowed_line(found)}", *(f"note: {note}" for note in found.notes)]
    parts += [Text(line, style="dim", overflow="fold") for line in told]
    return Group(*parts)


def _points_table(found: Verification, names: Mapping[str, str]) -> RenderableType:
    table = plain_table(("point", "sizes", "output"), ("max abs", "max rel"))
    table.add_column("", overflow="fold")
    # What differs is never among those left out, and what is unstable only behind it.
    order = sorted(found.results, key=lambda result: (result.passed, not result.unstable))
    for result in order[:_MOST_POINTS]:
        _point_rows(table, result, names)
    left = len(found.results) - _MOST_POINTS
    return Padding(Group(table, *([Text(f"and {left} more points", style="dim")] if left > 0 else [])), (1, 0))


def _point_rows(table: Table, result: PointResult, names: Mapping[str, str]) -> None:
    label = point_label(result.point, names)
    sizes = point_sizes(result.point.sizes, names)
    if result.skipped or result.failed:
        word, style = ("skipped", "yellow") if result.skipped else ("failed", "red")
        why = Text(one_line(f"{word}: {result.skipped or result.failed}"), style=style)
        table.add_row(label, sizes, "", "", "", why)
        return
    for index, output in enumerate(result.outputs):
        moved = movement_words(output)
        told = one_line(output.why or "; ".join(filter(None, ("differs", moved)))), "red"
        if output.unstable:
            told = f"unstable: {moved}", "yellow"
        elif output.passed:
            told = "ok", "green"
        point = ("", "") if index else (label, sizes)
        off = f"{output.max_abs:.2e}", f"{output.max_rel:.2e}"
        table.add_row(*point, Text(one_line(output.output)), *off, Text(*told))


def stages_text(stages: Sequence[StageTiming]) -> Text:
    """The time of each stage in one line."""
    told = ", ".join(
        f"{stage.name} {stage.seconds:.2f}{f' ({stage.message})' * bool(stage.message)}"
        for stage in stages
        if stage.state == "ok"
    )
    return Text(f"seconds: {told}", style="dim", overflow="fold")
