"""Reads one sentence of torch's in which a condition, an example or a symbol is stated."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from trtdiag.graph.source import NO_STACK, Stack
from trtdiag.symbolic import ExpressionError, Range, compare, free_symbols, parse_condition, parse_expr
from trtdiag.symbolic.expr import Condition, Expr, Num, Relation, Sym

MOST_GUARD_CHARACTERS = 20_000
"""A longer guard is named as unread; the longest in the wild had 3,900 characters (own count over 137 texts)."""

MOST_STATEMENT_CHARACTERS = 24_000
MOST_SUBJECT_CHARACTERS = 2_000
INT64_MAX = 2**63 - 1
_ANY = Range()
_MOST_ENDS = 12  # line ends at which a guard may end that are tried


@dataclass(frozen=True)
class TextGuard:
    """One condition that an error text states.

    Attributes:
        text: The condition as written.
        condition: Over the sources in the text (``Sym("L['x'].size()[2]")``); ``None`` where it could not be read.
        why: Why it could not be read.
        names: Source -> the user's Dim name, as far as the text says it.
        declared: The declared range as written, empty where the text gives none.
        kind: ``guard``, ``constant``, ``specialised`` (never declared dynamic), ``equal``, ``related``,
            ``data-dependent`` (not decided), ``asserted`` (on a size from data: it has to hold).
        asked: ``declared`` as a range; torch's stand-ins for infinity are open ends.
        stack: Where it comes from, as far as the text says it.
        advice: The ``torch._check`` lines that torch offers for it.
    """

    text: str
    condition: Condition | None
    why: str
    names: tuple[tuple[str, str], ...] = ()
    declared: str = ""
    kind: str = "guard"
    asked: Range = field(default=Range())
    stack: Stack = NO_STACK
    advice: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outside:
    """An example size that lies outside its declared range."""

    value: int
    range: Range


@dataclass(frozen=True)
class Created:
    """What a log line ``create_symbol`` says: a symbol, its source, its example and its range."""

    symbol: str
    source: str
    example: int
    range: Range


@dataclass(frozen=True)
class Solved:
    """The one size that torch's solver left for a dim."""

    source: str
    name: str
    value: int


SOURCE = r"L(?:\[(?:'[^'\n]*'|\"[^\"\n]*\"|-?\d+)\]|\.[^\W\d]\w*(?:\(\d*\))?)+"
_NAMED = re.compile(rf"\b(?P<name>[^\W\d]\w*) = (?P<source>{SOURCE})")
_SOURCE_ALONE = re.compile(rf"(?:\w+\()?(?P<source>{SOURCE})")
_SATISFY = re.compile(r"satisfy\s+the\s+generated\s+guard")
_VALID = re.compile(r"are\s+valid\s+because\s+(?P<name>.{1,400}?)\s+was\s+inferred\s+to\s+be\s+", re.DOTALL)
_CONSTANT = re.compile(r"a\s+constant\s+\((?P<value>-?\d{1,40})\)")
_EQUAL_TO = re.compile(r"equal\s+to\s+(?P<expr>.+)", re.DOTALL)
_MARKED = re.compile(
    r"You marked\s+(?P<subject>\S.{0,2000}?)\s+as\s+dynamic\s+but\s+your\s+code\s+specialized\s+it", re.DOTALL
)
_HINT = re.compile(r"inferred a static shape of (?P<value>\d{1,40})\s+for\s+dimension\s+(?P<site>\S{1,400})")
_EQUAL = re.compile(r"must\s+always\s+be\s+equal")
_RELATED = re.compile(
    r"must\s+always\s+be\s+related\s+to\s+the\s+values\s+of\s+(?P<right>.{0,2000}?)\s+by\s+", re.DOTALL
)
_RANGE = re.compile(r"\s*in\s+the\s+specified\s+range(?P<range>.*)$", re.DOTALL)
_LOW = re.compile(r"^\s*(?P<end>-?\d{1,40}) <= ")
_HIGH = re.compile(r" <= (?P<end>-?\d{1,40})\s*$")
_UNHINTED = re.compile(r"\s+\((?:unhinted|Size-like|hinted)\b")
WHERE = re.compile(rf"'(?P<symbol>z?[su]\d+)': \"?(?P<source>{SOURCE})")
_OUTSIDE = re.compile(r"(?P<value>-?\d{1,40}) not in range \[(?P<low>-?[\w()]{1,40}), (?P<high>-?[\w()]{1,40})\]")
_CREATED = re.compile(
    rf"create_symbol (?P<symbol>z?s\d+) = (?P<value>-?\d{{1,40}}) for (?P<source>{SOURCE})"
    r"(?: (?:VR)?\[(?P<low>-?[\w()]{1,40}), (?P<high>-?[\w()]{1,40})\])?"
)
_SOLVED = re.compile(
    r"guards generated for (?P<subject>.{1,2000}?) resulted in a specialized value of (?P<value>\d{1,40})"
)
_REPLACED = re.compile(
    r"set_replacement (?P<left>[zsu]+\d+) = (?P<right>[^\n]+?) \((?:range_refined|solve|trivial|unbacked|find)"
)
_ELIDED = re.compile(r"Constraints violated \((?P<name>\w+)\) \.\.\. (?P<rest>(?:[=!<>]=|[<>]) -?\d{1,40})\s*$")
_DYNAMIC_DIM = re.compile(rf"dynamic_dim\((?P<source>{SOURCE}|\w+), (?P<dim>\d{{1,3}})\)")
_SPECIALISED = re.compile(
    r"(?:assert |return \(?|^\s*)\(?(?P<guard>[\w.\[\]']+\.size\(\)\[\d+\] == -?\d{1,40})(?: and|\)|,|\s|$)"
)
_UNBACKED = re.compile(r"z?u\d+$")
FLOAT = re.compile(r"z[su]?f\d+$")  # torch's symbol of a number with a fraction

