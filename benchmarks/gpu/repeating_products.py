"""Large products that repeat an operand on TensorRT, written as they are and as `compile` writes them.

    python benchmarks/gpu/repeating_products.py --json matmul.json

Each runs in a process of its own, since what writes to wrong places may end it.  ``count`` is how many elements of the
result are off, of ``elements``; ``first`` and ``last`` are the first and the last of them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "engine" / "tensorrt_backend"))

import torch
from large_products import CASES, program, results, wrong

from trtdiag.convert.layer_writers import matmul
from trtdiag.convert.writer import Writer
from trtdiag.network.layers.matmul import MatrixMultiply
from trtdiag.network.value import Value
from trtdiag.targets import installed_version

AS_IS, WRITTEN_OUT = "as it is", "written out"
Row = dict[str, Any]


def _as_it_is(write: Writer, layer: MatrixMultiply, left: Value, right: Value) -> Value:
    return write.add(layer, left, right)


def one(name: str, form: str) -> Row:
    """A case, here."""
    if form == AS_IS:
        matmul._multiplied = _as_it_is
    module, compiled = program(name)
    actual, expected = results(name, module, compiled)
    found = wrong(actual, expected)
    return {"elements": actual.numel(), "bytes": actual.nbytes, **found._asdict()}


def run(name: str, form: str, most_s: float) -> Row:
    """A case in a process of its own."""
    command = [sys.executable, str(Path(__file__).resolve()), "--case", name, "--form", form]
    row: Row = {"case": name, "form": form}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=most_s, check=False)
    except subprocess.TimeoutExpired:
        return {**row, "ended": f"not within {most_s:.0f} s"}
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "CUDA error" in line]
        return {**row, "ended": f"exit {done.returncode}: {(errors or ['no CUDA error'])[-1][:200]}"}
    return {**row, **json.loads(done.stdout.strip().splitlines()[-1])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=5, help="at once; each takes up to 16 GiB of the GPU")
    parser.add_argument("--case-s", type=float, default=150.0, help="longest time of one")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--case", choices=sorted(CASES), help=argparse.SUPPRESS)
    parser.add_argument("--form", choices=(AS_IS, WRITTEN_OUT), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.case:
        print(json.dumps(one(asked.case, asked.form)))
        return
    with ThreadPoolExecutor(asked.workers) as pool:
        begun = [pool.submit(run, name, form, asked.case_s) for form in (AS_IS, WRITTEN_OUT) for name in CASES]
        rows = [future.result() for future in begun]
    for row in rows:
        print(row)
    if asked.json:
        machine = {
            "gpu": torch.cuda.get_device_name(),
            "tensorrt": installed_version(),
            "torch": torch.__version__,
        }
        told = {"machine": {**machine, "command": " ".join(sys.argv)}, "rows": rows}
        asked.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
