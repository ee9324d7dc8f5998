"""What building engines costs: one or several at once, with what was measured before, from the engine cache.

    python benchmarks/gpu/builds.py --limit-s 300 --json builds.json
    python benchmarks/gpu/builds.py --only 'cache|interrupt'

``jobs`` builds four convolutional networks with 1, 2 and 4 at once, and times the engines: kernels that were chosen
while another build measured, too, may be slower.  ``cache`` builds them with an empty and then with a filled timing
cache, and takes them from the engine cache.  ``compatible`` builds for other GPUs and versions.  ``threads`` says in
which threads TensorRT's lines come, and whether Python runs meanwhile.  ``interrupt`` sends Ctrl-C to a command that
builds.  Each runs in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

PARTS = ("threads", "cache-1", "compatible", "jobs-0", "jobs-1", "interrupt", "cache-3", "jobs-3")
Row = dict[str, Any]
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def interrupt(seconds: float) -> Row:
    """Ctrl-C so many seconds after a command began to build, as at a terminal: its bar is read meanwhile."""
    code = "import sys; from trtdiag.cli.main import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", code, "compile", "builds_parts:large_program", "--backend", "tensorrt"]
    command += ["--optimization-level", "5", "--no-verify", "--no-html"]
    here = Path(__file__).resolve()
    environment = dict(os.environ, TERM="xterm", COLUMNS="110")
    paths = [str(here.parents[2]), str(here.parent), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    terminal, there = pty.openpty()
    told = bytearray()
    with TemporaryDirectory() as folder:
        child = subprocess.Popen(command, cwd=folder, env=environment, stdout=there, stderr=there)
        os.close(there)
        reader = threading.Thread(target=_read, args=(terminal, told), daemon=True)
        reader.start()
        begun = time.monotonic()
        while b"TensorRT builds" not in told and child.poll() is None and time.monotonic() < begun + 90:
            time.sleep(0.05)
        waited = time.monotonic() - begun
        time.sleep(seconds)
        sent = time.monotonic()
        child.send_signal(signal.SIGINT)
        try:
            child.wait(60)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        took = round(time.monotonic() - sent, 2)
        reader.join(5)
    shown = _ESCAPES.sub("", told.decode(errors="replace")).replace("\r", "\n")
    lines = list(dict.fromkeys(line.rstrip() for line in shown.splitlines() if line.strip()))
    return {"begun_s": round(waited, 1), "exit": child.returncode, "ends_s": took, "lines": lines[-12:]}


def _read(terminal: int, told: bytearray) -> None:
    while True:
        try:
            part = os.read(terminal, 4096)
        except OSError:  # the other end was closed
            return
        if not part:
            return
        told += part


def run(part: str, most_s: float) -> Row:
    """One part in a process of its own."""
    command = [sys.executable, str(Path(__file__).with_name("builds_parts.py")), part]
    begun = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=most_s, check=False)
        code, out, err = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as error:
        code, out, err = None, _text(error.stdout), _text(error.stderr)
    rows = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    return {
        "part": part,
        "exit": code,
        "wall_s": round(time.monotonic() - begun, 1),
        "rows": rows,
        "err": "" if code == 0 else err[-4000:],
    }


def _text(said: str | bytes | None) -> str:
    return said.decode(errors="replace") if isinstance(said, bytes) else said or ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="regular expression of the parts to run")
    parser.add_argument("--limit-s", type=float, default=300, help="begin no part after that")
    parser.add_argument("--part-s", type=float, default=120, help="longest time of one part")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    begun = time.monotonic()
    found: list[Row] = []
    for part in PARTS:
        left = asked.limit_s - (time.monotonic() - begun)
        if not re.search(asked.only, part) or left < 5:
            continue
        if part == "interrupt":
            row = {"part": part, "rows": [interrupt(3.0)], "err": ""}
        else:
            row = run(part, min(asked.part_s, left))
        found.append(row)
        print(f"--- {part}: exit {row.get('exit')}, {row.get('wall_s', '')} s")
        for one in row["rows"]:
            print(json.dumps(one))
        if row["err"]:
            print(row["err"])
        sys.stdout.flush()
        if asked.json:
            asked.json.write_text(
                json.dumps({"command": " ".join(sys.argv), "parts": found}, indent=1), encoding="utf-8"
            )


if __name__ == "__main__":
    main()
