"""Reads one sentence of torch's in which a condition, an example or a symbol is stated."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from trtdiag.dims.torch_text.conditions import FLOAT_WHY, condition_in, trimmed
from trtdiag.dims.torch_text.facts import Created, Outside, Sentence, Solved, TextGuard
from trtdiag.symbolic import ExpressionError, Range, compare, free_symbols, parse_expr
from trtdiag.symbolic.expr import Num, Relation, Sym
from trtdiag.symbolic.ranges import INT64_MAX

MOST_STATEMENT_CHARACTERS = 24_000
MOST_SUBJECT_CHARACTERS = 2_000


SOURCE = r"L(?:\[(?:'[^'\n]*'|\"[^\"\n]*\"|-?\d+)\]|\.[^\W\d]\w*(?:\(\d*\))?)+"
_NAMED = re.compile(rf"\b(?P<name>[^\W\d]\w*) = (?P<source>{SOURCE})")
_SOURCE_ALONE = re.compile(rf"(?:\w+\()?(?P<source>{SOURCE})")
_SATISFY = re.compile(r"satisfy\s+the\s+generated\s+guard")
_VALID = re.compile(r"are\s+valid\s+because\s+(?P<name>.{1,400}?)\s+was\s+inferred\s+to\s+be\s+", re.DOTALL)
_CONSTANT = re.compile(r"a\s+constant\s+\((?P<value>-?\d{1,40})\)")
_EQUAL_TO = re.compile(r"equal\s+to\s+(?P<expr>.+)", re.DOTALL)
_MARKED = re.compile(r"\s*(?P<subject>\S.{0,2000}?)\s+as\s+dynamic\s+but\s+your\s+code\s+specialized\s+it", re.DOTALL)
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
_AS_SIZE = r"\g<source>.size()[\g<dim>]"  # since torch 2.2
_SPECIALISED = re.compile(
    r"(?:assert |return \(?|^\s*)\(?(?P<guard>[\w.\[\]']+\.size\(\)\[\d+\] == -?\d{1,40})(?: and|\)|,|\s|$)"
)
_UNBACKED = re.compile(r"z?u\d+$")

# Words before a condition that runs to the end of the sentence -> the words that end it earlier.
_PLAIN = {
    "this guard was added: ": ", where {",
    "Guard failed: ": "\0",
    "Runtime assertion failed for expression ": " on node",
    "evaluate_expr(": ", hint=",
    'EXTENDED_DEBUG_GUARD_ADDED="': '"',
}


def read_sentence(text: str) -> Sentence | str | None:
    """What a sentence states; its text where it states a condition that is not understood; ``None`` for noise.

    Args:
        text: The lines of one statement; it begins with torch's words or has noise before them.
    """
    text = _DYNAMIC_DIM.sub(_AS_SIZE, text)
    for words, read in _BY_HEAD.items():
        _before, there, rest = text.partition(words)
        if there:
            return read(rest)
    hint = _HINT.search(text)
    if hint:
        return _constant(hint["site"].rstrip(".,"), hint["value"])
    created = _CREATED.search(text) if "create_symbol " in text else None
    if created:
        range_ = range_of(created["low"] or "", created["high"] or "")
        return Created(created["symbol"], created["source"], int(created["value"]), range_)
    return _of_log(text)


def read_specialised(line: str, kind: str) -> list[TextGuard]:
    """The conditions in a line of torch 2.1's ``specializations`` (or ``specify_constraints``) function."""
    if kind == "specializations":
        return [condition_in([match["guard"]], kind="specialised") for match in _SPECIALISED.finditer(line)]
    text = _DYNAMIC_DIM.sub(_AS_SIZE, line).partition("#")[0].strip().rstrip(",").removeprefix("return").strip(" [,")
    return [condition_in([text])] if text != line.strip() and re.search(r"[<>=]", text) else []


def _of_log(text: str) -> Sentence | str | None:
    line = text.partition("\n")[0]
    if "[guard added]" in line:
        head = line.partition(" [guard added]")[0]
        for word in ("runtime_assert ", "eval "):
            if word in head:
                return _named_by_symbols([head.rpartition(word)[2]], text)
        return _unread(line)
    if "set_replacement " in line:
        replaced = _REPLACED.search(line)
        return condition_in([f"{replaced['left']} == {replaced['right']}"], kind="equal") if replaced else None
    for words, ending in _PLAIN.items():
        _before, there, rest = text.partition(words)
        if there:
            found = _named_by_symbols(rest.partition(ending)[0].split("\n"), text)
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
        return condition_in([f"{elided['name']} {elided['rest']}"], ((elided["name"], elided["name"]),))
    if "inferred to be a constant" in line or "must always be" in line or "Expected input" in line:
        return _unread(line)
    return None


