"""The one line that says how an analysis ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from trtdiag.analysis.compilation import CompilationFacts
from trtdiag.analysis.finding import Finding, Impact, Severity
from trtdiag.analysis.result import Analysis
from trtdiag.graph.source import Frame
from trtdiag.grouping import grouped
from trtdiag.report.compile_words import outcome, outcome_line, points_text
from trtdiag.wording import amount, one_line

_MOST_NOT_CHECKED = 8
_LONGEST_CHARS = 600
NO_TENSORRT = "No TensorRT engine was built: the reference backend runs them in PyTorch"
_WORDS = {"error": "error", "warning": "warning", "info": "note"}


@dataclass(frozen=True)
class Verdict:
    """How an analysis ended.

    Attributes:
        status: ``error``, ``warning``, ``incomplete`` (a stage failed, nothing worse found) or ``clean``.
        text: One line; claims no more than was checked.
        counts: ``2 errors, 3 warnings, 1 note``.
        caveat: What else the line does not cover; empty when nothing was left out or the line says it.
        short: The same without the first cause, for where that is told next.
        headline: The line of the page, which names the first cause below it: what failed, counts, and engines.
        uncovered: The caveat without the stages that failed, which the headline names.
        first: The finding to begin with; ``None`` without one at or above warning.
    """

    status: str
    text: str
    counts: str
    caveat: str
    short: str = ""
    headline: str = ""
    uncovered: str = ""
    first: Finding | None = None


@dataclass(frozen=True)
class CauseTree:
    """A finding and the findings that it causes."""

    finding: Finding
    caused: tuple[CauseTree, ...]

    def walk(self) -> Iterator[Finding]:
        """This finding, then all that it causes, in the order of the report."""
        yield self.finding
        for child in self.caused:
            yield from child.walk()


def cause_trees(findings: Iterable[Finding]) -> tuple[CauseTree, ...]:
    """The findings by root cause: roots first, the tree with the most severe finding of most impact at the top."""
    ordered = list(findings)
    by_id = {finding.id: finding for finding in ordered}
    caused = grouped((_top(finding, by_id), finding) for finding in ordered)

    def tree(finding: Finding) -> CauseTree:
        # A finding that is its own top stands in its own list: it is no child of itself.
        children = [tree(child) for child in caused.get(finding.id, []) if child.id != finding.id]
        return CauseTree(finding, tuple(sorted(children, key=_order)))

    roots = [tree(finding) for finding in ordered if _top(finding, by_id) == finding.id]
    return tuple(sorted(roots, key=_order))


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """The findings in the order of the report: roots before what they cause."""
    return [finding for tree in cause_trees(findings) for finding in tree.walk()]


def first_frame(finding: Finding) -> Frame | None:
    """The first source line of a finding."""
    return next((place.frame for place in finding.places if place.frame is not None), None)


def _order(tree: CauseTree) -> tuple[int, int, int, int]:
    """The most severe first; of equal ones what costs most engines, keeps most ops out, moves most bytes."""
    severity = min(finding.severity.rank for finding in tree.walk())
    impacts = [finding.impact or Impact() for finding in tree.walk()]
    bytes_ = (1 << 62 if impact.crossing_bytes is None else impact.crossing_bytes for impact in impacts)
    return severity, -max(impact.engines for impact in impacts), -max(impact.ops for impact in impacts), -max(bytes_)


def _top(finding: Finding, by_id: dict[str, Finding]) -> str:
    """The id of the finding's direct cause; its own id where it has none, or where causes run in a circle."""
    seen = {finding.id}
    here = finding
    while here.root is not None and here.root in by_id and here.root not in seen:
        seen.add(here.root)
        here = by_id[here.root]
    circle = here.root in seen
    return finding.id if circle or finding.root not in by_id else finding.root


def severity_word(severity: Severity | str) -> str:
    """``error``, ``warning`` or ``note``."""
    return _WORDS[severity.value if isinstance(severity, Severity) else severity]


def counts_text(findings: Iterable[Finding]) -> str:
    """``2 errors, 3 warnings``; empty without findings."""
    counts = Counter(finding.severity for finding in findings)
    return ", ".join(amount(counts[each], severity_word(each)) for each in Severity if counts[each])


