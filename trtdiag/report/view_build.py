"""The whole page as a view: the one place that knows its order."""

from __future__ import annotations

from trtdiag.analysis.finding import Finding
from trtdiag.analysis.result import Analysis
from trtdiag.report.charts.precision import precision_chart
from trtdiag.report.comparison import Body
from trtdiag.report.drawing.build import graph_view
from trtdiag.report.page import Part
from trtdiag.report.shown_paths import place
from trtdiag.report.source_context import source_view
from trtdiag.report.verdict import first_frame, merged_dynamic_shapes, verdict
from trtdiag.report.view_comparison import comparison_view
from trtdiag.report.view_compiled import compiled_view
from trtdiag.report.view_coverage import coverage_view, no_work_view
from trtdiag.report.view_dims import dims_view
from trtdiag.report.view_findings import finding_views, fix_view
from trtdiag.report.view_inputs import inputs_view
from trtdiag.report.view_partition import partition_view
from trtdiag.report.view_settings import settings_view
from trtdiag.report.view_splits import splits_view
from trtdiag.report.view_stages import stages_view
from trtdiag.report.view_strip import strip_view
from trtdiag.report.view_types import memory_view, metadata_view, precision_view, types_view
from trtdiag.wording import amount, one_line, visible

_LONGEST_NOTE_CHARS = 2000
_LONGEST_FAILURE_CHARS = 8000


def report_view(analysis: Analysis, *, command: str = "", layout: str = "auto", comparison: Body | None = None) -> Part:
    """The page of an analysis.

    Args:
        analysis: The facts and findings.
        command: How the report was asked for; made up from the program and its options where empty.
        layout: ``auto``, ``dot`` or ``builtin``: see `lay_out`.
        comparison: What changed since an earlier report.
    """
    declared = merged_dynamic_shapes(analysis)
    graph = graph_view(analysis, layout)
    parts = analysis.partition
    halves = None if parts is None else parts.plan.lowered.precision
    precision = None if halves is None else precision_view(halves)
    built = () if analysis.compilation is None else analysis.compilation.engines
    layers = [layer for engine in built for layer in engine.built.layers]
    shares = None if parts is None else precision_chart(parts, layers)
    footer = [f"trtdiag {analysis.trtdiag_version}"]
    if graph is not None:
        footer.append(graph["layout_note"])
    return {
        "label": one_line(analysis.program.label),
        "verdict": _verdict_view(analysis, declared),
        "stages": stages_view(analysis),
        "findings": finding_views(analysis.findings, declared),
        "splits": None if parts is None else splits_view(parts, analysis.findings),
        "inputs": inputs_view(analysis),
        "dims": dims_view(analysis),
        "types": None if analysis.dtypes is None else types_view(analysis.dtypes, parts, precision, shares),
        "strip": None if parts is None else strip_view(parts),
        "partition": None if parts is None else partition_view(analysis, parts),
        "graph": graph,
        "coverage": None if parts is None else coverage_view(parts),
        "compiled": None if analysis.compilation is None else compiled_view(analysis, analysis.compilation),
        "speed": None,  # bench measures it, once there is a report
        "no_work": None if analysis.checked is None else no_work_view(analysis.checked, parts),
        "memory": None if analysis.memory is None else memory_view(analysis.memory),
        "metadata": None if analysis.checked is None else metadata_view(analysis.checked),
        "comparison": None if comparison is None else comparison_view(comparison),
        "settings": settings_view(analysis, command),
        "not_checked": [one_line(text, _LONGEST_NOTE_CHARS) for text in analysis.not_checked],
        "footer": footer,
    }


def _verdict_view(analysis: Analysis, declared: str | None) -> Part:
    result = verdict(analysis)
    failure = analysis.program.failure
    words = ""
    if failure is not None:
        words = f"torch.export refused the program as asked, with {one_line(failure.error_type)}."
        relaxed = f"What follows is from another export: {one_line(failure.relaxed)}." if failure.relaxed else ""
        words += f" {relaxed or 'There is no graph.'}"
    status = "partial" if result.status == "clean" and (result.caveat or analysis.not_checked) else result.status
    first = result.first
    return {
        "status": status,
        "text": result.text,
        "headline": result.headline,
        "first": "" if first is None else _first_cause(first),
        "first_id": "" if first is None else one_line(first.id),
        "fix": None if first is None else fix_view(first.fix, declared),
        "counts": result.counts,
        "caveat": result.uncovered,
        "failure": words,
        "failure_text": visible(failure.message.strip())[:_LONGEST_FAILURE_CHARS] if failure else "",
        "failure_source": None if failure is None else source_view(failure.stack.best),
    }


def _first_cause(finding: Finding) -> str:
    """The message with its line and how many places it shows at."""
    frame = first_frame(finding)
    told = one_line(finding.message, 400)
    if frame is not None and str(frame) not in finding.message:
        told += f", at {place(frame)}"
    return told + (f" ({amount(len(finding.places), 'place')})" if len(finding.places) > 1 else "")
