"""The processes of ``benchmarks/gpu/speed.py``: each says rows of JSON, and is asked for more."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, ClassVar

Row = dict[str, Any]


class Child:
    """A process whose lines of standard output are JSON."""

    everyone: ClassVar[list[Child]] = []

    def __init__(self, command: list[str], log: Any, environment: dict[str, str]) -> None:
        self.kind = next(Path(part).stem.removeprefix("speed_") for part in command if part.endswith(".py"))
        self.is_ready = False
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            bufsize=1,
            env={**os.environ, **environment},
        )
        self._rows: SimpleQueue[Row] = SimpleQueue()
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()
        Child.everyone.append(self)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                self._rows.put(json.loads(line))

    @property
    def is_alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def heard(self) -> Iterator[Row]:
        """What it said since."""
        if not self.is_alive:
            self._reader.join(5)
        while True:
            try:
                yield self._rows.get_nowait()
            except Empty:
                return

    def ask(self, row: Row, seconds: float) -> Row | None:
        """Its answer; ``None`` where none came in time, and then it is ended."""
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(row) + "\n")
            self._process.stdin.flush()
            return self._rows.get(timeout=seconds)
        except (Empty, OSError):
            self.stop()
            return None

    def last(self, event: str, seconds: float, *, stop: bool = True) -> Row | None:
        """What it says of this when nothing more is asked; then it is ended, if it is to ``stop``."""
        try:
            assert self._process.stdin is not None
            if not self._process.stdin.closed:
                self._process.stdin.close()
            ends = time.monotonic() + seconds
            while True:
                row = self._rows.get(timeout=max(0.1, ends - time.monotonic()))
                if row["event"] == event:
                    return row
        except (Empty, OSError):
            stop = True
            return None
        finally:
            if stop:
                self.stop()

    def stop(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()

    @classmethod
    def stop_all(cls) -> None:
        """End what still runs."""
        for child in cls.everyone:
            child.stop()