def _unread(text: str) -> str:
    return " ".join(text.split())


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


def _asked(text: str) -> Range:
    range_ = _RANGE.search(text[:MOST_SUBJECT_CHARACTERS])
    words = " ".join((range_["range"] if range_ else "").split())
    alone = range_ is None and " <= " in text  # 2 <= L['x'].size()[0] <= 64
    shown = words or (" ".join(text.split()) if alone else "")
    low, high = _LOW.search(shown), _HIGH.search(shown)
    return range_of(low["end"] if low else "", high["end"] if high else "")


def _not_all(text: str) -> TextGuard | str:
    guard = _SATISFY.search(text)
    if guard:
        subject = " ".join(text[: guard.start()].split())
        parts = text[guard.end() :].split("\n")
        if not any(part.strip() for part in parts):
            return f"Not all values of {subject} satisfy the generated guard"
        source, name = _subject(subject)
        names = _pairs(subject) or (((source, name or source),) if source else ())
        return condition_in(parts, names, _asked(subject))
    inferred = _VALID.search(text)
    if inferred is None:
        return _unread(f"Not all values of {text}")
    subject = " ".join(text[: inferred.start()].split())
    value = _CONSTANT.match(text, inferred.end())
    if value:
        return _constant(subject, value["value"])
    equal = _EQUAL_TO.match(text, inferred.end())
    if equal is None:
        return _unread(f"Not all values of {text}")
    source, name = _subject(subject)
    size = trimmed(equal["expr"])
    told = TextGuard(f"{name or source} == {size}", None, "", _pairs(subject), kind="equal")
    try:
        condition = compare(Relation.EQ, Sym(source), parse_expr(size))
    except ExpressionError as error:
        return replace(told, why=str(error))
    return replace(told, condition=condition, asked=_asked(subject))


def _constant(subject: str, value: str) -> TextGuard:
    source, name = _subject(subject)
    condition = compare(Relation.EQ, Sym(source), Num(int(value)))
    names = ((source, name),) if name else ()
    return TextGuard(f"{name or source} == {int(value)}", condition, "", names, "constant", _asked(subject))


def _marked(text: str) -> TextGuard | str:
    marked = _MARKED.match(text)
    value = _CONSTANT.search(text, marked.end()) if marked else None
    return _constant(marked["subject"], value["value"]) if marked and value else _unread(f"You marked {text}")


def _two_dims(text: str) -> TextGuard | str:
    related = _RELATED.search(text)
    if related:
        names = (*_pairs(text[: related.start()]), *_pairs(related["right"]))
        parts = text[related.end() :].replace(" = ", " == ", 1).split("\n")
        return condition_in(parts, names, kind="related")
    equal = _EQUAL.search(text)
    if equal is None:
        return _unread(f"The values of {text}")
    subject = " ".join(text[: equal.start()].split())[:MOST_SUBJECT_CHARACTERS]
    pairs = _pairs(subject)
    if len(pairs) < 2:
        left, _, right = subject.partition(" and ")
        pairs = (_subject(left), _subject(right))
        if not (pairs[0][0] and pairs[1][0]):
            why = "its two dims could not be told apart"
            return TextGuard(_unread(f"The values of {text}"), None, why, kind="equal")
    (source, name), (other, other_name) = pairs[0], pairs[-1]
    condition = compare(Relation.EQ, Sym(source), Sym(other))
    named = tuple((source, name) for source, name in pairs if name)
    return TextGuard(f"{name or source} == {other_name or other}", condition, "", named, kind="equal")


def _data_dependent(text: str) -> TextGuard | str:
    unhinted = _UNHINTED.search(text)
    parts = (text[: unhinted.start()] if unhinted else text).split("\n")
    if not any(part.strip() for part in parts):
        return f"data-dependent expression {_unread(text)}".strip()
    return condition_in(parts, kind="data-dependent")


def _named_by_symbols(parts: list[str], text: str) -> TextGuard:
    """A condition over symbols of the log; ``where {'s0': "L['x'].size()[0]"}`` names their sources."""
    names = tuple((match["symbol"], match["source"]) for match in WHERE.finditer(text[-MOST_SUBJECT_CHARACTERS:]))
    found = condition_in(parts, names)
    if found.condition is None:
        return replace(found, kind="asserted" if found.why == FLOAT_WHY and "zuf" in found.text else "guard")
    unbacked = any(map(_UNBACKED.match, free_symbols(found.condition)))
    return replace(found, kind="asserted" if unbacked else "guard")


_BY_HEAD: dict[str, Callable[[str], TextGuard | str]] = {
    "Not all values of": _not_all,
    "You marked ": _marked,
    "The values of ": _two_dims,
    "data-dependent expression": _data_dependent,
}
