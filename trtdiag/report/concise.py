"""A line for each cause, ``model.py:33: error GRD301: message``: what editors and problem matchers read."""

from __future__ import annotations

from collections.abc import Iterator

from trtdiag.analysis.result import Analysis
from trtdiag.report.shown_paths import place, short_paths
from trtdiag.report.similar_findings import similar_findings
from trtdiag.report.verdict import cause_trees, first_frame, severity_word
from trtdiag.wording import listed, one_line

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
