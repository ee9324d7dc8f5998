"""Reports of analyses as text, for the tests of what they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trtdiag.analysis.result import Analysis
from trtdiag.report.json_report import report_json
from trtdiag.report.sarif import sarif_text
from trtdiag.report.strict_json import json_text


def json_report(made: Analysis) -> str:
    """The JSON report without its page."""
    return json_text(report_json(made)) + "\n"


def sarif_report(made: Analysis, rules: Any = (), root: Path | None = None) -> str:
    """The SARIF report."""
    return sarif_text(report_json(made), rules, root)
