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

from trtdiag.analysis.result import StageTiming
from trtdiag.convert.facts import ConvertedSegment
from trtdiag.engine.manifest import EngineInput, Manifest
from trtdiag.partition.facts import Partitioned
from trtdiag.report.text import one_line
from trtdiag.shapes.profile import DimProfile
from trtdiag.symbolic import Expr, Num, Sym, substitute, to_text
from trtdiag.verify.facts import Culprit, PointResult, Verification

_MOST_ENGINES = 20
_MOST_REASONS = 12
_MOST_PORTS = 4
_MOST_POINTS = 24


def engines_text(
    partitioned: Partitioned,
    converted: Sequence[ConvertedSegment],
    manifests: Sequence[Manifest],
    target: str,
    names: Mapping[str, str],
) -> RenderableType:
    """The engines, and what stays with PyTorch with the reason; ``names`` are the user's for symbols."""
    inside = sum(len(segment.ops) for segment in partitioned.segments)
    left = [entry for entry in partitioned.fallback if entry.computes]
    backend = manifests[0].backend if manifests else "none"
    count = len(manifests)
    head = f"{inside} of {inside + len(left)} ops in {count} engine{'s' * (count != 1)}"
    parts: list[RenderableType] = [
        Text(f"{head} (backend {backend}, TensorRT {target})", style="bold green" if count else "bold yellow")
    ]
    if count:
        parts.append(_engine_table(converted, manifests, _Words(names)))
    if left:
        reasons = Counter((entry.op, entry.limit.why) for entry in left)
        lines = [
            Text(one_line(f"{op}{f' ({times}x)' if times > 1 else ''}: {why}"), overflow="fold")
            for (op, why), times in reasons.most_common(_MOST_REASONS)
        ]
        if len(reasons) > _MOST_REASONS:
            lines.append(Text(f"and {len(reasons) - _MOST_REASONS} more reasons", style="dim"))
        parts += [Text("Left to PyTorch"), Padding(Group(*lines), (0, 0, 1, 2))]
    return Group(*parts)


