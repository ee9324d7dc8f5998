"""The whole page as a view: the one place that knows its order."""

from __future__ import annotations

import platform
import shlex

from trtdiag.analysis.result import Analysis, StageTiming
from trtdiag.capture.program import SourceKind
from trtdiag.report.drawing.build import graph_view
from trtdiag.report.source_context import source_view
from trtdiag.report.text import amount, bytes_text, one_line, seconds_text, visible
from trtdiag.report.verdict import verdict
from trtdiag.report.view import PrecisionView, ReportView, StageView, TableView, VerdictView
from trtdiag.report.view_compiled import compiled_view
from trtdiag.report.view_dims import dims_view, symbol_views
from trtdiag.report.view_findings import finding_views
from trtdiag.report.view_guards import guards_view
from trtdiag.report.view_partition import partition_view
from trtdiag.report.view_precision import precision_view
from trtdiag.report.view_types import memory_view, metadata_view, types_view

_LONGEST_NOTE_CHARS = 2000
_LONGEST_FAILURE_CHARS = 8000
_KINDS = {SourceKind.FILE: "a file", SourceKind.LIVE: "a live ExportedProgram", SourceKind.FACTORY: "a factory"}


def reproduce_command(analysis: Analysis) -> str:
    """What to type to make this report again."""
    program = analysis.program
    verb = "analyze" if analysis.compilation is None else "compile"
    if program.kind is SourceKind.LIVE:
        return f"trtdiag.{verb}(exported_program, target={analysis.target!r})"
    return f"trtdiag {verb} {shlex.quote(program.label)} --target {shlex.quote(analysis.target)}"


def report_view(analysis: Analysis, *, machine_json: str, command: str = "", layout: str = "auto") -> ReportView:
    """The page of an analysis.

    Args:
        analysis: The facts and findings.
        machine_json: The JSON report, offered for download from the page.
        command: How the report was asked for; made up from the program where empty.
        layout: ``auto``, ``dot`` or ``builtin``: see `lay_out`.
    """
    graph = graph_view(analysis, layout)
    footer = [f"trtdiag {analysis.trtdiag_version}"]
    if graph is not None:
        footer.append(graph.layout_note)
    return ReportView(
        label=one_line(analysis.program.label),
        verdict=_verdict_view(analysis),
        stages=tuple(_stage(stage) for stage in analysis.stages),
        findings=finding_views(analysis.findings),
        compiled=None if analysis.compilation is None else compiled_view(analysis, analysis.compilation),
        dims=dims_view(analysis.dims),
        symbols=None if analysis.symbols is None else symbol_views(analysis.symbols),
        guards=guards_view(analysis.dims),
        types=None if analysis.dtypes is None else types_view(analysis.dtypes, _precision(analysis)),
        memory=None if analysis.memory is None else memory_view(analysis.memory),
        metadata=None if analysis.checked is None else metadata_view(analysis.checked),
        partition=None if analysis.partition is None else partition_view(analysis, analysis.partition, layout),
        graph=graph,
        environment=_environment(analysis),
        not_checked=tuple(one_line(text, _LONGEST_NOTE_CHARS) for text in analysis.not_checked),
        command=one_line(command or reproduce_command(analysis), _LONGEST_NOTE_CHARS),
        machine_json=machine_json,
        footer=tuple(footer),
    )


def _verdict_view(analysis: Analysis) -> VerdictView:
    result = verdict(analysis)
    failure = analysis.program.failure
    words = text = ""
    source = None
    if failure is not None:
        words = f"torch.export refused the program as asked, with {one_line(failure.error_type)}."
        words += (
            f" What follows is from another export: {one_line(failure.relaxed)}."
            if failure.relaxed
            else " There is no graph."
        )
        text = visible(failure.message.strip())[:_LONGEST_FAILURE_CHARS]
        source = source_view(failure.stack.best)
    status = "partial" if result.status == "clean" and (result.caveat or analysis.not_checked) else result.status
    return VerdictView(status, result.text, result.counts, result.caveat, words, text, source)


def _precision(analysis: Analysis) -> PrecisionView | None:
    facts = None if analysis.partition is None else analysis.partition.plan.lowered.precision
    return None if facts is None else precision_view(facts)


def _stage(stage: StageTiming) -> StageView:
    time = "" if stage.state == "not run" else seconds_text(stage.seconds)
    return StageView(one_line(stage.name), stage.state, time, one_line(stage.message, _LONGEST_NOTE_CHARS))


def _environment(analysis: Analysis) -> TableView:
    program = analysis.program
    versions = program.versions
    rows = [
        ("program", f"{one_line(program.label)} ({_KINDS[program.kind]})"),
        ("graph", amount(analysis.op_nodes, "call")),
        ("target", f"TensorRT {one_line(analysis.target)}"),
        ("trtdiag", analysis.trtdiag_version),
        ("torch, here", versions.running_torch),
        ("torch that exported", versions.exporting_torch or "not recorded"),
        ("schema of the file", versions.schema or "not recorded"),
        ("Python", platform.python_version()),
        ("platform", platform.platform(terse=True)),
    ]
    if program.file_bytes is not None:
        rows.insert(1, ("file size", bytes_text(program.file_bytes)))
    if program.export_s is not None:
        rows.append(("export took", seconds_text(program.export_s)))
    rows.extend(("note", one_line(note, _LONGEST_NOTE_CHARS)) for note in program.notes)
    return TableView((), tuple(rows))
