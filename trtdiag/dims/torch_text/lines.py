"""Lines of a pasted text, freed from what terminals, loggers, forums and browsers put around torch's words.

Every step looks at each character a bounded number of times: a log of 10 MB, whatever is in it, stays cheap.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

MOST_CHARACTERS = 1 << 26
"""What lies behind so many is not read, and said so."""

# Marks that other tools put for the plain ones; spaces of no or another width.
_PLAIN = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u2032", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u2033", '"'),
        **dict.fromkeys("\u00a0\u2002\u2003\u2009\u202f", " "),
        **dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff"),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"),
        **dict.fromkeys("\u2502\u2503\u2551", "|"),
        "\u2264": "<=",
        "\u2265": ">=",
        "\u2260": "!=",
        "\u2026": "...",
        "\u2022": "-",
    }
)
_ENTITY = re.compile(r"&(lt|gt|amp|quot|apos|nbsp|#39|#x27|#34);", re.IGNORECASE)
# Colour and cursor codes, terminal titles; and colour codes whose escape character a copy has lost.
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\^_]|\[\d{1,3}(?:;\d{1,3}){0,4}m"
)
_BROKEN_LINE = re.compile(r"\r\n?|[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")

# What loggers, schedulers and forums put before a line; tried again after each other, at most MOST_PREFIXES times.
_LEVEL = "(?:DEBUG|INFO|NOTICE|WARNING|WARN|ERROR|CRITICAL|FATAL|EXCEPTION)"
_TIME = r"\d{4}-\d\d-\d\d(?:[T ]|, )\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z| UTC| ?[+-]\d\d:?\d\d)?"
_PREFIX = re.compile(
    r"(?:"
    r"[EIWDVF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ [^\s\]]+\]"  # E0607 12:00:00.123456 4242 file.py:10]
    r"|\[\d+/\d+(?:_\d+)?\](?= )"  # [0/0], the frame that torch compiles
    r"|\[(?:__\w+|v\d)\](?= )"
    r"|\[(?:rank|default|local_rank)[ :]?\d+\]:?"
    r"|\[\d+,\d+\]<std(?:out|err)>:"  # mpirun
    r"|\((?:\w+ )?pid=\d+(?:, ip=[\d.]+)?\)"
    r"|\[pod/[\w.-]+(?:/[\w.-]+)?\]"  # kubectl logs --prefix
    r"|[a-z][\w.-]*-[0-9a-f]{6,10}-[a-z0-9]{5} [a-z][\w.-]* "  # stern
    rf"|\[{_TIME}: {_LEVEL}/[\w.-]+\]"  # celery
    rf"|[\[(]?{_TIME}[\])]?"
    r"|\[?\d\d:\d\d:\d\d(?:[.,]\d+)?\]?(?= )"
    r"|(?:<\d+>)?(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)?"
    r" [\w.-]+ [\w./@-]+(?:\[\d+\])?:(?= |$)"  # syslog, journald
    r"|(?<=\d )[\w.-]+ [\w./@-]+\[\d+\]:(?= |$)"  # the same after another form of time
    r"|##\[\w+\]"  # GitHub Actions
    r"|\{[\w./-]+\.py:\d+\}"  # airflow
    rf"|(?:- |\| *)[\w./:-]{{1,60}} +(?:-|\|) +{_LEVEL} *(?:[-|](?= |$)|:)"  # logging: name - ERROR -
    rf"|(?:- |\| *){_LEVEL} *[-|:](?= |$)"  # ERROR -
    r"|(?<=\| )[\w.]+:[\w<>.]+:\d+ -(?= |$)"  # loguru
    rf"|\[?{_LEVEL}\]?(?::[\w.]*:| +[-|](?= |$)| in [\w.]+:(?= |$)|:|(?= ))"
    r"|[\w.]+: (?=\[(?:DEBUG|INFO|WARNING|ERROR)\])"
    r"|E {3}"  # pytest
    r")"
)
# The same, where a line beside it has it too: alone it may be the middle of a condition.
_MARK = re.compile(r"(?P<mark>>|\||#+(?= )|[\w.-]{1,40} +\|) ?")
_SPACE = re.compile(r"\s*")
MOST_PREFIXES = 8
_ROUNDS = 3  # quotes around prefixes around quotes
# A prefix of no known form that all lines have: words, times and separators, no code, to its last separator.
_SHARED = re.compile(r"[\w.@/:<>\[\](){}|#, -]*(?:[\]:>|)}] | - )")
_TORCHS = re.compile(r"- |Not all|You marked|The values|L\[|\.size\(")
_LEAST_SHARED = 3
_DIGITS = str.maketrans("123456789", "000000000")
# In a line that was printed as a Python or JSON string, line breaks and quotes are escaped.
_QUOTED = re.compile(r"generated guard|Constraints violated|data-dependent expression|are valid because")


_HEADING = re.compile(r"^.*Constraints violated \(", re.MULTILINE)
_LOG_OF_EXPORT = re.compile(r"^.*(?:create_env|create_symbol |Traceback \(most recent call last\))", re.MULTILINE)
_MOST_ERRORS = 20


def errors_apart(text: str) -> list[str]:
    """The text in one part for each error that it tells of, with empty lines in the place of the parts before it.

    A part goes up to the log, the traceback or the heading of the next; after ``_MOST_ERRORS`` nothing is parted.
    """
    text = text[:MOST_CHARACTERS]
    headings = [match.start() for match in _HEADING.finditer(text)][:_MOST_ERRORS]
    places = [0]
    for heading, behind in pairwise(headings):
        log = _LOG_OF_EXPORT.search(text, text.find("\n", heading) + 1, behind)
        places.append(log.start() if log is not None else behind)
    places.append(len(text))
    return ["\n" * text.count("\n", 0, start) + text[start:end] for start, end in pairwise(places)]


@dataclass(frozen=True)
class Physical:
    """One line as it was pasted: its text, with the spaces at its end, and how many characters stood before it."""

    text: str
    prefix: int


_EMPTY = Physical("", 0)


def physical_lines(text: str) -> list[Physical]:
    """The lines of ``text`` without colour codes, HTML entities, typographic marks and log prefixes."""
    text = text[:MOST_CHARACTERS]
    if "&" in text:
        for _ in range(2):  # text that was escaped twice
            text = _ENTITY.sub(lambda match: html.unescape(match[0].lower()), text)
    if "\x1b" in text or "m" in text:
        text = _ESCAPES.sub("", text)
    if not text.isascii():
        text = text.translate(_PLAIN)
    text = _BROKEN_LINE.sub("\n", text)
    lines: list[str] = []
    for line in text.split("\n"):
        if "\\n" in line and _QUOTED.search(line):
            lines.extend(line.replace("\\n", "\n").replace("\\'", "'").replace('\\"', '"').split("\n"))
        else:
            lines.append(line)
    if any(line.startswith("E   ") for line in lines):  # pytest, whose empty lines a copy may have shortened
        lines = ["" if line == "E" else line for line in lines]
    starts = [prefix_end(line) if line else 0 for line in lines]
    found = [Physical(line[start:], start) if line else _EMPTY for line, start in zip(lines, starts, strict=True)]
    if sum(line.text.endswith(" ") for line in found) * 2 > sum(line is not _EMPTY for line in found):
        found = [Physical(line.text.rstrip(), line.prefix) for line in found]  # filled up to a width
    for _ in range(_ROUNDS):
        if not _strip_marks(found):
            break
    shared = _shared_prefix(found)
    return [Physical(line.text[shared:], line.prefix + shared) for line in found] if shared else found


def prefix_end(line: str) -> int:
    """How many characters of the line loggers and schedulers put before it, one space behind them included."""
    start = 0
    for _ in range(MOST_PREFIXES):
        match = _PREFIX.match(line, _SPACE.match(line, start).end())  # type: ignore[union-attr]  # it always matches
        if match is None:
            break
        start = match.end()
    return start + (0 < start < len(line) and line[start] == " " and line[start - 1] != " ")


def _strip_marks(lines: list[Physical]) -> bool:
    """Take quotes, boxes and names of containers off lines whose neighbours have them too; whether there were any."""
    marks = [_MARK.match(line.text, _SPACE.match(line.text).end()) if line.text else None for line in lines]  # type: ignore[union-attr]
    if not any(marks):
        return False
    containers = Counter(mark["mark"] for mark in marks if mark is not None and len(mark["mark"]) > 1)
    kinds = ["" if mark is None else mark["mark"][-1] for mark in marks]
    stripped = False
    for index, (line, mark, kind) in enumerate(zip(lines, marks, kinds, strict=True)):
        beside = (kinds[index - 1] if index else "", kinds[index + 1] if index + 1 < len(kinds) else "")
        if mark is None or (kind not in beside and containers[mark["mark"]] < 2):
            continue
        rest = line.text[mark.end() :]
        rest = rest.rstrip(" |") if mark["mark"] == "|" and rest.rstrip().endswith("|") else rest
        start = prefix_end(rest)
        lines[index] = Physical(rest[start:], line.prefix + mark.end() + start)
        stripped = True
    return stripped


def _shared_prefix(lines: list[Physical]) -> int:
    """How long a prefix of another form is that every line has; digits may differ."""
    texts = [line.text for line in lines if line.text.strip()]
    if len(texts) < _LEAST_SHARED or len({text[:2].translate(_DIGITS) for text in texts}) != 1:
        return 0
    plain = [f"{text} ".translate(_DIGITS) for text in texts]
    first, last = min(plain), max(plain)
    length = next((i for i, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    shared = first[:length]
    torchs = _TORCHS.search(shared)
    match = _SHARED.match(shared[: torchs.start()] if torchs else shared)
    return match.end() if match is not None and re.search(r"\w", match[0]) else 0
