"""The facts of the stages as JSON."""

from __future__ import annotations

from collections.abc import Mapping

from trtdiag.dims.facts import Constraint, DimSystem
from trtdiag.dtypes.facts import DtypeFacts, OddTensor
from trtdiag.lower.facts import Checked
from trtdiag.report.json_parts import Json, frame_json, kept_json, proof_json, range_json, strings, values_json
from trtdiag.shapes.facts import MemoryEstimate, SymbolTable
from trtdiag.shapes.profile import DimProfile


def dims_json(dims: DimSystem) -> Json:
    """The dims table, suggestions, and what is pinned, tied or in conflict."""
    return {
        "rows": [
            {
                "site": row.site,
                "symbol": row.symbol,
                "declared": row.declared,
                "range": range_json(row.range),
                "allowed": row.allowed,
                "suggested": row.suggested,
                "state": row.state,
            }
            for row in dims.rows
        ],
        "suggestions": [
            {
                "symbols": strings(s.symbols),
                "code": strings(s.code),
                "spelled": s.spelled,
                "summary": s.summary,
                "kept": kept_json(s.kept),
                "proof": proof_json(s.proof),
                "alternatives": strings(s.alternatives),
            }
            for s in dims.suggestions
        ],
        "pinned": [
            {
                "site": p.site,
                "declared": p.declared,
                "value": p.value,
                "why": p.why,
                "source": frame_json(p.origin.stack.best),
            }
            for p in dims.pinned
        ],
        "tied": [
            {
                "sites": strings(t.sites),
                "declared": strings(t.declared),
                "constraint": None if t.constraint is None else t.constraint.text,
                "smallest": t.smallest,
            }
            for t in dims.tied
        ],
        "conflicts": [
            {
                "constraints": strings(c.text for c in conflict.constraints),
                "box": strings(conflict.box),
                "proof": proof_json(conflict.proof),
            }
            for conflict in dims.conflicts
        ],
    }


def guards_json(dims: DimSystem) -> Json:
    """Every guard, read or not."""
    return {
        "parsed": [_guard_json(constraint) for constraint in dims.constraints],
        "unparsed": [{"text": g.text, "why": g.why, "found_in": g.found_in} for g in dims.unparsed],
    }


def _guard_json(constraint: Constraint) -> Json:
    origin = constraint.origin
    return {
        "text": constraint.text,
        "symbols": strings(constraint.symbols),
        "verdict": constraint.verdict.value,
        "proof": proof_json(constraint.proof),
        "counterexample": values_json(constraint.counterexample),
        "witness": values_json(constraint.witness),
        "allowed": constraint.allowed,
        "kept": kept_json(constraint.kept),
        "follows": constraint.follows,
        "only_at_zero": constraint.only_at_zero,
        "found_in": strings(origin.found_in),
        "branch": origin.branch,
        "op": origin.op,
        "node": origin.node,
        "source": frame_json(origin.stack.best),
    }


def symbols_json(table: SymbolTable | None, profiles: Mapping[str, DimProfile]) -> Json:
    """The symbol table with the sizes that engines would be built for; ``null`` without a graph."""
    if table is None:
        return None
    return [
        {
            "symbol": s.symbol,
            "name": s.name,
            "backed": s.backed,
            "range": range_json(s.range),
            "profile": _profile_json(profiles.get(s.symbol)),
            "hint": s.hint,
            "origins": strings(s.origins),
            "born_by": s.born_by,
            "born_at": frame_json(s.born_at),
            "uses": s.uses,
            "expressions": strings(s.expressions),
        }
        for s in table.symbols
    ]


def _profile_json(profile: DimProfile | None) -> Json:
    return None if profile is None else {"min": profile.min, "opt": profile.opt, "max": profile.max}


def dtypes_json(dtypes: DtypeFacts | None) -> Json:
    """Counts of dtypes, and the tensors that need attention; ``null`` without a graph."""
    if dtypes is None:
        return None
    return {
        "target": dtypes.target,
        "counts": [{"dtype": dtype, "tensors": number} for dtype, number in dtypes.counts],
        "native_int64": dtypes.native_int64,
        "int64": [
            {
                "node": t.node,
                "role": t.role.value,
                "values": range_json(t.values),
                "fit": t.fit.value,
                "why": t.why,
                "source": frame_json(t.frame),
            }
            for t in dtypes.int64
        ],
        "float64": [_odd_json(t) for t in dtypes.float64],
        "unsupported": [_odd_json(t) for t in dtypes.unsupported],
    }


def _odd_json(tensor: OddTensor) -> Json:
    return {
        "node": tensor.node,
        "role": tensor.role.value,
        "dtype": tensor.dtype,
        "op": tensor.op,
        "root": tensor.root,
        "source": frame_json(tensor.frame),
    }


def memory_json(memory: MemoryEstimate | None) -> Json:
    """Bytes at the maximum of every range; ``null`` without a graph."""
    if memory is None:
        return None
    return {
        "weight_bytes": memory.weight_bytes,
        "input_bytes": memory.input_bytes,
        "live_bytes": memory.live_bytes,
        "live_at": memory.live_at,
        "live_source": frame_json(memory.live_frame),
        "largest": [{"node": node, "bytes": size} for node, size in memory.largest],
    }


def metadata_json(checked: Checked | None) -> Json:
    """How the recorded values of nodes were found; ``null`` without a graph."""
    if checked is None:
        return None
    return {
        "checked": checked.checked,
        "recomputed": checked.recomputed,
        "defects": [
            {
                "node": d.node,
                "target": d.target,
                "defect": d.defect.value,
                "recorded": d.recorded,
                "recomputed": d.recomputed,
                "repaired": d.repaired,
                "cause": d.cause,
                "root": d.root,
                "module_path": d.origin.module_path,
                "source": frame_json(d.origin.stack.best),
            }
            for d in checked.defects
        ],
        "unchecked": [{"node": node, "why": why} for node, why in checked.unchecked.items()],
    }