# Words before a condition that runs to the end of the sentence -> the words that end it earlier.
_PLAIN = {
    "this guard was added: ": ", where {",
    "Guard failed: ": "\0",
    "Runtime assertion failed for expression ": " on node",
    "evaluate_expr(": ", hint=",
    'EXTENDED_DEBUG_GUARD_ADDED="': '"',
}


FLOAT_WHY = "it is about a number with a fraction, no size"


class Parser:
    """Parses conditions, each text once."""

    def __init__(self) -> None:
        self._known: dict[str, Condition | ExpressionError] = {}

    def condition(self, text: str) -> Condition:
        """The condition of ``text``.

        Raises:
            ExpressionError: It is none.
        """
        if text not in self._known:
            try:
                self._known[text] = parse_condition(text)
            except ExpressionError as error:
                self._known[text] = error
        found = self._known[text]
        if isinstance(found, ExpressionError):
            raise found
        return found


Sentence = TextGuard | Outside | Created | Solved


def read_sentence(text: str, parser: Parser) -> Sentence | str | None:
    """What a sentence states; its text where it states a condition that is not understood; ``None`` for noise.

    Args:
        text: The lines of one statement; it begins with torch's words or has noise before them.
        parser: Remembers conditions from sentence to sentence.
    """
    if "dynamic_dim(" in text:
        text = _DYNAMIC_DIM.sub(lambda match: f"{match['source']}.size()[{match['dim']}]", text)
    if "Not all values of" in text:
        return _not_all(text[text.find("Not all values of") + len("Not all values of") :], parser)
    if "You marked " in text:
        marked = _MARKED.search(text, text.find("You marked "))
        value = _CONSTANT.search(text, marked.end()) if marked else None
        return _constant(marked["subject"], value["value"]) if marked and value else _unread(text, "You marked ")
    if "The values of " in text:
        return _two_dims(text[text.find("The values of ") + len("The values of ") :], parser)
    hint = _HINT.search(text)
    if hint:
        return _constant(hint["site"].rstrip(".,"), hint["value"])
    if "data-dependent expression" in text:
        return _data_dependent(text.partition("data-dependent expression")[2], parser)
    created = _CREATED.search(text) if "create_symbol " in text else None
    if created:
        range_ = range_of(created["low"] or "", created["high"] or "")
        return Created(created["symbol"], created["source"], int(created["value"]), range_)
    return _of_log(text, parser)


def read_specialised(line: str, kind: str, parser: Parser) -> list[TextGuard]:
    """The conditions in a line of torch 2.1's ``specializations`` (or ``specify_constraints``) function."""
    if kind == "specializations":
        return [_condition([match["guard"]], parser, kind="specialised") for match in _SPECIALISED.finditer(line)]
    text = _DYNAMIC_DIM.sub(lambda match: f"{match['source']}.size()[{match['dim']}]", line)
    text = text.partition("#")[0].strip().rstrip(",").removeprefix("return").strip(" [,")
    return [_condition([text], parser)] if text != line.strip() and re.search(r"[<>=]", text) else []


