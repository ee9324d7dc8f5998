"""Rows of a sweep, made by hand: as many as are asked for, of every state."""

from __future__ import annotations

from dataclasses import replace

from trtdiag.fleet.facts import Built, Diagnosis, Failure, FixedDims, Hit, LeftOp, Measured
from trtdiag.fleet.rows import STATES, Row

ERROR = Hit("GRD301", "guard-breaks-range", "error", "guard h == 2*(h // 2) breaks the declared range of h", "a1")
WARNING = Hit("OPS501", "no-converter", "warning", "aten.sort stays with PyTorch: it has no converter", "b2")
NOTE = Hit("SYM201", "unbounded", "info", "batch has no largest size", "c3")
DIAGNOSIS = Diagnosis(
    status="warning",
    text="1 warning: OPS501 aten.sort stays with PyTorch: it has no converter",
    findings=(WARNING, NOTE),
    engines=2,
    ops=120,
    ops_in_engines=118,
    left=(LeftOp("aten.sort.default", "no-converter", "it has no converter", 2, 1),),
    dims=4,
    dynamic_dims=2,
    wrong_dims=0,
    declare="",
    program_bytes=1_200_000,
    weight_bytes=1_000_000,
    live_bytes=None,
)
FAILURE = Failure("crashed", "its process was ended in compile", "signal 11 ended it: a library crashed", "run it", "x")
ROW = Row(
    program="models/net.pt2",
    source="models/net.pt2",
    target="11.4",
    precision="keep",
    gpu="",
    gpu_type="",
    state="warning",
    text=DIAGNOSIS.text,
    steps={"analyze": "done"},
    keys={"analyze": "0" * 32},
    failure=None,
    diagnosis=DIAGNOSIS,
    fixed=None,
    built=None,
    compared=None,
    reports={"analyze": f"steps/{'0' * 32}/report.html"},
)
BUILT = Built("reference", 2, 1_100_000, "agrees", "net_trt.pt2", 2_000_000)
FIXED = FixedDims("changed", "h must change: proven", True, ("h: 1..9 -> 2*_h, _h: 1..4",), "net.fixed.pt2")
TIMES = {"analyze": Measured(1.5, 1.2, 310.0, "here"), "bench": Measured(3.0, 2.5, 410.0, "here", ms={"trtdiag": 0.5})}


def row_in(state: str, name: str) -> Row:
    """A row that ended so."""
    row = replace(ROW, program=name, source=name, state=state)
    if state == "clean":
        return replace(row, text="No findings", diagnosis=replace(DIAGNOSIS, status="clean", findings=(), left=()))
    if state in ("error", "incomplete", "differs", "warning"):
        found = replace(DIAGNOSIS, findings=(ERROR, WARNING), wrong_dims=1) if state == "error" else DIAGNOSIS
        fixed = {"fixed": FIXED, "keys": {"fix-dims": "f" * 32}} if state == "error" else {}
        return replace(row, diagnosis=found, **fixed)  # type: ignore[arg-type]  # by name
    return replace(row, diagnosis=None, failure=FAILURE, text=FAILURE.message, reports={})


def many(count: int) -> list[Row]:
    """So many rows, of every state in turn, with names as long as those of real models."""
    return [row_in(STATES[at % len(STATES)], f"models/family_{at % 37}/network_{at:04}.pt2") for at in range(count)]
