"""``pytest --trtdiag``: a test fails when a program gains findings against a saved baseline.

pytest finds this module by its entry point, in every run where trtdiag is installed, so nothing here imports torch
before a test asks for it.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from trtdiag.analysis.finding import Finding
    from trtdiag.report.report import Report

FORMAT = "trtdiag-baseline/1"
FOLDER = "trtdiag_baselines"
"""Where baselines lie, beside the file of the test."""
_MOST_BYTES = 1 << 26

Check = Callable[..., "Report"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the command line."""
    group = parser.getgroup("trtdiag", "programs for TensorRT")
    group.addoption("--trtdiag", action="store_true", help="Run tests that check programs with trtdiag_check.")
    group.addoption(
        "--trtdiag-update", action="store_true", help="Save what such tests find as their baselines, and run them."
    )


@pytest.fixture
def trtdiag_check(request: pytest.FixtureRequest) -> Iterator[Check]:
    """``trtdiag_check(source, name="", **options)``: analyze a program, and fail where it has gained findings.

    ``source`` and the options are those of ``trtdiag.analyze``; ``name`` tells the programs of one test apart.
    Gives the report.  The test is skipped without ``--trtdiag``.
    """
    # Of each export torch logs hundreds of lines for TORCH_TRACE; pytest may listen, too, and a failed test show them.
    trace = logging.getLogger("torch.__trace")
    if "TORCH_TRACE" not in os.environ:
        trace.addFilter(_drop)
    try:
        yield checker(request)
    finally:
        trace.removeFilter(_drop)


def _drop(_: logging.LogRecord) -> bool:
    return False


def checker(request: pytest.FixtureRequest) -> Check:
    """What the fixture gives to the test of a request."""
    update = bool(request.config.getoption("--trtdiag-update"))
    if not (update or request.config.getoption("--trtdiag")):
        pytest.skip("programs are checked with --trtdiag")

    def check(source: Any, name: str = "", **options: Any) -> Report:
        from trtdiag.pipeline.analyze import analyze

        report = analyze(source, **options)
        if report.analysis.fault is not None:  # of what was not looked at there are no findings
            raise report.analysis.fault
        place = _place(request, name)
        if update:
            _save(place, report)
        else:
            gained = list(_gained(report, _known(place)))
            if gained:
                pytest.fail("\n".join(_told(gained, place)), pytrace=False)
        return report

    return check


def _place(request: pytest.FixtureRequest, name: str) -> Path:
    """``trtdiag_baselines/test_export.test_unet-fp16.json`` for a program ``fp16`` of that test."""
    words = [request.path.stem, request.node.nodeid.partition("::")[2].replace("::", ".")]
    flat = re.sub(r"[^\w.]+", "-", "-".join(filter(None, [".".join(words), name]))).strip("-.")
    return request.path.parent / FOLDER / f"{flat}.json"


def _known(place: Path) -> dict[str, str]:
    """Fingerprint and severity of each finding of a baseline."""
    from trtdiag.files.bounded_read import read_whole, reason
    from trtdiag.report.shown_paths import file_address

    named = file_address(str(place))
    try:
        body = json.loads(read_whole(place, _MOST_BYTES))
        if body["format"] == FORMAT:
            return {str(each["fingerprint"]): str(each["severity"]) for each in body["findings"]}
        why = f"{named} is no baseline of this trtdiag: its format is {body['format']!r}"
    except OSError as error:
        why = f"no baseline at {named} ({reason(error)}): write it with pytest --trtdiag-update"
    except (ValueError, LookupError, TypeError, RecursionError):
        why = f"{named} is damaged: write it again with pytest --trtdiag-update"
    pytest.fail(why, pytrace=False)  # outside of what caught the error, which pytest would print above it


def _gained(report: Report, known: Mapping[str, str]) -> Iterator[Finding]:
    """Findings that were not there, or were less severe."""
    from trtdiag.analysis.finding import Severity

    ranks = {severity.value: severity.rank for severity in Severity}  # the most severe is the least
    for finding in report.findings:
        before = known.get(str(finding.fingerprint))
        if before is None or ranks.get(before, 0) > finding.severity.rank:
            yield finding


def _told(gained: list[Finding], place: Path) -> Iterator[str]:
    from trtdiag.report.shown_paths import place as line_of, short_paths
    from trtdiag.report.verdict import first_frame, severity_word
    from trtdiag.wording import amount, one_line

    yield f"{amount(len(gained), 'new finding')} since {place.parent.name}/{place.name}:"
    for finding in gained:
        yield ""
        yield f"{severity_word(finding.severity)} {finding.rule}  {one_line(short_paths(finding.message), 600)}"
        frame = first_frame(finding)
        if frame is not None:
            yield f"  {line_of(frame)}  {one_line(frame.code.strip())}"
        if finding.fix is not None:
            yield f"  fix: {one_line(short_paths(finding.fix.title), 600)}"
    yield ""
    yield "mend the model, or accept them with pytest --trtdiag-update"


def _save(place: Path, report: Report) -> None:
    from trtdiag.report.save import write_atomically

    rows = [
        {
            "fingerprint": str(finding.fingerprint),
            "rule": finding.rule,
            "severity": finding.severity.value,
            "message": finding.message,
        }
        for finding in report.findings
    ]
    body = {"format": FORMAT, "target": report.analysis.target, "findings": rows}
    text = json.dumps(body, indent=2, ensure_ascii=False) + "\n"
    if place.is_file() and place.read_text(encoding="utf-8") == text:
        return
    place.parent.mkdir(exist_ok=True)
    write_atomically(place, text, what="baseline")
