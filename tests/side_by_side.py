"""Runs tests in several processes that are forks of the one that collected them.

Processes that each import torch and collect all tests, as those of pytest-xdist, spend half a minute apiece on it.  The
tests of a file stay together, for they share what they export and compile.
"""

from __future__ import annotations

import os
import traceback
import warnings
from itertools import groupby
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any

import pytest

_WIDTH = 4
"""Bytes of the number of a file, in the pipe that hands files out."""


class _Told:
    """What tests tell the process that writes it down: a plugin of those that run them."""

    def __init__(self, config: pytest.Config, told: Connection) -> None:
        self._config, self._told = config, told

    def pytest_runtest_logstart(self, nodeid: str, location: tuple[str, int | None, str]) -> None:
        self._told.send(("started", nodeid, location))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._told.send(("report", data))

    def pytest_runtest_logfinish(self, nodeid: str, location: tuple[str, int | None, str]) -> None:
        self._told.send(("finished", nodeid, location))

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str, location: Any
    ) -> None:
        if when != "runtest":
            return  # the process that collected has written it down
        plain = warnings.WarningMessage(
            f"{warning_message.category.__name__}: {warning_message.message}",
            Warning,
            warning_message.filename,
            warning_message.lineno,
        )
        self._told.send(("warning", plain, when, nodeid, location))


class SideBySide:
    """A plugin that runs the tests of a session in ``jobs`` processes."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs

    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.testsfailed or session.config.option.collectonly:
            return None  # pytest itself says so
        files = [list(items) for _, items in groupby(session.items, lambda item: item.nodeid.partition("::")[0])]
        alone = [items for items in files if any(item.get_closest_marker("budget") for item in items)]
        self._run_all(session, alone, 1)  # what takes so long with nothing beside it
        self._run_all(session, [items for items in files if items not in alone], self._jobs)
        return True

    def _run_all(self, session: pytest.Session, files: list[list[pytest.Item]], jobs: int) -> None:
        config = session.config
        # Before the forks: all of them make their folders in this one.
        config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.showfspath = False  # the files of several processes would take turns
        order, orders_end = os.pipe()
        runs: dict[Connection, int] = {}
        try:
            for _ in range(min(jobs, len(files))):
                told, tells = Pipe(duplex=False)
                child = os.fork()
                if child == 0:
                    os.close(orders_end)
                    _run(session, files, order, tells)
                tells.close()
                runs[told] = child
            with os.fdopen(orders_end, "wb") as orders:
                orders.write(b"".join(at.to_bytes(_WIDTH, "big") for at in range(len(files))))
            self._listen(session, runs, order)
        finally:
            os.close(order)
            for told, child in runs.items():
                told.close()
                os.kill(child, 9)  # it was interrupted, or it has nothing left to do
                os.waitpid(child, 0)

    def _listen(self, session: pytest.Session, runs: dict[Connection, int], order: int) -> None:
        """Write down what the processes tell, until each has said that it is done."""
        listening, running = list(runs), dict.fromkeys(runs, "")
        while listening:
            for told in wait(listening):
                assert isinstance(told, Connection)
                try:
                    kind, *rest = told.recv()
                except EOFError:
                    kind, rest = "done", [f"the process that ran {running[told] or 'tests'} was ended"]
                if kind == "done":
                    listening.remove(told)
                    if rest[0]:
                        session.shouldfail = rest[0]
                elif kind == "started":
                    running[told] = rest[0]
                _tell(session.config, kind, rest)
            if session.shouldfail or session.shouldstop:
                while os.read(order, 1 << 16):  # what nobody took stays undone
                    pass
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)


def _tell(config: pytest.Config, kind: str, rest: list[Any]) -> None:
    hook = config.hook
    if kind == "started":
        hook.pytest_runtest_logstart(nodeid=rest[0], location=rest[1])
    elif kind == "finished":
        hook.pytest_runtest_logfinish(nodeid=rest[0], location=rest[1])
    elif kind == "report":
        hook.pytest_runtest_logreport(report=hook.pytest_report_from_serializable(config=config, data=rest[0]))
    elif kind == "warning":
        message, when, nodeid, location = rest
        hook.pytest_warning_recorded.call_historic(
            kwargs={"warning_message": message, "when": when, "nodeid": nodeid, "location": location}
        )


def _run(session: pytest.Session, files: list[list[pytest.Item]], order: int, tells: Connection) -> None:
    """In the new process, which must never come back: run files until none is left."""
    why = ""
    try:
        config, plugins = session.config, session.config.pluginmanager
        # Where they write is shared with the other processes.
        capture = plugins.get_plugin("capturemanager")
        if capture is not None:
            capture.stop_global_capturing()
            capture.start_global_capturing()
        plugins.unregister(name="terminalreporter")
        plugins.register(_Told(config, tells))
        items = (item for at in iter(lambda: os.read(order, _WIDTH), b"") for item in files[int.from_bytes(at, "big")])
        item = next(items, None)
        while item is not None and not (session.shouldfail or session.shouldstop):
            # What comes next says what a test leaves standing.
            after = next(items, None)
            config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            item = after
    except BaseException:
        why = traceback.format_exc()
    finally:
        tells.send(("done", why))
        os._exit(0)
