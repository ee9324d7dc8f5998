"""A fork server from the outside: started, given cases, started again when it was killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trtdiag.errors import PlatformError
from trtdiag.fleet.digests import of_tool
from trtdiag.fleet.facts import FORMS, KILLED, Case
from trtdiag.fleet.programs import MARK
from trtdiag.fleet.store import folder_of, keeping

_PASSED_ON = ("CUDA_VISIBLE_DEVICES",)
"""What Ray sets for a task that is to have a GPU."""
_BAR = {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}


_KILLED: Mapping[str, Any] = {"state": KILLED, "step": "", "signal": 9, "code": 0, "seconds": 0.0}


class ServerClient:
    """One fork server, started when it is needed."""

    def __init__(self) -> None:
        self._server: subprocess.Popen[bytes] | None = None

    def run(self, job: Mapping[str, Any]) -> Mapping[str, Any]:
        """Run a case; gives how it ended, as ``fork_server`` says it.

        Raises:
            PlatformError: ``sweep-folder-not-shared``, ``sweep-worker-failed``, and what a case refuses to run for.
        """
        root = Path(job["root"])
        if not (root / MARK).is_file():
            raise PlatformError(
                f"a worker does not see the folder of the sweep, {root}",
                because=f"{MARK} is not in it on {os.uname().nodename}",
                fix="name a folder that all machines of the cluster have at the same place",
                reference="sweep-folder-not-shared",
            )
        server = self._server or self._started()
        if server is None:  # it was killed before it was there
            return _KILLED
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        line = json.dumps({**job, "environment": environment}).encode() + b"\n"
        try:
            assert server.stdin is not None
            server.stdin.write(line)
            server.stdin.flush()
        except OSError:
            answer = b""
        else:
            answer = self._line(server)
        if not answer:  # somebody killed the server, and with it the case
            self.close()
            return _KILLED
        found: dict[str, Any] = json.loads(answer)
        if found["refused"]:
            raise PlatformError(**found["refused"])
        return found

    def _started(self) -> subprocess.Popen[bytes] | None:
        command = [sys.executable, "-m", "trtdiag.fleet.fork_server"]
        path = os.pathsep.join(filter(None, [_own_folder(), os.environ.get("PYTHONPATH", "")]))
        self._server = server = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **_BAR, "PYTHONPATH": path},
        )
        if b"ready" not in self._line(server):
            code = server.wait()
            self.close()
            if code == -signal.SIGKILL:
                return None
            raise PlatformError(
                "the process that runs programs did not start",
                because=f"{' '.join(command)} ended with {code}",
                fix="run that command, and mend what it says",
                reference="sweep-worker-failed",
            )
        return server

    @staticmethod
    def _line(server: subprocess.Popen[bytes]) -> bytes:
        assert server.stdout is not None
        return server.stdout.readline()

    def close(self) -> None:
        """End the server, and what it runs."""
        server, self._server = self._server, None
        if server is None:
            return
        for stream in (server.stdin, server.stdout):
            if stream is not None:
                try:
                    stream.close()
                except OSError:  # what was not written yet has no reader
                    continue
        server.kill()
        server.wait()


def job_of(root: Path, case: Case, missing: list[str]) -> dict[str, Any]:
    """A case as a fork server takes it; what it prints goes beside the first step that is to be done.

    Raises:
        PlatformError: ``sweep-not-writable``.
    """
    folder = folder_of(root, missing[0])
    with keeping(root):
        folder.mkdir(parents=True, exist_ok=True)
    return {
        "root": str(root),
        "case": FORMS.written(Case, case),
        "missing": missing,
        "folder": os.getcwd(),
        "output": str(folder / "output.txt"),
        "limit_s": case.time_limit_s,
        "tool": of_tool(),
        "elsewhere": False,
    }


def _own_folder() -> str:
    """Where this trtdiag is, for a process that is started elsewhere."""
    return str(Path(__file__).resolve().parents[2])
