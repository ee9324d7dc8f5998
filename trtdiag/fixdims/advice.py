"""What to change in the model, or before it, where that keeps more sizes than any declaration."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from trtdiag.dims.compare_plans import values_of
from trtdiag.dims.plan import Leaf, LeafKind, Plan
from trtdiag.dims.solver_input import asked_range
from trtdiag.fixdims.branch_advice import REFUSAL, always_padded, one_path
from trtdiag.fixdims.fix import PYTHON, Alternative, Change, Reason
from trtdiag.fixdims.plain_numbers import no_error, no_length, no_number
from trtdiag.frontend.dim_names import bounds_text
from trtdiag.graph.source import Frame
from trtdiag.symbolic import Range, ValueSet

_SITE = re.compile(r"(?P<input>.+)\.shape\[(?P<index>\d+)\]")
_AT_MOST = re.compile(r"(?P<name>\S+) (?:<= (?P<most>\d+)|< (?P<below>\d+))")
_EQUAL = re.compile(r"(?P<name>\S+) == (?P<value>\d+)(?:: .*)?", re.DOTALL)
_LOOP = re.compile(r"\brange\(")
_RESHAPE = re.compile(r"\b(view|reshape|expand|unflatten|view_as|repeat)\(|\baten\.(_unsafe_)?(view|reshape|expand)\b")
_UP_TO = re.compile(r"\[[^\]]*(?<!:):\s*[^\s,:\]]")  # a slice with an end: one without takes any size
_TABLE = re.compile(rf"{_UP_TO.pattern}|\bembedding\b|\bnarrow\(|\bindex_select\b")
_TABLE_OP = re.compile(r"aten\.(slice|embedding|narrow|index)")
# What torch offers beside a call that asks for sizes (torch 2.13, ATen/native/Pooling.cpp and Distance.cpp).
_OTHER_FORM = {
    "max_pool1d": "ask max_pool1d at {} for the indices, too (return_indices=True), and leave them: without them its"
    " kernel reads the length as a number",
    "cdist": 'give torch.cdist at {} compute_mode="donot_use_mm_for_euclid_dist": by default it computes another way'
    " where there are more than 25 rows",
}
_SIZE = re.compile(r"[A-Za-z_][\w.\[\]'\"]*(?![\w.\[\]'\"(])")
_SLICE = re.compile(r"\[[^\]]*:")
_OF_SIZES = re.compile(r"\.(?:shape|size\(\))\[[^\]]*\]")  # a slice of these is none of a tensor
_FROM_THE_END = re.compile(r"[\[,]\s*-\s*([\w.]+)\s*:\s*[,\]]")
_FROM_BEHIND = re.compile(r"[\[,]\s*-[^:\]]*:")
_BY_SLICE = ("aten.slice.Tensor", "aten.as_strided.default")
_MERGING = frozenset(
    f"aten.{name}"
    for name in ("_unsafe_view.default", "einsum.default", "flatten.using_ints", "linear.default", "matmul.default")
)
_ONE_END = re.compile(r"\S+ (<=|!=) \d+")
_UNEQUAL = re.compile(r".*[A-Za-z].* != .*[A-Za-z].*", re.DOTALL)
_BETWEEN_SIZES = re.compile(r".+ (==|!=|<=|>=) .*[A-Za-z].*", re.DOTALL)


def with_model_changes(
    changes: Sequence[Change], asked: Plan, final: Plan, ranks: Mapping[str, int] | None = None
) -> tuple[Change, ...]:
    """The changes, each with the change of the model that keeps more of the requested sizes, where there is one.

    Args:
        changes: From ``asked`` to ``final``.
        asked: What the user declared.
        final: What is suggested.
        ranks: Input -> number of dims; without it padding is advised in words and not as a line of code.
    """
    lines = [_change_of_line(change, asked, final) for change in changes]
    padded = [
        change for change, line in zip(changes, lines, strict=True) if line is None and _paddable(change, asked, final)
    ]
    return tuple(
        replace(
            change,
            model_change=line or (_padding(change, padded, asked, final, ranks or {}) if change in padded else None),
        )
        for change, line in zip(changes, lines, strict=True)
    )


# Padding: any size becomes the next one of a residue class.


def _paddable(change: Change, asked: Plan, final: Plan) -> bool:
    """Whether every dim takes one class of sizes, nothing but these dims is tied to it, and padding keeps more."""
    first = final.leaves.get(change.sites[0])
    if change.kind not in ("multiple", "example") or first is None or first.kind is not LeafKind.DIM or first.scale < 2:
        return False
    tied = [leaf for leaf in final.leaves.values() if leaf.root == first.root and leaf.kind is LeafKind.DIM]
    if any((leaf.scale, leaf.offset) != (first.scale, first.offset) for leaf in tied):
        return False
    if any(_SITE.fullmatch(site) is None for site in change.sites):
        return False  # an integer input has nothing to pad
    kept = _kept_by_padding(change.sites[0], asked, final)
    return kept is None or change.kept is None or kept[0] > change.kept[0]


def _kept_by_padding(site: str, asked: Plan, final: Plan) -> tuple[int, int] | None:
    """Requested sizes whose next size of the class is admitted, and how many were requested."""
    requested = values_of(asked.leaves[site], asked) if site in asked.leaves else None
    if requested is None or requested.count is None:
        return None
    return requested.intersect(ValueSet.full(_padded_range(site, final))).count or 0, requested.count


def _padded_range(site: str, final: Plan) -> Range:
    """The sizes whose next size of the class is admitted."""
    extent, step = asked_range(final.leaves[site], final), final.leaves[site].scale
    return Range(None if extent.min is None else max(1, extent.min - step + 1), extent.max)


def _padding(
    change: Change, padded: Sequence[Change], asked: Plan, final: Plan, ranks: Mapping[str, int]
) -> Alternative:
    inputs = dict.fromkeys(name for name, _ in _pads(change, final))
    pads: dict[str, dict[int, str]] = {name: {} for name in inputs}
    for other in padded:
        found = _pads(other, final)
        if any(name in inputs for name, _ in found):
            for (name, index), amount in found.items():
                pads.setdefault(name, {})[index] = amount
    leaf = final.leaves[change.sites[0]]
    residue = leaf.offset % leaf.scale
    to = f"a multiple of {leaf.scale}" if residue == 0 else f"a size that leaves {residue} modulo {leaf.scale}"
    kept = _kept_by_padding(change.sites[0], asked, final)
    words = f"pad {change.name} to {to}, first in forward"
    code = [_line(name, pads[name], ranks[name]) for name in inputs if name in ranks]
    request = asked_range(asked.leaves[change.sites[0]], asked).intersect(_padded_range(change.sites[0], final))
    note = (
        f"declare Dim.DYNAMIC({bounds_text(request)}) there: torch cannot see that the padded size always fits; "
        "crop the output where its size follows the input's, and mind that zeros enter what is averaged"
    )
    return Alternative("\n".join((words, *code)), kept, note)


def _pads(change: Change, final: Plan) -> dict[tuple[str, int], str]:
    """Input and dim -> how much to add there, as Python."""
    pads = {}
    for site in change.sites:
        match, leaf = _SITE.fullmatch(site), final.leaves[site]
        if match is not None:
            rest = leaf.offset % leaf.scale
            amount = f"({rest} - {site}) % {leaf.scale}" if rest else f"-{site} % {leaf.scale}"
            pads[match["input"], int(match["index"])] = amount
    return pads


def _line(name: str, amounts: Mapping[int, str], rank: int) -> str:
    """One call of ``F.pad``, which counts dims from the last."""
    given = (f"0, {amounts.get(index, '0')}" for index in range(rank - 1, min(amounts) - 1, -1))
    return f"{name} = F.pad({name}, ({', '.join(given)}))"


# Lines of the model that narrow a dim by themselves.


def _change_of_line(change: Change, asked: Plan, final: Plan) -> Alternative | None:
    before, after = asked.leaves.get(change.sites[0]), final.leaves.get(change.sites[0])
    if before is None or after is None or change.kind == "bound":
        return None
    if change.kind not in ("related", "shared") and change.lost:
        found = _copied_slice(change) or _copied_first(change)
        if found is not None:
            return found
    if change.kind == "related":
        return _made_inside(change, final)
    if change.kind == "shared" or not (change.lost or after.kind is LeafKind.STATIC):
        return None  # nothing is lost that a change of the model would bring back
    for reason in change.why:
        frame = _asking(reason)
        if frame is None or not frame.code:
            continue
        untraced = no_error(reason, frame)
        if untraced is not None:  # torch stops at its first error: what comes behind it is not known
            return Alternative(untraced, None, _left(change, frame))
        text = _other_form(reason, frame) or no_length(reason, frame) or no_number(reason, frame)
        text = text or always_padded(reason, frame, after)
        if text is None and change.kind != "multiple":
            text = (
                _pinned(reason, frame)
                if after.kind is LeafKind.STATIC or change.kind == "example"
                else _larger_table(reason, frame, before, asked) or one_path(reason, frame)
            )
        if text is not None:
            return Alternative(text, _all_of(change, frame, before, asked), _left(change, frame))
    return None


def _copied_slice(change: Change) -> Alternative | None:
    """An index in the place of a slice, where torch.export keeps whether the slice took all."""
    for reason in change.why:
        frame = _asking(reason)
        code = "" if frame is None else _OF_SIZES.sub("", frame.code)
        if frame is None or not (_SLICE.search(code) or ".narrow(" in code):
            continue
        last, sliced = _FROM_THE_END.findall(code), reason.by in _BY_SLICE or reason.stack.asks_for_layout
        if len(last) == 1 and sliced and _ONE_END.fullmatch(reason.text):
            indices = f"torch.arange(max(n - {last[0]}, 0), n)"
            text = f"write x.index_select(dim, {indices}) in place of the slice x[..., -{last[0]}:] at {frame}"
            why = "torch.export keeps whether the slice took all"
            return Alternative(f"{text}: {why}: {frame.code.strip()}", None, _left(change, frame))
        asks = reason.by == "aten.slice.Tensor" or reason.stack.asks_for_layout
        if asks and _BETWEEN_SIZES.fullmatch(reason.text):
            was = "x.narrow(dim, 0, n)" if ".narrow(" in code else "the slice x[..., :n]"
            text = f"write x.index_select(dim, torch.arange(n)) in place of {was} at {frame}"
            why = "torch.export keeps whether the slice took all, for then it lies in memory without gaps"
            left = "; ".join(filter(None, ("sizes at which the slice is empty stay out", _left(change, frame))))
            return Alternative(f"{text}: {why}: {frame.code.strip()}", None, left)
    return None


def _copied_first(change: Change) -> Alternative | None:
    """A copy of what is not in order, where an op merges its dims, and torch.export keeps how it lies then."""
    for reason in change.why:
        frame = _asking(reason)
        if frame is not None and reason.by in _MERGING and _UNEQUAL.fullmatch(reason.text):
            text = f"write x.clone(memory_format=torch.contiguous_format) in place of x at {frame}"
            why = "torch.export keeps in which order the values lie there"
            return Alternative(f"{text}: {why}: {frame.code.strip()}", None, _left(change, frame))
    return None


def _asking(reason: Reason) -> Frame | None:
    """The line to change: the library's own, where the user's only calls it."""
    frame = reason.stack.best
    return frame if frame is None or frame.inside is None else frame.inside


def _other_form(reason: Reason, frame: Frame) -> str | None:
    """The same call in words that leave the size open, where torch has some."""
    name = reason.by.removeprefix("aten.").partition(".")[0]
    return _OTHER_FORM[name].format(f"{frame}") + f": {frame.code.strip()}" if name in _OTHER_FORM else None


def _pinned(reason: Reason, frame: Frame) -> str | None:
    match = _EQUAL.fullmatch(reason.text)
    if match is None:
        return None
    name, value, code = match["name"], match["value"], frame.code.strip()
    literal = re.search(rf"(?<![\w.]){value}(?![\w.])", code) is not None
    if literal and (_RESHAPE.search(code) or _RESHAPE.search(reason.by)):
        return f"write -1 or a size of the tensor in place of {value} at {frame}: {code}"
    if _LOOP.search(code):
        return f"write the Python loop over {name} at {frame} as one tensor operation: {code}"
    if literal and reason.by == PYTHON and not REFUSAL.match(code):
        return f"remove the comparison with {value} at {frame}: {code}"
    return None


def _larger_table(reason: Reason, frame: Frame, before: Leaf, asked: Plan) -> str | None:
    match, wanted = _AT_MOST.fullmatch(reason.text), asked_range(before, asked).max
    if match is None or wanted is None or reason.by == PYTHON:
        return None
    most = int(match["most"]) if match["most"] else int(match["below"]) - 1
    # An op that is known says more than its line, where other calls may stand, too.
    code = _OF_SIZES.sub("", frame.code)
    table = _TABLE_OP.match(reason.by) if reason.by.startswith("aten.") else _TABLE.search(code)
    to_its_end = _FROM_BEHIND.search(code) or (_SLICE.search(code) and not _UP_TO.search(code))
    if most >= wanted or table is None or (reason.by in _BY_SLICE and to_its_end):
        return None
    words = f"give the table at {frame} rows enough for {match['name']} = {wanted}, where it has them up to {most}"
    return f"{words}: {frame.code.strip()}"


def _causes(change: Change) -> list[Reason]:
    return [reason for reason in change.why if reason.by != "the asked range"]


def _all_of(change: Change, frame: Frame, before: Leaf, asked: Plan) -> tuple[int, int] | None:
    """All requested values, where this line is the only cause, and they alone decide what it took."""
    requested = values_of(before, asked)
    if requested is None or requested.count is None:
        return None
    alone = all(_asking(reason) == frame and not _of_several(reason.text) for reason in _causes(change))
    return (requested.count, requested.count) if alone else None


def _of_several(text: str) -> bool:
    """Whether ``int`` took the number of several sizes: left open, torch.export may ask something else of them."""
    return text.startswith("trunc(") and len(set(_SIZE.findall(text))) > 1


def _left(change: Change, frame: Frame) -> str:
    # What torch.export asks by itself is of how a size is spelled.
    others = [r.text for r in _causes(change) if r.by != "torch.export" and _asking(r) != frame]
    return f"the other conditions remain: {'; '.join(others[:2])}" if others else ""


def _made_inside(change: Change, final: Plan) -> Alternative | None:
    """A tensor whose size follows from another input's can be made in the model, and is then no input."""
    match, leaf = _SITE.fullmatch(change.sites[0]), final.leaves[change.sites[0]]
    if match is None or leaf.kind is not LeafKind.DIM or (leaf.scale, leaf.offset) == (1, 0):
        return None
    other = next(
        (
            site
            for site, one in final.leaves.items()
            if one.root == leaf.root and not site.startswith(f"{match['input']}.shape[")
        ),
        None,
    )
    if other is None:
        return None
    return Alternative(
        f"make {match['input']} inside the model from {other}, so that it is no input",
        None,
        f"only where the values of {match['input']} follow from sizes",
    )