class _Words:
    """Sizes and tensors in the user's names."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names: dict[str, Expr | int] = {symbol: Sym(name) for symbol, name in names.items()}

    def size(self, expr: Expr) -> str:
        return to_text(substitute(expr, self._names))

    def tensor(self, dtype: object, dims: Sequence[Expr]) -> str:
        sizes = ", ".join(self.size(dim) for dim in dims)
        return f"{str(dtype).removeprefix('torch.')}[{sizes}]"

    def port(self, port: EngineInput) -> str:
        if port.value is not None:
            (profile,) = port.profile
            return f"size {self.size(port.value)} = {_span(profile)}"
        spans = [
            "" if isinstance(dim, Num) else f"{self.size(dim)} {_span(profile)}"
            for dim, profile in zip(port.dims, port.profile, strict=True)
        ]
        told = ", ".join(dict.fromkeys(span for span in spans if span))
        return f"{port.name} {self.tensor(port.dtype, port.dims)}" + (f"; {told}" if told else "")


def _span(profile: DimProfile) -> str:
    return f"{profile.min}..{'' if profile.max is None else profile.max} (tuned for {profile.opt})"


def _engine_table(
    converted: Sequence[ConvertedSegment], manifests: Sequence[Manifest], words: _Words
) -> RenderableType:
    table = Table(box=None, pad_edge=False, show_edge=False)
    for name in ("engine", "ops", "layers"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("inputs", overflow="fold", ratio=3)
    table.add_column("outputs", overflow="fold", ratio=2)
    for index, (one, manifest) in enumerate(zip(converted, manifests, strict=True)):
        if index == _MOST_ENGINES:
            break
        outputs = [f"{o.name} {words.tensor(o.dtype, o.dims)}" for o in manifest.outputs]
        table.add_row(
            str(index),
            str(len(one.segment.ops)),
            str(len(one.network.layers)),
            Text(_listed([words.port(port) for port in manifest.inputs])),
            Text(_listed(outputs)),
        )
    more = [Text(f"and {len(manifests) - _MOST_ENGINES} more engines", style="dim")]
    return Padding(Group(table, *(more if len(manifests) > _MOST_ENGINES else [])), (1, 0))


def _listed(items: Sequence[str]) -> str:
    shown = [one_line(item) for item in items[:_MOST_PORTS]]
    return "\n".join([*shown, *([f"and {len(items) - _MOST_PORTS} more"] if len(items) > _MOST_PORTS else [])])


def verification_text(found: Verification, names: Mapping[str, str]) -> RenderableType:
    """Whether the compiled program agrees, and by how much it is off at each point; ``names`` are for symbols."""
    ran = [result for result in found.results if not result.skipped]
    points = f"{len(ran)} set{'s' * (len(ran) != 1)} of sizes"
    worst = found.worst
    if found.passed:
        off = f", at most {worst.max_rel:.1e} of an output's magnitude off" if worst is not None else ""
        head = Text(f"verified: agrees with the original at {points}{off}", style="bold green")
    elif not ran:
        head = Text("not verified: no point could be run", style="bold yellow")
    else:
        wrong = sum(not result.passed for result in ran)
        head = Text(f"DIFFERS from the original at {wrong} of {points}", style="bold red")
    parts: list[RenderableType] = [head, _points_table(found, names)]
    if found.culprit is not None:
        parts.append(Text(culprit_line(found.culprit, names), style="red", overflow="fold"))
    parts.append(
        Text(
            f"allowed: {found.tolerance.relative:g} of the magnitude + {found.tolerance.absolute:g}"
            f" ({found.tolerance.why})",
            style="dim",
            overflow="fold",
        )
    )
    parts += [Text(f"note: {note}", style="dim", overflow="fold") for note in found.notes]
    return Group(*parts)


def culprit_line(culprit: Culprit, names: Mapping[str, str]) -> str:
    """Where a difference begins, in one line."""
    at = f" at {_sizes(culprit.point.sizes, names)}" if culprit.point.sizes else ""
    if culprit.origin is None:
        return one_line(f"it begins in engine {culprit.segment}{at}: {culprit.layer}")
    return one_line(
        f"it begins with {culprit.origin} in engine {culprit.segment}, whose {culprit.layer} layer is"
        f" {culprit.max_abs:.2g} off{at}"
    )


def _points_table(found: Verification, names: Mapping[str, str]) -> RenderableType:
    table = Table(box=None, pad_edge=False, show_edge=False)
    for name in ("point", "sizes", "output"):
        table.add_column(name, overflow="fold")
    for name in ("max abs", "max rel"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    # What differs is never among those left out.
    order = sorted(found.results, key=lambda result: result.passed)
    for result in order[:_MOST_POINTS]:
        _point_rows(table, result, names)
    left = len(found.results) - _MOST_POINTS
    return Padding(Group(table, *([Text(f"and {left} more points", style="dim")] if left > 0 else [])), (1, 0))


def _point_rows(table: Table, result: PointResult, names: Mapping[str, str]) -> None:
    label = _label(result, names) + (" (next allowed)" if result.point.moved else "")
    sizes = _sizes(result.point.sizes, names)
    if result.skipped or result.failed:
        style = "yellow" if result.skipped else "red"
        word = "skipped" if result.skipped else "failed"
        why = Text(one_line(f"{word}: {result.skipped or result.failed}"), style=style)
        table.add_row(label, sizes, "", "", "", why)
        return
    for index, output in enumerate(result.outputs):
        verdict = Text("ok", style="green") if output.passed else Text(one_line(output.why or "differs"), style="red")
        table.add_row(
            label if index == 0 else "",
            sizes if index == 0 else "",
            Text(one_line(output.output)),
            f"{output.max_abs:.2e}",
            f"{output.max_rel:.2e}",
            verdict,
        )


def _label(result: PointResult, names: Mapping[str, str]) -> str:
    """The point's label with the user's names in it."""
    return " ".join(names.get(word, word) for word in result.point.label.split(" "))


def _sizes(sizes: Mapping[str, int], names: Mapping[str, str]) -> str:
    return ", ".join(f"{names.get(symbol, symbol)}={size}" for symbol, size in sizes.items())


def stages_text(stages: Sequence[StageTiming]) -> Text:
    """The time of each stage in one line."""
    told = ", ".join(f"{stage.name} {stage.seconds:.2f}" for stage in stages if stage.state == "ok")
    return Text(f"seconds: {told}", style="dim", overflow="fold")
