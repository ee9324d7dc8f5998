"""The answer of ``fix-dims`` as JSON: schema ``trtdiag-fix/1``, keys always in the same order."""

from __future__ import annotations

from pathlib import Path

import torch

from trtdiag import __version__
from trtdiag.dims.plan import Plan
from trtdiag.fixdims.fix import Alternative, Change, ConflictSet, DataCheck, Fix, Reason
from trtdiag.fixdims.programs import Several
from trtdiag.report.fix_programs import sizes_json
from trtdiag.report.fix_words import all_notes, fix_verdict
from trtdiag.report.json_parts import Json, frame_json, json_text, kept_json, proof_json, range_json, strings

FIX_SCHEMA = "trtdiag-fix/1"
FIX_SCHEMA_PATH = Path(__file__).parent / "schema" / "fix-1.schema.json"


def json_fix(fix: Fix) -> str:
    """The answer as JSON text: valid UTF-8 whatever the names."""
    return json_text(fix_json(fix)) + "\n"


def fix_json(fix: Fix) -> dict[str, Json]:
    """Everything but the tensors and the program, as plain lists and dicts."""
    return {
        "schema": FIX_SCHEMA,
        "tool": {"name": "trtdiag", "version": __version__},
        "label": fix.label,
        "source": fix.source,
        "outcome": fix.outcome.value,
        "verdict": fix_verdict(fix).text,
        "proven": fix.proven,
        "proof": proof_json(fix.proof),
        "code": fix.code,
        "asked_code": fix.asked_code,
        "plan": _plan_json(fix.plan),
        "changes": [_change_json(change) for change in fix.changes],
        "checks": [_check_json(check) for check in fix.checks],
        "conflicts": [_conflict_json(conflict) for conflict in fix.conflicts],
        "unread": [{"text": unread.text, "why": unread.why} for unread in fix.unread],
        "notes": strings(all_notes(fix)),
        "failure": fix.failure,
        "confirmation": {
            "exported": fix.confirmation.exported,
            "rounds": fix.confirmation.rounds,
            "ran": strings(fix.confirmation.ran),
            "ran_on_data": strings(fix.confirmation.ran_on_data),
            "not_on_data": strings(fix.confirmation.not_on_data),
            "note": fix.confirmation.note,
        },
        "several": None if fix.several is None else _several_json(fix.several),
        "others": [fix_json(other) for other in fix.others],
        "versions": {"running_torch": str(torch.__version__)},
    }


def _several_json(several: Several) -> Json:
    return {
        "searched": several.searched,
        "kept": kept_json(several.kept),
        "sizes": sizes_json(several),
        "programs": [
            {
                "takes": program.takes_text(),
                "kept": kept_json(program.kept),
                "adds": program.adds,
                "code": program.code,
                "plan": _plan_json(program.plan),
                "proof": proof_json(program.proof),
                "exported": program.exported,
                "ran": strings(program.ran),
                "ran_on_data": strings(program.ran_on_data),
                "not_on_data": strings(program.not_on_data),
            }
            for program in several.programs
        ],
        "notes": strings(several.notes),
    }


def _plan_json(plan: Plan) -> Json:
    return {
        "dims": [{"name": definition.name, "range": range_json(definition.range)} for definition in plan.defs],
        "leaves": [
            {
                "site": site,
                "kind": leaf.kind.value,
                "root": leaf.root,
                "scale": leaf.scale,
                "offset": leaf.offset,
                "value": leaf.value,
                "range": range_json(leaf.range),
                "name": leaf.name,
            }
            for site, leaf in plan.leaves.items()
        ],
        "example_sizes": [{"site": site, "size": size} for site, size in plan.sizes.items()],
    }


def _change_json(change: Change) -> Json:
    return {
        "sites": strings(change.sites),
        "name": change.name,
        "before": change.before,
        "after": change.after,
        "kind": change.kind,
        "why": [_reason_json(reason) for reason in change.why],
        "kept": kept_json(change.kept),
        "lost": change.lost,
        "allowed": change.allowed,
        "alternatives": [_alternative_json(other) for other in change.alternatives],
        "model_change": None if change.model_change is None else _alternative_json(change.model_change),
        "proof": proof_json(change.proof),
    }


def _reason_json(reason: Reason) -> Json:
    return {
        "text": reason.text,
        "by": reason.by,
        "counterexample": reason.counterexample,
        "source": frame_json(reason.stack.best),
    }


def _alternative_json(other: Alternative) -> Json:
    return {"text": other.text, "kept": kept_json(other.kept), "note": other.note}


def _check_json(check: DataCheck) -> Json:
    return {
        "code": check.code,
        "condition": check.condition,
        "confirmed": check.confirmed,
        "note": check.note,
        "source": frame_json(check.where.best),
    }


def _conflict_json(conflict: ConflictSet) -> Json:
    return {
        "reasons": [_reason_json(reason) for reason in conflict.reasons],
        "ranges": strings(conflict.ranges),
        "proof": proof_json(conflict.proof),
    }
