"""Types, half precision, memory and metadata as the page shows them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trtdiag.analysis.fallbacks import PartitionFacts
from trtdiag.dtypes.facts import DtypeFacts, Fit, OddTensor
from trtdiag.dtypes.plan_facts import PlannedTensor
from trtdiag.grouping import grouped
from trtdiag.lower.facts import Checked, MetadataDefect
from trtdiag.lower.lowered_facts import PrecisionFacts
from trtdiag.options import Precision
from trtdiag.report.charts.memory import memory_chart
from trtdiag.report.page import Long, Part, cells, folded_table, folding_table, table
from trtdiag.shapes.facts import MemoryEstimate
from trtdiag.targets import target_name
from trtdiag.wording import amount, bytes_text, dtype_text, listed, one_line

_FITS = {Fit.FITS: "fits int32", Fit.OVERFLOWS: "does not fit int32", Fit.UNKNOWN: "not known to fit"}
_FIT_ORDER = (Fit.OVERFLOWS, Fit.UNKNOWN, Fit.FITS)


def types_view(
    dtypes: DtypeFacts, parts: PartitionFacts | None = None, precision: Part | None = None, shares: Part | None = None
) -> Part:
    """Counts of dtypes, and the tensors that need attention on the target."""
    target = one_line(dtypes.target)
    wide = sorted(dtypes.int64, key=lambda tensor: _FIT_ORDER.index(tensor.fit))
    note = ""
    if wide:
        fits = sum(tensor.fit is Fit.FITS for tensor in wide)
        native = "has int64" if dtypes.native_int64 else "has no int64: these become int32"
        note = f"{amount(len(wide), 'int64 tensor')}; {fits:,} proved to fit int32. {target_name(target)} {native}."
    rows = [cells(each.node, each.role, each.values, _FITS[each.fit], Long(each.why), each.frame) for each in wide]
    int64 = ("tensor", "role", "values", "int32", "why", "line"), rows
    return {
        "target": target_name(target),
        "shares": shares,
        "counts": table(
            ("dtype", "tensors"),
            [cells(*counted) for counted in dtypes.counts],
            kinds=("code", "number"),
        ),
        "int64_note": note,
        # Where the target has int64 nothing becomes of them.
        "int64": folded_table(*int64, amount(len(wide), "int64 tensor"), ("code",))
        if dtypes.native_int64
        else folding_table(*int64, ("code",)),
        "float64": _odd_table(dtypes.float64),
        "unsupported": _odd_table(dtypes.unsupported),
        "planned": None if parts is None else _planned(parts.plan.types.entries),
        "precision": precision,
    }


def _planned(entries: Iterable[PlannedTensor]) -> Part | None:
    """The tensors that are of another type inside engines than in the program."""
    rows = []
    for each in entries:
        dtypes = dtype_text(each.program_dtype), dtype_text(each.engine_dtype or "none")
        rows.append(cells(each.node, each.role, *dtypes, Long(each.why), each.frame))
    return folding_table(("tensor", "role", "in the program", "in engines", "why", "line"), rows, ("code",))


def _odd_table(tensors: Iterable[OddTensor]) -> Part | None:
    # The ops that introduce a dtype come first: the others only carry it on.
    ordered = sorted(tensors, key=lambda tensor: not tensor.root)
    rows = [
        cells(each.node, each.role, each.dtype, each.op, "introduced here" if each.root else "carried on", each.frame)
        for each in ordered
    ]
    return folding_table(("tensor", "role", "dtype", "op", "origin", "line"), rows)


def memory_view(memory: MemoryEstimate) -> Part:
    """What the program holds at the maximum of every range."""
    at = ", ".join(filter(None, cells(memory.live_at, memory.live_frame))) if memory.live_at else ""

    def row(what: str, size: int | None, note: str) -> tuple[str, ...]:
        return what, bytes_text(size), "a dim has no maximum" if size is None else note

    rows = (
        row("weights", memory.weight_bytes, "each storage once"),
        row("inputs", memory.input_bytes, ""),
        row("largest set of tensors alive at one op", memory.live_bytes, f"at {at}" if at else ""),
    )
    largest = [cells(node, bytes_text(size)) for node, size in memory.largest]
    return {
        "course": memory_chart(memory),
        "sums": table(("what", "at the maximum of every range", "note"), rows, kinds=("", "number")),
        "largest": folding_table(("largest outputs", "bytes"), largest, ("", "number")),
    }


def metadata_view(checked: Checked) -> Part:
    """How the recorded values of nodes were found."""
    defects = [_defect(each) for each in sorted(checked.defects, key=lambda defect: not defect.root)]
    unchecked = [cells(node, Long(why)) for node, why in checked.unchecked.items()]
    summary = f"{amount(checked.checked, 'node')} looked at, {amount(checked.recomputed, 'distinct call')} recomputed"
    summary += f", {amount(len(checked.defects), 'defect')}" if checked.defects else ", no defect"
    return {
        "summary": summary + (f", {len(checked.unchecked):,} not recomputable" if checked.unchecked else ""),
        "defects": folding_table(("node", "op", "defect", "recorded", "recomputed", "state", "cause", "line"), defects),
        "unchecked": folding_table(("node", "not recomputed because"), unchecked),
    }


def _defect(found: MetadataDefect) -> tuple[str, ...]:
    values = found.recorded or "nothing", found.recomputed or "unknown"
    state = "repaired in the checked copy" if found.repaired else "not repairable"
    return cells(found.node, found.target, found.defect, *values, state, Long(found.cause), found.origin.stack.best)


_MOST_LINES = 3


def precision_view(facts: PrecisionFacts) -> Part:
    """The ops that stay in float32 by reason, the most frequent first."""
    alike = grouped(((each.target, each.why), each) for each in facts.stays)
    rows = [
        (
            *cells(target, len(found), Long(reason)),
            _few([each.origin.module_path for each in found]),
            _few([each.origin.stack.best for each in found]),
        )
        for (target, reason), found in sorted(alike.items(), key=lambda item: -len(item[1]))
    ]
    # Under int8 quantizers stand between ops of float16, which engines fuse with them.
    name = Precision.FP16.value if facts.precision is Precision.INT8 else facts.precision.value
    computes = "computes" if facts.lowered_ops == 1 else "compute"
    stays = f"{len(facts.stays):,} {'stays' if len(facts.stays) == 1 else 'stay'} in float32"
    summary = f"{amount(facts.lowered_ops, 'op')} {computes} in {name}, {stays}; {amount(facts.casts, 'cast')} for it."
    unmatched = ", ".join(one_line(entry) for entry in facts.unmatched)
    if unmatched:
        summary += f" keep_fp32 names nothing in this program with: {unmatched}."
    return {
        "title": f"Computed in {name}",
        "summary": summary,
        "stays": folding_table(("op", "calls", "stays in float32 because", "module", "line"), rows),
    }


def _few(found: Sequence[object]) -> str:
    return listed([text for text in cells(*dict.fromkeys(found)) if text], _MOST_LINES)
