"""What became of compiling, as the page shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trtdiag.analysis.backend_times import INDUCTOR
from trtdiag.analysis.compilation import CompilationFacts, EngineFacts
from trtdiag.analysis.result import Analysis
from trtdiag.frontend.program import OpOrigin
from trtdiag.report.charts.engine_sizes import engine_sizes_chart
from trtdiag.report.charts.errors import errors_chart
from trtdiag.report.compile_words import (
    allowed_line,
    builders_and_target,
    culprit_line,
    input_text,
    movement_words,
    outcome,
    outcome_line,
    output_text,
    point_label,
)
from trtdiag.report.engine_words import also_words, op_counts, saved_words
from trtdiag.report.latency_tables import latency_view
from trtdiag.report.page import Part, fold_label, folding_table, table
from trtdiag.report.quantization_words import quantization_view
from trtdiag.report.source_context import source_view
from trtdiag.report.view_engine_layers import engine_layers_view
from trtdiag.shapes.profile import DimProfile
from trtdiag.symbolic.text import in_words
from trtdiag.targets import target_name
from trtdiag.verification.facts import PointResult, Verification
from trtdiag.verification.limits import left_out_words
from trtdiag.verification.points import point_sizes
from trtdiag.wording import LONG_CHARS, amount, bytes_text, one_line

_MOST_ENGINES = 40
_SHOWN_ROWS = 24
_SHOWN_AGREEING = 6
_LISTED_ROWS = 400
_OPEN_ENGINES = 2
_NUMBERS = ("max_abs", "max_rel", "allowed")


def compiled_view(analysis: Analysis, facts: CompilationFacts) -> Part:
    """The section of the page."""
    names = analysis.program.words
    origins = analysis.partition.plan.lowered.origins if analysis.partition is not None else {}
    hidden = len(facts.engines) - _MOST_ENGINES
    return {
        "summary": _summary(analysis, facts),
        "sizes": engine_sizes_chart(facts.engines),
        "verification": None if facts.verification is None else _verification(facts.verification, names),
        "engines": [
            _engine(index, engine, names, origins, is_open=len(facts.engines) <= _OPEN_ENGINES)
            for index, engine in enumerate(facts.engines[:_MOST_ENGINES])
        ],
        "more_engines": f"{amount(hidden, 'more engine')}: see the JSON report" if hidden > 0 else "",
        "quantization": None if facts.quantization is None else quantization_view(facts.quantization),
        "ways": latency_view(facts.optimization, names),
    }


def _summary(analysis: Analysis, facts: CompilationFacts) -> str:
    engines = facts.engines
    if not engines:
        return "Nothing goes into an engine: the compiled program runs in PyTorch alone."
    size = bytes_text(sum(engine.engine_bytes for engine in engines))
    inside = [engine.ops for engine in engines if engine.ops is not None]
    ops = amount(sum(inside), "op")
    if analysis.partition is not None:
        every = op_counts(analysis.partition)[1]
        ops = f"{sum(inside):,} of {amount(every, 'op')}"
    every_backend = [engine.manifest.backend for engine in engines]
    told = f"{ops} in " if len(inside) == len(engines) else ""
    made_by = builders_and_target(every_backend, target_name(analysis.target))
    text = f"{told}{amount(len(engines), 'engine')} of {size}, built by {one_line(made_by)}."
    cached = saved_words([engine.saved for engine in engines])
    text += f" {cached}." if cached else ""
    if all(engine.manifest.tensorrt is None for engine in engines):
        text += " PyTorch runs them; no engine of TensorRT's was built."
    return text + "".join(f" {one_line(note[:1].upper() + note[1:], LONG_CHARS)}." for note in facts.notes)


def _verification(found: Verification, names: Mapping[str, str]) -> Part:
    # What differs is never among those that are folded, and what is unstable only behind it; what agrees comes last.
    order = sorted(found.results, key=lambda result: (bool(result.passed or result.skipped), _calm(result)))
    rows = [row for result in order for row in _point_rows(result, names)]
    agreeing = sum(len(result.outputs) for result in order if _calm(result) > 1)
    shown = min(_SHOWN_ROWS, len(rows) - agreeing if agreeing > _SHOWN_AGREEING else len(rows))
    hidden = len(rows) - shown
    more = amount(hidden, "row that agrees", "rows that agree") if hidden == agreeing else amount(hidden, "more row")
    more = more if hidden else ""
    culprit = found.culprit
    frame = None if culprit is None or culprit.origin is None else culprit.origin.frame
    told = "" if culprit is None else culprit_line(culprit, names)
    line, late = outcome_line(found), left_out_words(found, names)
    return {
        "state": outcome(found),
        "text": line[0].upper() + line[1:],
        "errors": errors_chart(found, names),
        "rows": rows[:shown],
        "folded": rows[shown:_LISTED_ROWS],
        "more": fold_label(more, hidden, _LISTED_ROWS - shown),
        "allowed": one_line(allowed_line(found), LONG_CHARS),
        "culprit": told[:1].upper() + told[1:],
        "source": source_view(frame),
        "notes": [
            *([one_line(f"Not compared: {late}", LONG_CHARS)] if late else []),
            *(one_line(in_words(note, names), LONG_CHARS) for note in found.notes),
        ],
    }


def _calm(result: PointResult) -> int:
    return 0 if result.unstable else 1 if result.skipped else 2 if result.passed else 0


def _point_rows(result: PointResult, names: Mapping[str, str]) -> Iterator[Part]:
    label = one_line(point_label(result.point, names))
    sizes = one_line(point_sizes(result.point.sizes, names), LONG_CHARS)
    if result.skipped or result.failed:
        why = one_line(result.skipped or result.failed, LONG_CHARS)
        numbers = dict.fromkeys(("output", *_NUMBERS), "")
        state = "skipped" if result.skipped else "failed"
        yield {"point": label, "sizes": sizes, **numbers, "state": state, "why": why}
        return
    for index, output in enumerate(result.outputs):
        yield {
            "point": label if index == 0 else "",
            "sizes": sizes if index == 0 else "",
            "output": one_line(f"{output.output}{output.column}"),
            **{key: _number(getattr(output, key)) if output.compared else "" for key in _NUMBERS},
            "state": "unstable" if output.unstable else "agrees" if output.passed else "differs",
            "why": one_line(output.why or movement_words(output), LONG_CHARS),
        }


def _number(off: float) -> str:
    return f"{off:.2e}" if off else "0"


def _engine(
    index: int, engine: EngineFacts, names: Mapping[str, str], origins: Mapping[str, OpOrigin], *, is_open: bool
) -> Part:
    manifest = engine.manifest
    layers = engine.layers or {}
    parts = [] if engine.ops is None else [amount(engine.ops, "op")]
    if manifest.backend == INDUCTOR:  # its code has no layers
        layers, parts = {}, [*parts, "code of AOTInductor"]
        made = "Compiled by AOTInductor"
    else:
        parts += [] if engine.ops is None else [amount(sum(layers.values()), "layer")]
        made = f"Built by the {one_line(manifest.backend)} backend for {one_line(target_name(manifest.target))}"
    made += f" with release {one_line(manifest.tensorrt)}" if manifest.tensorrt else ""
    made += f" on {one_line(manifest.gpu)}" if manifest.gpu else ""
    also = also_words(manifest)
    made += f", {one_line(also)}" if also else ""
    rows = []
    for place, port in enumerate(manifest.inputs):
        tensor = input_text(port, names, engine.pairs)
        if not manifest.profiles:
            rows.append(("in", one_line(port.name), one_line(tensor), *_ends(port.profile, is_size=port.is_size)))
        for own in manifest.profiles:
            ends = _ends(own.sizes[place], is_size=port.is_size)
            rows.append((f"in, {own.name}", one_line(port.name), one_line(tensor), *ends))
    for out in manifest.outputs:
        rows.append(("out", one_line(out.name), one_line(output_text(manifest, out, names)), "", "", ""))
    heads = ("", "tensor", "type", "min", "tuned for", "max")
    return {
        "title": f"Engine {index}",
        "summary": ", ".join([*parts, bytes_text(engine.engine_bytes)]),
        "made": f"{made}; runs on {one_line(manifest.device)}; network {manifest.network_hash[:12]}.",
        "layers": ", ".join(f"{count:,} {kind}" for kind, count in layers.items()),
        "ports": folding_table(heads, rows) or table(heads, ()),
        "built": engine_layers_view(engine.built, origins),
        "is_open": is_open,
    }


def _ends(profile: tuple[DimProfile, ...], *, is_size: bool) -> tuple[str, ...]:
    ends = [[getattr(dim, end) for dim in profile] for end in ("min", "opt", "max")]
    told = [", ".join("no maximum" if size is None else str(size) for size in sizes) for sizes in ends]
    return tuple(told if is_size else (f"[{text}]" for text in told))
