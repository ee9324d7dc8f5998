"""What TensorRT refuses, as a user sees it: the terminal's text of every refusal on purpose.

    python benchmarks/gpu/refusals.py --json refusals.json --limit-s 300
    python benchmarks/gpu/refusals.py --only 'memory|cli'

Each case runs in a process of its own: one that dies or hangs takes only itself.  ``refused`` is a case that gives an
error whose text names what it should (op and line, or the input), ``silent`` one whose text does not, ``built`` one
that TensorRT takes after all, ``crashed`` one that ends without an error of trtdiag.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "engine" / "tensorrt_backend"))

from refusal_networks import REFUSALS

ROOT = Path(__file__).resolve().parents[2]


def _without_library(folder: str) -> dict[str, str]:
    """The environment of a TensorRT whose libraries are gone: a copy of its package without them comes first.

    The package loads what lies beside it, wherever else libraries are looked for.
    """
    found = importlib.util.find_spec("tensorrt")
    if found is None or found.origin is None:
        raise SystemExit("TensorRT's package is not installed: nothing can be refused by it")
    package = Path(folder) / "without_library" / "tensorrt"
    libraries = shutil.ignore_patterns("libnv*", "__pycache__")
    shutil.copytree(Path(found.origin).parent, package, ignore=libraries)
    folders = [name for name in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if name]
    kept = [name for name in folders if not list(Path(name).glob("libnvinfer*"))]
    return {"PYTHONPATH": str(package.parent), "LD_LIBRARY_PATH": os.pathsep.join(kept)}


def _changed(**environment: str) -> Callable[[str], dict[str, str]]:
    return lambda folder: environment


COMPILE = ("compile", "refusal_program:on_gpu", "--backend", "tensorrt", "--no-html", "--no-verify", "-o", "out.ep")
COMMANDS: dict[str, tuple[tuple[str, ...], Callable[[str], dict[str, str]], str]] = {
    # arguments after COMPILE, the environment in a folder, what the text must name
    "cli-no-gpu": ((), _changed(CUDA_VISIBLE_DEVICES=""), "no-gpu"),
    "cli-no-library": ((), _without_library, "tensorrt-libraries"),
    "cli-other-target": (("--target", "11.4"), _changed(), "engine-target"),
    "cli-no-workspace": (("--workspace-mib", "0", "--optimization-level", "1"), _changed(), ""),
    "cli-other-hardware": (
        ("--hardware-compatibility", "same-compute-capability"),
        _changed(),
        "hardware-compatibility",
    ),
    "cli-cache-is-a-file": (("--engine-cache", __file__), _changed(), "engine-cache-folder"),
    "cli-unknown-tactics": ((), _changed(TRTDIAG_TACTIC_SOURCES="CUDNN,JIT"), "'JIT'"),
}
Row = dict[str, Any]


def one(name: str) -> int:
    """Run a case here, print the error as the command line would, and give its exit code."""
    from gpu_refusals import refusal_of

    from trtdiag.cli.error_output import show

    error = refusal_of(REFUSALS[name])
    if error is None:
        print("TensorRT took it")
        return 0
    return show(error, debug=False)


def run(name: str, most_s: float, ends: float) -> Row:
    """A case in a process of its own."""
    begun = time.monotonic()
    if ends - begun < 5:
        return {"key": name, "state": "not run", "text": ""}
    most_s = min(most_s, ends - begun)
    environment = dict(os.environ, OMP_NUM_THREADS="2", PYTHONUNBUFFERED="1")
    with TemporaryDirectory() as folder:
        if name in COMMANDS:
            more, changes, names = COMMANDS[name]
            changed = dict(changes(folder))
            first = changed.pop("PYTHONPATH", "")
            environment.update(changed)
            paths = [first, str(ROOT), str(Path(__file__).parent), environment.get("PYTHONPATH", "")]
            environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
            call = "import sys; from trtdiag.cli.main import main; main(sys.argv[1:])"
            command = [sys.executable, "-c", call, *COMPILE, *more]
        else:
            names = REFUSALS[name].names
            command = [sys.executable, str(Path(__file__).resolve()), "--case", name]
        try:
            done = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, text=True, timeout=most_s, check=False
            )
            code, out, text = done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired as error:
            code, out, text = None, "", f"no end after {most_s:.0f} s: {error.stderr!r}"
    row = {"key": name, "state": state(code, text, names), "exit": code, "names": names, "text": text, "out": out}
    row["note"] = REFUSALS[name].note if name in REFUSALS else ""
    row["wall_s"] = round(time.monotonic() - begun, 1)
    return row


def state(code: int | None, text: str, names: str) -> str:
    """What became of a case."""
    if code == 0:
        return "built"
    # Libraries may have warned before.
    if code is None or "Traceback" in text or not re.search("^error: ", text, re.MULTILINE):
        return "crashed"
    return "refused" if names in text else "silent"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="regular expression of the cases to run")
    parser.add_argument("--limit-s", type=float, default=300, help="begin no case after that")
    parser.add_argument("--case-s", type=float, default=90, help="longest time of one case")
    parser.add_argument("--workers", type=int, default=5, help="cases at once, but for those that fill the memory")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--case", choices=sorted(REFUSALS), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.case:
        sys.exit(one(asked.case))
    ends = time.monotonic() + asked.limit_s
    names = [name for name in [*REFUSALS, *COMMANDS] if re.search(asked.only, name)]
    # Those that fill the GPU's memory come alone, after the others.
    alone = [name for name in names if name.startswith("memory-")]
    rows: list[Row] = []
    with ThreadPoolExecutor(asked.workers) as pool:
        begun = [pool.submit(run, name, asked.case_s, ends) for name in names if name not in alone]
        for future in as_completed(begun):
            _told(future.result(), rows, asked.json)
    for name in alone:
        _told(run(name, asked.case_s, ends), rows, asked.json)
    print(Counter(row["state"] for row in rows))


def _told(row: Row, rows: list[Row], path: Path | None) -> None:
    rows.append(row)
    name = row["key"]
    print(f"--- {name}: {row['state']} (exit {row.get('exit')}, {row.get('wall_s', 0)} s; {row.get('note', '')})")
    print(row["text"] or row.get("out", ""), flush=True)
    if path:
        path.write_text(json.dumps({"command": " ".join(sys.argv), "rows": rows}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
