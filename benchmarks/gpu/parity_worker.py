"""A process of ``benchmarks/gpu/parity.py``: does the keys that it reads, and prints JSON before and after each."""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "engine" / "tensorrt_backend"))

from gpu_parity import Parity, layer_parity, program_parity, seed_parity
from worker_ready import say_ready

from trtdiag.errors import EngineBuildError, TrtdiagError
from trtdiag.options import CompileOptions

PARTS = {"layer": layer_parity, "network": seed_parity, "program": program_parity}


def done(key: str, options: CompileOptions) -> dict[str, Any]:
    """One row."""
    part, name, precision = key.split(":")
    try:
        found: Parity | None = PARTS[part](name, precision, options)
    except EngineBuildError as error:
        lacks = error.reference in ("layer-missing", "dtype-missing")
        return {"state": "lacking" if lacks else "refused", "note": str(error)[:1500]}
    except TrtdiagError as error:
        return {"state": "error", "note": str(error)[:1500]}
    except Exception as error:  # one case must not end the others
        where = traceback.format_exc().strip().splitlines()[-7:]
        return {"state": "error", "note": f"{type(error).__name__}: {error}"[:800], "where": where}
    if found is None:
        return {"state": "none"}
    return {
        "state": "ok" if found.agrees else "differs",
        "worst": found.worst,
        "tolerance": found.tolerance,
        "wrong": found.wrong,
        "points": found.points,
        "build_s": round(found.build_s, 2),
        "note": "; ".join(found.notes[:3]),
    }


if __name__ == "__main__":
    asked = CompileOptions(sys.argv[1], "tensorrt", optimization_level=int(sys.argv[2]))
    out = sys.stdout
    sys.stdout = sys.stderr  # what libraries print is no row
    say_ready(out, asked)
    for line in sys.stdin:
        key = line.strip()
        print(json.dumps({"begin": key}), file=out, flush=True)
        print(json.dumps({"key": key, **done(key, asked)}), file=out, flush=True)
