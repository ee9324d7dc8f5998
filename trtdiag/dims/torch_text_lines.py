"""Lines of a pasted text, freed from what terminals, loggers, forums and browsers put around torch's words.

Every step looks at each character a bounded number of times: a log of 10 MB, whatever is in it, stays cheap.
"""

from __future__ import annotations

import re

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
_ENTITIES = {
    "lt": "<",
    "gt": ">",
    "amp": "&",
    "quot": '"',
    "apos": "'",
    "#39": "'",
    "#x27": "'",
    "#34": '"',
    "nbsp": " ",
}
_ENTITY = re.compile(r"&(lt|gt|amp|quot|apos|nbsp|#39|#x27|#34);", re.IGNORECASE)
# Colour and cursor codes, terminal titles; and colour codes whose escape character a copy has lost.
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\^_]|\[\d{1,3}(?:;\d{1,3}){0,4}m"
)
_BROKEN_LINE = re.compile(r"\r\n?|[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")

# What loggers, schedulers and forums put before a line; tried again after each other, at most MOST_PREFIXES times.
_PREFIX = re.compile(
    r"(?:"
    r"[EIWDVF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ [^\s\]]+\]"  # E0607 12:00:00.123456 4242 file.py:10]
    r"|\[\d+/\d+(?:_\d+)?\](?= )"  # [0/0], the frame that torch compiles
    r"|\[(?:__\w+|v\d)\](?= )"
    r"|\[(?:rank|default|local_rank)[ :]?\d+\]:?"
    r"|\((?:\w+ )?pid=\d+(?:, ip=[\d.]+)?\)"
    r"|[\[(]?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z| ?[+-]\d\d:?\d\d)?[\])]?"
    r"|\[?(?:DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)\]?(?::[\w.]*:|:|(?= ))"
    r"|[\w.]+: (?=\[(?:DEBUG|INFO|WARNING|ERROR)\])"
    r"|E {2,}(?=\S)"  # pytest
    r"|> ?|\| ?|#+(?= )"  # quoted mail and markdown, tables and boxes, comments
    r"|[\w.-]{1,40} +\| "  # docker compose
    r")"
)
_SPACE = re.compile(r"\s*")
MOST_PREFIXES = 8
# In a line that was printed as a Python or JSON string, line breaks and quotes are escaped.
_QUOTED = re.compile(r"generated guard|Constraints violated|data-dependent expression|are valid because")


def clean_lines(text: str) -> list[str]:
    """The lines of ``text`` without colour codes, HTML entities, typographic marks and log prefixes."""
    text = text[:MOST_CHARACTERS]
    if "&" in text:
        for _ in range(2):  # text that was escaped twice
            text = _ENTITY.sub(lambda match: _ENTITIES[match[1].lower()], text)
    if "\x1b" in text or "m" in text:
        text = _ESCAPES.sub("", text)
    if not text.isascii():
        text = text.translate(_PLAIN)
    text = _BROKEN_LINE.sub("\n", text)
    lines: list[str] = []
    for line in text.split("\n"):
        if "\\n" in line and _QUOTED.search(line):
            lines.extend(map(bare, line.replace("\\n", "\n").replace("\\'", "'").replace('\\"', '"').split("\n")))
        else:
            lines.append(bare(line) if line else line)
    return lines


def bare(line: str) -> str:
    """The line without the prefixes of loggers and quotes; its indentation stays where nothing stood before it."""
    start = 0
    for _ in range(MOST_PREFIXES):
        match = _PREFIX.match(line, _SPACE.match(line, start).end())  # type: ignore[union-attr]  # it always matches
        if match is None:
            break
        start = match.end()
    rest = line[start:]
    return rest.rstrip(" |") if start and "|" in line[:start] else rest.rstrip()
