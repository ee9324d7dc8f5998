"""Cases in processes: one that dies takes only its case with it, and none begins after a time limit."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Timer
from typing import Any

Row = dict[str, Any]
Process = subprocess.Popen[str]
_MOST_UNREADY = 3
"""Own choice: what does not start three times will not start."""


@dataclass(frozen=True)
class Pool:
    """Processes that say that they are ready, read keys, one a line, and answer each with two lines of JSON.

    The first of the two comes before the case, the other after it.

    Attributes:
        command: Starts one.
        workers: How many at once.
        limit_s: No case begins after that.
        case_s: Longest time of one case; a process that starts has not begun one.
        log: Where their errors go.
        rows_file: Where each row goes as it comes, one JSON a line: what there is when the whole is ended from outside.
    """

    command: Sequence[str]
    workers: int
    limit_s: float
    case_s: float
    log: Path | None = None
    rows_file: Path | None = None
    start_s: float = 180.0
    """Longest time until a process is ready: 25 that start CUDA at once took more than a minute (H200, 16 cores)."""

    def rows(self, keys: Sequence[str]) -> list[Row]:
        """What the processes answer; a key that was not reached is ``not run``, the first keys come first."""
        waiting: SimpleQueue[str] = SimpleQueue()
        for key in keys:
            waiting.put(key)
        ends = time.monotonic() + self.limit_s
        with ThreadPoolExecutor(self.workers) as threads:
            futures = [threads.submit(self._work, waiting, ends) for _ in range(self.workers)]
            rows = [row for future in futures for row in future.result()]
        known = {row["key"] for row in rows}
        return rows + [{"key": key, "state": "not run"} for key in keys if key not in known]

    def _work(self, waiting: SimpleQueue[str], ends: float) -> list[Row]:
        rows: list[Row] = []
        unready = 0
        while time.monotonic() < ends and not waiting.empty() and unready < _MOST_UNREADY:
            done = self._one_process(waiting, ends)
            unready = unready + 1 if done is None else 0
            rows += done or []
        return rows

    def _one_process(self, waiting: SimpleQueue[str], ends: float) -> list[Row] | None:
        """The rows of a process until it ends or nothing waits; ``None`` where it did not become ready."""
        log = open(self.log, "ab") if self.log else subprocess.DEVNULL  # noqa: SIM115  # it is the child's
        child = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, bufsize=1
        )
        assert child.stdin is not None
        if not self._heard(child, min(self.start_s, ends - time.monotonic()), 1):
            _end(child)
            return None
        rows: list[Row] = []
        while time.monotonic() < ends:
            try:
                key = waiting.get_nowait()
            except Empty:
                break
            answer = ""
            with suppress(BrokenPipeError):
                child.stdin.write(key + "\n")
                child.stdin.flush()
                answer = self._heard(child, min(self.case_s, ends - time.monotonic()), 2)
            if not answer:
                if time.monotonic() < ends:  # else it was ended here
                    rows.append({"key": key, "state": "died", "note": f"exit code {child.wait()}"})
                break
            rows.append(json.loads(answer))
            if self.rows_file is not None:
                with open(self.rows_file, "a", encoding="utf-8") as file:
                    file.write(answer)  # one short write: lines of threads do not mix
        _end(child)
        return rows

    def _heard(self, child: Process, within_s: float, lines: int) -> str:
        """The last of some lines; nothing where the process ends, or is ended because they take too long."""
        assert child.stdout is not None
        timer = Timer(max(1.0, within_s), child.kill)
        timer.start()
        heard = [child.stdout.readline() for _ in range(lines)]
        timer.cancel()
        return heard[-1]


def _end(child: Process) -> None:
    assert child.stdin is not None
    with suppress(BrokenPipeError):
        child.stdin.close()
    child.kill()
    child.wait()


def rows_file(whole: Path | None) -> Path | None:
    """Where rows go while the file of all of them is not there yet."""
    if whole is None:
        return None
    rows = whole.with_suffix(".rows.jsonl")
    rows.unlink(missing_ok=True)
    return rows
