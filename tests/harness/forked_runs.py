"""Programs in processes of their own that begin with torch imported: each costs a fork, and not an import."""

from __future__ import annotations

import faulthandler
import os
import subprocess
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NoReturn

LIMIT_S = 300


def run_forked(code: str, *arguments: str, cwd: Path, limit_s: float = LIMIT_S) -> subprocess.CompletedProcess[str]:
    """What ``python -c CODE ARGUMENTS`` does in the folder ``cwd``, until the last that has its streams is gone.

    Not for what a fresh interpreter does: modules are imported already, and nothing registered with ``atexit`` is
    called.
    """
    (out, outs_end), (err, errs_end) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        _run(outs_end, errs_end, code, arguments, cwd)
    os.close(outs_end)
    os.close(errs_end)
    limit = threading.Timer(limit_s, os.kill, (child, 9))
    limit.start()
    with ThreadPoolExecutor(2) as pool, os.fdopen(out) as output, os.fdopen(err) as errors:
        texts = list(pool.map(lambda stream: stream.read(), (output, errors)))
    _, status = os.waitpid(child, 0)
    limit.cancel()
    return subprocess.CompletedProcess(["-c", code, *arguments], os.waitstatus_to_exitcode(status), *texts)


def _run(out: int, err: int, code: str, arguments: tuple[str, ...], cwd: Path) -> NoReturn:
    """In the new process, which must never come back to the tests."""
    ended = 1
    try:
        faulthandler.disable()  # it writes to where the tests' own errors go
        os.dup2(out, 1)
        os.dup2(err, 2)
        os.close(out)
        os.close(err)
        sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
        os.chdir(cwd)
        sys.path.insert(0, str(cwd))
        sys.argv = ["-c", *arguments]
        exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
        ended = 0
    except SystemExit as error:
        ended = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(ended)