def verdict(analysis: Analysis) -> Verdict:
    """How the analysis ended, and compiling where it came to that, in words."""
    counts = counts_text(analysis.findings)
    severe = [finding for finding in analysis.findings if finding.severity is not Severity.INFO]
    failed = [stage.name for stage in analysis.stages if stage.state == "failed"]
    status, first, caveat = "clean", None, _caveat(analysis, failed)
    uncovered = caveat
    if severe:
        first = cause_trees(analysis.findings)[0].finding
        status = "error" if any(finding.severity is Severity.ERROR for finding in severe) else "warning"
        text = f"{counts}: {first.rule} {one_line(first.message)}"
        stopped = ["torch.export" if name == "capture" and analysis.program.failure else name for name in failed]
        short = f"{' and '.join(stopped)} failed: {counts}" if stopped else counts
        uncovered = _caveat(analysis, [])
    elif failed:
        status = "incomplete"
        text = short = f"Analysis incomplete: {' and '.join(failed)} failed{f'; {counts}' if counts else ''}"
    else:
        text = f"No findings at or above warning ({counts})" if counts else "No findings"
        text = short = text + (f"; {_unchecked(analysis)} not checked" if analysis.not_checked else "")
        caveat = uncovered = _caveat(replace(analysis, not_checked=()), failed)
    facts, planned = analysis.compilation, planned_line(analysis)
    headline = f"{short}; {planned}" if planned else short
    if facts is not None:
        text, short = (f"{_of_compiling(facts)}; {words[:1].lower()}{words[1:]}" for words in (text, short))
        headline = short
        if facts.engines and all(engine.manifest.backend == "reference" for engine in facts.engines):
            uncovered = "; ".join(filter(None, (NO_TENSORRT, uncovered)))
        if facts.verification is not None and outcome(facts.verification) == "differs":
            status = "error"
    return Verdict(status, text, counts, caveat, short, headline, uncovered, first)


def merged_dynamic_shapes(analysis: Analysis) -> str | None:
    """The code that declares all dims as they should be; ``None`` where nothing has to change, or none is known."""
    declaration = analysis.dims.declaration
    return None if declaration is None or declaration.refused else declaration.code.rstrip("\n")


def doubt_about_declaration(analysis: Analysis) -> str:
    """Why the code that declares all dims is not proven; empty where it is, or where there is none."""
    declaration = analysis.dims.declaration
    if declaration is None or declaration.proof.proven:
        return ""
    return one_line(declaration.proof.detail, _LONGEST_CHARS) or "it is not proven"


def declared_with_doubt(analysis: Analysis) -> str:
    """The code that declares all dims, below a comment that says why it is not proven; empty where there is none."""
    code, doubt = merged_dynamic_shapes(analysis), doubt_about_declaration(analysis)
    return f"# as far as is known: {doubt}; trtdiag fix-dims tries it out\n{code}" if code and doubt else code or ""


def not_covered(analysis: Analysis) -> list[str]:
    """Lines that say what was not run and not checked."""
    skipped = [stage.name for stage in analysis.stages if stage.state == "not run"]
    told = [f"not run: {', '.join(skipped)}"] if skipped else []
    told += [f"not checked: {one_line(text, _LONGEST_CHARS)}" for text in analysis.not_checked[:_MOST_NOT_CHECKED]]
    more = len(analysis.not_checked) - _MOST_NOT_CHECKED
    return [*told, *([f"and {more:,} more not checked"] if more > 0 else [])]


def planned_line(analysis: Analysis) -> str:
    """``planned as 3 engines with 2 stretches of PyTorch``; empty where nothing was planned."""
    if analysis.partition is None:
        return ""
    parts = analysis.partition.partitioned
    if not parts.segments:
        return "nothing goes into an engine"
    stretches = sum(step.segment is None for step in parts.steps)
    rest = f" with {amount(stretches, 'stretch', 'stretches')} of PyTorch" if stretches else ""
    return f"planned as {amount(len(parts.segments), 'engine')}{rest}"


def _of_compiling(facts: CompilationFacts) -> str:
    engines = f"Compiled into {amount(len(facts.engines), 'engine') if facts.engines else 'no engine'}"
    found = facts.verification
    if found is None:
        return f"{engines}, not compared with the original"
    if outcome(found) == "agrees":
        return f"{engines} and verified at {points_text(found)}"
    line = outcome_line(found)
    return f"{engines}, but it {line}" if outcome(found) == "differs" else f"{engines}, {line}"


def _caveat(analysis: Analysis, failed: list[str]) -> str:
    skipped = [stage.name for stage in analysis.stages if stage.state == "not run"]
    told = (" and ".join(failed), "failed"), (", ".join(skipped), "not run"), (_unchecked(analysis), "not checked")
    return "; ".join(f"{what} {how}" for what, how in told if what)


def _unchecked(analysis: Analysis) -> str:
    return amount(len(analysis.not_checked), "thing") if analysis.not_checked else ""
