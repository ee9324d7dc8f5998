"""Types, memory and metadata as the page shows them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trtdiag.analysis.fallbacks import PartitionFacts
from trtdiag.dtypes.facts import DtypeFacts, Fit, OddTensor, WideTensor
from trtdiag.lower.facts import Checked
from trtdiag.report.page import Part, table
from trtdiag.shapes.facts import MemoryEstimate
from trtdiag.targets import target_name
from trtdiag.wording import amount, bytes_text, dtype_text, one_line

_SHOWN_ROWS = 8
_LISTED_ROWS = 100
_FITS = {Fit.FITS: "fits int32", Fit.OVERFLOWS: "does not fit int32", Fit.UNKNOWN: "not known to fit"}
_FIT_ORDER = (Fit.OVERFLOWS, Fit.UNKNOWN, Fit.FITS)


def folding_table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]], kinds: tuple[str, ...] = ()) -> Part | None:
    """A table that shows the first rows and folds the rest; ``None`` without rows."""
    if not rows:
        return None
    shown = tuple(rows[:_SHOWN_ROWS])
    folded = tuple(rows[_SHOWN_ROWS:_LISTED_ROWS])
    hidden = len(rows) - len(shown)
    more = f"and {hidden:,} more" if hidden else ""
    if hidden > len(folded):
        more += f", {len(folded):,} of them listed here, all of them in the JSON report"
    return table(heads, shown, folded, more, kinds)


def folded_table(
    heads: tuple[str, ...], rows: Sequence[tuple[str, ...]], label: str, kinds: tuple[str, ...] = ()
) -> Part | None:
    """A table of which nothing is shown until it is asked for; ``None`` without rows."""
    if not rows:
        return None
    more = label if len(rows) <= _LISTED_ROWS else f"{label}, {_LISTED_ROWS:,} of them listed here"
    return table(heads, (), tuple(rows[:_LISTED_ROWS]), more, kinds)


def types_view(dtypes: DtypeFacts, parts: PartitionFacts | None = None, precision: Part | None = None) -> Part:
    """Counts of dtypes, and the tensors that need attention on the target."""
    target = one_line(dtypes.target)
    wide = sorted(dtypes.int64, key=lambda tensor: _FIT_ORDER.index(tensor.fit))
    note = ""
    if wide:
        fits = sum(tensor.fit is Fit.FITS for tensor in wide)
        native = "has int64" if dtypes.native_int64 else "has no int64: these become int32"
        note = f"{amount(len(wide), 'int64 tensor')}; {fits:,} proved to fit int32. {target_name(target)} {native}."
    return {
        "target": target_name(target),
        "counts": table(
            ("dtype", "tensors"),
            tuple((one_line(dtype), f"{number:,}") for dtype, number in dtypes.counts),
            kinds=("code", "number"),
        ),
        "int64_note": note,
        "int64": _int64_table([_wide(tensor) for tensor in wide], native=dtypes.native_int64),
        "float64": _odd_table(dtypes.float64),
        "unsupported": _odd_table(dtypes.unsupported),
        "planned": None if parts is None else _planned(parts),
        "precision": precision,
    }


def _planned(parts: PartitionFacts) -> Part | None:
    """The tensors that are of another type inside engines than in the program."""
    rows = [
        (
            one_line(entry.node),
            entry.role.value,
            dtype_text(entry.program_dtype),
            "none" if entry.engine_dtype is None else dtype_text(entry.engine_dtype),
            one_line(entry.why, 400),
            one_line(str(entry.frame)) if entry.frame else "",
        )
        for entry in parts.plan.types.entries
    ]
    return folding_table(("tensor", "role", "in the program", "in engines", "why", "line"), rows, ("code",))


def _int64_table(rows: Sequence[tuple[str, ...]], *, native: bool) -> Part | None:
    """Folded where the target has int64: then nothing becomes of them."""
    heads, kinds = ("tensor", "role", "values", "int32", "why", "line"), ("code",)
    if native:
        return folded_table(heads, rows, amount(len(rows), "int64 tensor"), kinds)
    return folding_table(heads, rows, kinds)


def _wide(tensor: WideTensor) -> tuple[str, ...]:
    return (
        one_line(tensor.node),
        tensor.role.value,
        str(tensor.values),
        _FITS[tensor.fit],
        one_line(tensor.why, 400),
        one_line(str(tensor.frame)) if tensor.frame else "",
    )


def _odd_table(tensors: Iterable[OddTensor]) -> Part | None:
    # The ops that introduce a dtype come first: the others only carry it on.
    ordered = sorted(tensors, key=lambda tensor: not tensor.root)
    rows = [
        (
            one_line(tensor.node),
            tensor.role.value,
            one_line(tensor.dtype),
            one_line(tensor.op),
            "introduced here" if tensor.root else "carried on",
            one_line(str(tensor.frame)) if tensor.frame else "",
        )
        for tensor in ordered
    ]
    return folding_table(("tensor", "role", "dtype", "op", "origin", "line"), rows)


def memory_view(memory: MemoryEstimate) -> Part:
    """What the program holds at the maximum of every range."""
    at = ""
    if memory.live_at:
        at = f"at {one_line(memory.live_at)}" + (f", {one_line(str(memory.live_frame))}" if memory.live_frame else "")
    rows = (
        ("weights", bytes_text(memory.weight_bytes), "each storage once"),
        ("inputs", bytes_text(memory.input_bytes), "" if memory.input_bytes is not None else "a dim has no maximum"),
        (
            "largest set of tensors alive at one op",
            bytes_text(memory.live_bytes),
            at if memory.live_bytes is not None else "a dim has no maximum",
        ),
    )
    largest = [(one_line(node), bytes_text(size)) for node, size in memory.largest]
    return {
        "sums": table(("what", "at the maximum of every range", "note"), rows, kinds=("", "number")),
        "largest": folding_table(("largest outputs", "bytes"), largest, ("", "number")),
    }


def metadata_view(checked: Checked) -> Part:
    """How the recorded values of nodes were found."""
    defects = [
        (
            one_line(d.node),
            one_line(d.target),
            d.defect.value,
            one_line(d.recorded) or "nothing",
            one_line(d.recomputed) or "unknown",
            "repaired in the checked copy" if d.repaired else "not repairable",
            one_line(d.cause, 400),
            one_line(str(d.origin.stack.best)) if d.origin.stack.best else "",
        )
        for d in sorted(checked.defects, key=lambda defect: not defect.root)
    ]
    unchecked = [(one_line(node), one_line(why, 400)) for node, why in checked.unchecked.items()]
    summary = f"{amount(checked.checked, 'node')} looked at, {amount(checked.recomputed, 'distinct call')} recomputed"
    summary += f", {amount(len(checked.defects), 'defect')}" if checked.defects else ", no defect"
    return {
        "summary": summary + (f", {len(checked.unchecked):,} not recomputable" if checked.unchecked else ""),
        "defects": folding_table(("node", "op", "defect", "recorded", "recomputed", "state", "cause", "line"), defects),
        "unchecked": folding_table(("node", "not recomputed because"), unchecked),
    }
