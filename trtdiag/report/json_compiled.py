"""What became of compiling, as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from trtdiag.analysis.compilation import CompilationFacts, EngineFacts
from trtdiag.analysis.fallbacks import PartitionFacts
from trtdiag.frontend.program import OpOrigin
from trtdiag.report.compile_words import culprit_line, outcome, outcome_line
from trtdiag.report.json_engine_layers import engine_layers_json
from trtdiag.report.json_parts import Json, frame_json, strings, values_json
from trtdiag.shapes.profile import DimProfile
from trtdiag.symbolic import Expr
from trtdiag.symbolic.text import to_text
from trtdiag.verification.facts import Culprit, OutputError, PointResult, Verification


def compiled_json(
    facts: CompilationFacts | None, names: Mapping[str, str], partition: PartitionFacts | None = None
) -> Json:
    """Engines and the comparison with the original; ``null`` where nothing was compiled; ``names`` are for symbols."""
    if facts is None:
        return None
    origins = partition.plan.lowered.origins if partition is not None else {}
    return {
        "engines": [_engine_json(index, engine, origins) for index, engine in enumerate(facts.engines)],
        "verification": None if facts.verification is None else _verification_json(facts.verification, names),
    }


def _engine_json(index: int, engine: EngineFacts, origins: Mapping[str, OpOrigin]) -> Json:
    manifest = engine.manifest
    return {
        "index": index,
        "backend": manifest.backend,
        "target": manifest.target,
        "device": manifest.device,
        "tensorrt": manifest.tensorrt,
        "gpu": manifest.gpu,
        "compute_capability": manifest.compatibility.compute_capability,
        "hardware_compatibility": manifest.compatibility.hardware,
        "version_compatible": manifest.compatibility.versions,
        "ops": engine.ops,
        "layers": None if engine.layers is None else values_json(engine.layers),
        "built": engine_layers_json(engine.built, origins),
        "bytes": engine.engine_bytes,
        "from_cache": engine.saved,
        "network_hash": manifest.network_hash,
        "engine_sha256": manifest.engine_sha256,
        "inputs": [
            {
                "name": port.name,
                "dtype": str(port.dtype).removeprefix("torch."),
                "shape": _shape(port.dims),
                "size": None if port.value is None else to_text(port.value),
                "profile": [_profile_json(profile) for profile in port.profile],
            }
            for port in manifest.inputs
        ],
        "outputs": [
            {"name": out.name, "dtype": str(out.dtype).removeprefix("torch."), "shape": _shape(out.dims)}
            for out in manifest.outputs
        ],
    }


def _shape(dims: Sequence[Expr]) -> Json:
    return [to_text(dim) for dim in dims]


def _profile_json(profile: DimProfile) -> Json:
    return {"min": profile.min, "opt": profile.opt, "max": profile.max}


def _verification_json(found: Verification, names: Mapping[str, str]) -> Json:
    return {
        "passed": found.passed,
        "outcome": outcome(found),
        "difference": _difference(found, names),
        "tolerance": {
            "relative": found.tolerance.relative,
            "absolute": found.tolerance.absolute,
            "why": found.tolerance.why,
        },
        "points": [_point_json(result) for result in found.results],
        "culprit": None if found.culprit is None else _culprit_json(found.culprit),
        "notes": strings(found.notes),
    }


def _difference(found: Verification, names: Mapping[str, str]) -> Json:
    """How it differs, in words; ``null`` where it does not."""
    if outcome(found) != "differs":
        return None
    told = outcome_line(found)
    return told if found.culprit is None else f"{told}; {culprit_line(found.culprit, names)}"


def _point_json(result: PointResult) -> Json:
    return {
        "label": result.point.label,
        "sizes": values_json(result.point.sizes),
        "moved": result.point.moved,
        "passed": result.passed,
        "skipped": result.skipped or None,
        "failed": result.failed or None,
        "unstable": result.unstable or None,
        "outputs": [_output_json(output) for output in result.outputs],
    }


def _output_json(output: OutputError) -> Json:
    return {
        "output": output.output,
        "dtype": output.dtype,
        "shape": list(output.shape),
        "max_abs": _number(output.max_abs),
        "max_rel": _number(output.max_rel),
        "allowed": _number(output.allowed),
        "passed": output.passed,
        "why": output.why or None,
        "moved": None if output.moved is None else _number(output.moved),
    }


def _culprit_json(culprit: Culprit) -> Json:
    origin, since = culprit.origin, culprit.since
    return {
        "engine": culprit.segment,
        "op": None if origin is None else origin.op,
        "node": None if origin is None else origin.node,
        "source": None if origin is None else frame_json(origin.frame),
        "layer": culprit.layer,
        "max_abs": _number(culprit.max_abs),
        "sizes": values_json(culprit.point.sizes),
        "after": None if since is None else {"op": since.op, "node": since.node, "source": frame_json(since.frame)},
        "note": culprit.note or None,
    }


def _number(value: float) -> Json:
    """``null`` for infinity and NaN, which JSON does not have."""
    return value if math.isfinite(value) else None
