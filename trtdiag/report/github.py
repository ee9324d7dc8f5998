"""Findings as lines that editors read and as annotations of a pull request, and the summary of a job, for GitHub.

Source: GitHub's documentation, "Workflow commands for GitHub Actions".
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from trtdiag.analysis.finding import Severity
from trtdiag.analysis.result import Analysis
from trtdiag.errors import UserError
from trtdiag.graph.source import Frame
from trtdiag.report.shown_paths import place, short_paths
from trtdiag.report.similar_findings import similar_findings
from trtdiag.report.verdict import cause_trees, first_frame, severity_word
from trtdiag.wording import listed, one_line, visible

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}
MOST_OF_A_LEVEL = 10
"""GitHub shows no more annotations of a level for one step."""
MOST_SUMMARY_BYTES = 2**20
"""GitHub takes no longer summary of a step."""
SUMMARY = "GITHUB_STEP_SUMMARY"
"""The variable that names the file to which a step appends its summary."""


def annotation_lines(analysis: Analysis) -> Iterator[str]:
    """A workflow command for each cause, those that differ in names alone as one, the most severe first.

    Lines of files below ``$GITHUB_WORKSPACE``, or below the working directory where that is not set, are annotated; of
    other files the place stands in the message.
    """
    root = Path(os.environ.get("GITHUB_WORKSPACE") or os.getcwd()).resolve()
    counts: Counter[str] = Counter()
    for found in similar_findings(cause_trees(analysis.findings)):
        finding, level = found.finding, _LEVELS[found.finding.severity]
        counts[level] += 1
        if counts[level] > MOST_OF_A_LEVEL:
            continue
        frame = first_frame(finding)
        inside = None if frame is None else _below(frame, root)
        where = "" if frame is None or inside is None else f"file={_property(inside)},line={frame.line},"
        times = f" x{len(found.trees):,}" if len(found.trees) > 1 else ""
        lines = [short_paths(finding.message)]
        lines += [f"also: {listed(found.others)}"] if found.others else []
        lines += [f"at {place(frame)}"] if frame is not None and inside is None else []
        lines += [f"fix: {short_paths(finding.fix.title)}"] if finding.fix is not None else []
        title = _property(f"trtdiag {finding.rule}{times}")
        message = _escaped("\n".join(map(visible, lines)))
        yield f"::{level} {where}title={title}::{message}"


def append_summary(markdown: str) -> None:
    """Append a report to the summary of the step, where there is one; what is too long for it is cut at a line.

    Raises:
        UserError: ``summary-not-writable``.
    """
    place = os.environ.get(SUMMARY)
    if not place:
        return
    content = markdown.rstrip("\n").encode() + b"\n"
    try:
        with open(place, "ab") as file:
            left = max(MOST_SUMMARY_BYTES - file.tell(), 0)
            file.write(content if len(content) <= left else content[:left].rpartition(b"\n")[0])
    except OSError as error:
        raise UserError(
            "the summary of the job cannot be written",
            because=f"{place}: {error.strerror or error}",
            fix=f"unset {SUMMARY}, or leave --github out",
            reference="summary-not-writable",
        ) from error


def _below(frame: Frame, root: Path) -> str | None:
    try:
        return Path(frame.file).resolve().relative_to(root).as_posix()
    except (OSError, ValueError):  # elsewhere, or no name of a file
        return None


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escaped(visible(text)).replace(":", "%3A").replace(",", "%2C")


_LONGEST_CHARS = 600


def concise_lines(analysis: Analysis) -> Iterator[str]:
    """Each cause once, those that differ in names alone with their count, the most severe first.

    The form is that of compilers; a cause without a line has the program in its place.
    """
    for found in similar_findings(cause_trees(analysis.findings)):
        finding, frame = found.finding, first_frame(found.finding)
        where = f"{one_line(analysis.program.label)}:1" if frame is None else place(frame)
        times = f" x{len(found.trees):,}" if len(found.trees) > 1 else ""
        also = f"; also {listed(found.others)}" if found.others else ""
        fix = f"; fix: {finding.fix.title}" if finding.fix is not None else ""
        told = one_line(f"{short_paths(finding.message)}{also}{fix}", _LONGEST_CHARS)
        yield f"{where}: {severity_word(finding.severity)} {finding.rule}{times}: {told}"
