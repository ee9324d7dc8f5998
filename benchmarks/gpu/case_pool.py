"""Cases in processes: one that dies takes only its case with it, and none begins after a time limit."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Timer
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True)
class Pool:
    """Processes that read keys, one a line, and answer each with two lines of JSON: one before, one after.

    Attributes:
        command: Starts one.
        workers: How many at once.
        limit_s: No case begins after that.
        case_s: Longest time of one case.
        log: Where their errors go.
        rows_file: Where each row goes as it comes, one JSON a line: what there is when the whole is ended from outside.
    """

    command: Sequence[str]
    workers: int
    limit_s: float
    case_s: float
    log: Path | None = None
    rows_file: Path | None = None

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
        while time.monotonic() < ends:
            try:
                first = waiting.get_nowait()
            except Empty:
                break
            rows += self._one_process(first, waiting, ends)
        return rows

    def _one_process(self, first: str, waiting: SimpleQueue[str], ends: float) -> list[Row]:
        log = open(self.log, "ab") if self.log else subprocess.DEVNULL  # noqa: SIM115  # it is the child's
        child = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, bufsize=1
        )
        assert child.stdin is not None
        assert child.stdout is not None
        rows: list[Row] = []
        key = first
        while True:
            timer = Timer(min(self.case_s, max(1.0, ends - time.monotonic())), child.kill)
            timer.start()
            try:
                child.stdin.write(key + "\n")
                child.stdin.flush()
                child.stdout.readline()
                answer = child.stdout.readline()
            except BrokenPipeError:
                answer = ""
            timer.cancel()
            if not answer:
                if time.monotonic() < ends:  # else it was ended here
                    rows.append({"key": key, "state": "died", "note": f"exit code {child.wait()}"})
                break
            rows.append(json.loads(answer))
            if self.rows_file is not None:
                with open(self.rows_file, "a", encoding="utf-8") as file:
                    file.write(answer)  # one short write: lines of threads do not mix
            if time.monotonic() > ends:
                break
            try:
                key = waiting.get_nowait()
            except Empty:
                break
        child.stdin.close()
        child.kill()
        child.wait()
        return rows


def rows_file(whole: Path | None) -> Path | None:
    """Where rows go while the file of all of them is not there yet."""
    if whole is None:
        return None
    rows = whole.with_suffix(".rows.jsonl")
    rows.unlink(missing_ok=True)
    return rows
