"""A process that has imported torch and trtdiag, and forks one for each case: an import takes longer than a small case.

    python -m trtdiag.fleet.fork_server

Cases come as lines of JSON on standard input, and a line of JSON on standard output says how each ended.  It has one
thread and computes nothing, so that a copy of it can do everything.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from trtdiag.errors import PlatformError
from trtdiag.fleet.facts import CRASHED, DONE, KILLED, TIMED_OUT
from trtdiag.fleet.orphans import end_with_parent
from trtdiag.fleet.store import keeping

FINISHED, REFUSED = "finished", "refused "
_POLL_S = 0.05


def main() -> None:
    """Serve until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what is printed while modules are imported is no answer
    run_job = _prepared()
    _say(answers, {"ready": os.getpid()})
    waiting = b""
    while True:
        got = os.read(0, 1 << 20)
        if not got:
            return
        *lines, waiting = (waiting + got).split(b"\n")
        for line in lines:
            _say(answers, _served(line.decode(), run_job))


def _prepared() -> Callable[[str, Callable[[str], None]], None]:
    """Import what cases need, once, and leave it out of the collections of garbage in every copy."""
    from trtdiag.fixdims.child_export import import_for_exports
    from trtdiag.fleet.case_run import run_job

    import_for_exports()
    gc.collect()
    gc.freeze()
    return run_job


def _say(answers: object, answer: dict[str, object]) -> None:
    print(json.dumps(answer), file=answers, flush=True)  # type: ignore[call-overload]


def _served(line: str, run_job: Callable[[str, Callable[[str], None]], None]) -> dict[str, object]:
    """Run a case in a process of its own; how that ended, in which step, what it took, and why it was refused."""
    job = json.loads(line)
    told, tell = os.pipe()
    parent = os.getpid()
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        os.close(told)
        _work(line, tell, job["output"], parent, run_job)
    os.close(tell)
    with suppress(ProcessLookupError, PermissionError):  # it does so, too: whichever comes first
        os.setpgid(child, child)
    status, late = _waited(child, began + job["limit_s"])
    _end(child)  # what it started and left behind
    with os.fdopen(told, "rb") as pipe:
        os.set_blocking(told, False)
        words = (pipe.read() or b"").decode(errors="replace").splitlines()
    steps = [word for word in words if word != FINISHED and not word.startswith(REFUSED)]
    refused = [json.loads(word.removeprefix(REFUSED)) for word in words if word.startswith(REFUSED)]
    state = TIMED_OUT if late else _state(status, finished=FINISHED in words)
    return {
        "state": state,
        "step": steps[-1] if steps else "",
        "signal": -status if status < 0 else 0,
        "code": max(status, 0),
        "seconds": time.monotonic() - began,
        "refused": refused[0] if refused else None,
    }


def _state(status: int, *, finished: bool) -> str:
    if status == -signal.SIGKILL:
        return KILLED
    return DONE if finished and status == 0 else CRASHED


def _waited(child: int, end: float) -> tuple[int, bool]:
    """How a child ended (a code, or minus the signal), and whether it was for its limit; with it ends who asked."""
    late = False
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status), late
        ready, _, _ = select.select([0], [], [], _POLL_S)
        gone = bool(ready) and not os.read(0, 1)
        if gone or time.monotonic() > end:
            late = True
            _end(child)
            if gone:
                os._exit(0)


def _end(child: int) -> None:
    """End a process with all that it started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)


def _work(
    line: str, tell: int, output: str, parent: int, run_job: Callable[[str, Callable[[str], None]], None]
) -> NoReturn:
    """What the forked process does; it ends here."""
    code = 1
    try:
        os.setpgid(0, 0)
        end_with_parent(parent)
        with keeping(Path(output).parent):
            printed = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, place in ((0, nothing), (1, printed), (2, printed)):
            os.dup2(place, number)
        run_job(line, lambda key: _tell(tell, key))
        _tell(tell, FINISHED)
        code = 0
    except PlatformError as error:  # this machine lacks something: it says nothing of the program
        told = {name: getattr(error, name) for name in ("message", "because", "fix", "reference")}
        _tell(tell, REFUSED + json.dumps(told))
    except BaseException:  # a fault of ours, which its output tells
        import traceback

        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _tell(pipe: int, word: str) -> None:
    os.write(pipe, f"{word}\n".encode())


if __name__ == "__main__":
    main()