def _of_log(text: str, parser: Parser) -> Sentence | str | None:
    line = text.partition("\n")[0]
    if "[guard added]" in line:
        head = line.partition(" [guard added]")[0]
        for word in ("runtime_assert ", "eval "):
            if word in head:
                return _named_by_symbols([head.rpartition(word)[2]], text, parser)
        return _unread(line, "")
    if "set_replacement " in line:
        replaced = _REPLACED.search(line)
        return _condition([f"{replaced['left']} == {replaced['right']}"], parser, kind="equal") if replaced else None
    for words, ending in _PLAIN.items():
        _before, there, rest = text.partition(words)
        if there:
            found = _named_by_symbols(rest.partition(ending)[0].split("\n"), text, parser)
            undecided = words == "evaluate_expr(" and found.kind == "asserted"
            return replace(found, kind="data-dependent") if undecided else found
    outside = _OUTSIDE.search(line)
    if outside:
        return Outside(int(outside["value"]), range_of(outside["low"], outside["high"]))
    if "specialized value of" in text:
        solved = _SOLVED.search(" ".join(text.split()))
        if solved:
            source, name = _subject(solved["subject"])
            return Solved(source, name, int(solved["value"]))
        value = re.search(r"specialized value of (\d{1,40})", text)
        return Solved("", "", int(value[1])) if value else None
    elided = _ELIDED.search(line)
    if elided:
        return _condition([f"{elided['name']} {elided['rest']}"], parser, ((elided["name"], elided["name"]),))
    if "inferred to be a constant" in line or "must always be" in line or "Expected input" in line:
        return _unread(line, "")
    return None


def _unread(text: str, words: str) -> str:
    return " ".join(text[text.find(words) if words else 0 :].split()).strip()


def range_of(low: str, high: str) -> Range:
    """The range of two ends as torch prints them; names of infinity and int64's maximum are open ends."""
    first, last = (int(end) if re.fullmatch(r"-?\d{1,40}", end) else None for end in (low, high))
    return Range(first, None if last is not None and last >= INT64_MAX - 1 else last)


def _subject(text: str) -> tuple[str, str]:
    """The source and the name that the subject of a sentence gives; each stands for the other where one is missing."""
    text = text[:MOST_SUBJECT_CHARACTERS]
    named = _NAMED.search(text)
    if named:
        return named["source"], named["name"]
    alone = _SOURCE_ALONE.search(text)
    if alone:
        return alone["source"], ""
    bare = _RANGE.sub("", text).strip()
    return bare, bare if bare.isidentifier() else ""


def _pairs(text: str) -> tuple[tuple[str, str], ...]:
    return tuple((m["source"], m["name"]) for m in _NAMED.finditer(text[:MOST_SUBJECT_CHARACTERS]))


def _asked(text: str) -> tuple[str, Range]:
    range_ = _RANGE.search(text[:MOST_SUBJECT_CHARACTERS])
    words = " ".join((range_["range"] if range_ else "").split())
    alone = range_ is None and " <= " in text  # 2 <= L['x'].size()[0] <= 64
    shown = words or (" ".join(text.split()) if alone else "")
    low, high = _LOW.search(shown), _HIGH.search(shown)
    return words, range_of(low["end"] if low else "", high["end"] if high else "")


def _not_all(text: str, parser: Parser) -> TextGuard | str:
    guard = _SATISFY.search(text)
    if guard:
        subject = " ".join(text[: guard.start()].split())
        parts = text[guard.end() :].split("\n")
        if not any(part.strip() for part in parts):
            return f"Not all values of {subject} satisfy the generated guard"
        source, name = _subject(subject)
        names = _pairs(subject) or (((source, name or source),) if source else ())
        return _condition(parts, parser, names, *_asked(subject))
    inferred = _VALID.search(text)
    if inferred is None:
        return _unread(f"Not all values of {text}", "")
    subject = " ".join(text[: inferred.start()].split())
    value = _CONSTANT.match(text, inferred.end())
    if value:
        return _constant(subject, value["value"])
    equal = _EQUAL_TO.match(text, inferred.end())
    if equal is None:
        return _unread(f"Not all values of {text}", "")
    source, name = _subject(subject)
    declared, asked = _asked(subject)
    try:
        other: Expr = parse_expr(_trimmed(equal["expr"]))
    except ExpressionError as error:
        return TextGuard(
            f"{name or source} == {_trimmed(equal['expr'])}", None, str(error), _pairs(subject), kind="equal"
        )
    condition = compare(Relation.EQ, Sym(source), other)
    shown = f"{name or source} == {_trimmed(equal['expr'])}"
    return TextGuard(shown, condition, "", _pairs(subject), declared, "equal", asked)


def _constant(subject: str, value: str) -> TextGuard:
    source, name = _subject(subject)
    declared, asked = _asked(subject)
    condition = compare(Relation.EQ, Sym(source), Num(int(value)))
    names = ((source, name),) if name else ()
    return TextGuard(f"{name or source} == {int(value)}", condition, "", names, declared, "constant", asked)


def _two_dims(text: str, parser: Parser) -> TextGuard | str:
    related = _RELATED.search(text)
    if related:
        names = (*_pairs(text[: related.start()]), *_pairs(related["right"]))
        parts = text[related.end() :].replace(" = ", " == ", 1).split("\n")
        return _condition(parts, parser, names, kind="related")
    equal = _EQUAL.search(text)
    if equal is None:
        return _unread(f"The values of {text}", "")
    subject = " ".join(text[: equal.start()].split())[:MOST_SUBJECT_CHARACTERS]
    pairs = _pairs(subject)
    if len(pairs) < 2:
        left, _, right = subject.partition(" and ")
        pairs = (_subject(left), _subject(right))
        if not (pairs[0][0] and pairs[1][0]):
            why = "its two dims could not be told apart"
            return TextGuard(_unread(f"The values of {text}", ""), None, why, kind="equal")
    (source, name), (other, other_name) = pairs[0], pairs[-1]
    condition = compare(Relation.EQ, Sym(source), Sym(other))
    named = tuple((source, name) for source, name in pairs if name)
    return TextGuard(f"{name or source} == {other_name or other}", condition, "", named, kind="equal")


def _data_dependent(text: str, parser: Parser) -> TextGuard | str:
    unhinted = _UNHINTED.search(text)
    parts = (text[: unhinted.start()] if unhinted else text).split("\n")
    if not any(part.strip() for part in parts):
        return f"data-dependent expression {_unread(text, '')}".strip()
    found = _condition(parts, parser)
    return TextGuard(found.text, found.condition, found.why, kind="data-dependent")


def _named_by_symbols(parts: list[str], text: str, parser: Parser) -> TextGuard:
    """A condition over symbols of the log; ``where {'s0': "L['x'].size()[0]"}`` names their sources."""
    names = tuple((match["symbol"], match["source"]) for match in WHERE.finditer(text[-MOST_SUBJECT_CHARACTERS:]))
    found = _condition(parts, parser, names)
    if found.condition is None:
        return replace(found, kind="asserted" if found.why == FLOAT_WHY and "zuf" in found.text else "guard")
    unbacked = any(map(_UNBACKED.match, free_symbols(found.condition)))
    return replace(found, kind="asserted" if unbacked else "guard")


def _condition(
    parts: list[str],
    parser: Parser,
    names: tuple[tuple[str, str], ...] = (),
    declared: str = "",
    asked: Range = _ANY,
    *,
    kind: str = "guard",
) -> TextGuard:
    """The guard in the given lines: all of them, or as many as make sense where noise follows."""
    length = sum(map(len, parts)) + len(parts)
    if length > MOST_GUARD_CHARACTERS:
        shown = " ".join(parts)[:200]
        return TextGuard(
            f"{shown} ...", None, f"it has more than {MOST_GUARD_CHARACTERS} characters", names, declared, kind, asked
        )
    first: tuple[str, ExpressionError] | None = None
    for text in _readings(parts):
        try:
            condition = parser.condition(text)
            of_fraction = any(map(FLOAT.match, free_symbols(condition)))  # nothing here computes with those
            why = FLOAT_WHY if of_fraction else ""
            return TextGuard(text, None if of_fraction else condition, why, names, declared, kind, asked)
        except ExpressionError as error:
            first = first or (text, error)
    if first is None:
        text = _trimmed(" ".join(parts))
        return TextGuard(text or "nothing", None, "its brackets do not match", names, declared, kind, asked)
    return TextGuard(first[0] or "nothing", None, str(first[1]), names, declared, kind, asked)


def _readings(parts: list[str]) -> list[str]:
    """Texts that may be the whole guard, the likeliest first: a sentence with a full stop, else the longest."""
    open_ = 0
    ends: list[int] = []
    stopped: list[int] = []
    for index, part in enumerate(parts):
        open_ += part.count("(") + part.count("[") - part.count(")") - part.count("]")
        if open_ <= 0 and part.strip():
            ends.append(index)
            if part.rstrip().endswith(".") and not stopped:
                stopped.append(index)
        if len(ends) == _MOST_ENDS:
            break
    order = dict.fromkeys((*stopped, *reversed(ends)))
    spaced = [_trimmed(" ".join(parts[: end + 1])) for end in order]
    # A terminal breaks a line in the middle of a word.
    return spaced + [_trimmed("".join(parts[: end + 1])) for end in order if end]


def _trimmed(text: str) -> str:
    text = " ".join(text.split())
    text = text.removesuffix(".") if not text.endswith("...") else text
    return text.rstrip("'\"").strip().strip("`")
