"""What Ray's own processes say of workers that died goes to a logger, and not between what a sweep prints."""

from __future__ import annotations

import importlib.util
import logging
import subprocess
import sys
import threading
from pathlib import Path

import click
import pytest

from trtdiag.cli.warning_output import told_if_verbose
from trtdiag.fleet.cluster import RAYLETS

ROOT = Path(__file__).resolve().parents[2]
DIES = """
import logging, os, signal, sys, time
from trtdiag.fleet import cluster

class Said(logging.Handler):
    def emit(self, record):
        said.append(record.getMessage())

said = []
cluster.RAYLETS.addHandler(Said())
cluster.RAYLETS.setLevel(logging.INFO)
ray = cluster.imported_ray()
cluster.start_here(ray, 1)

@ray.remote(max_retries=0)
def dies():
    os.kill(os.getpid(), signal.SIGKILL)

try:
    ray.get(dies.remote())
except ray.exceptions.WorkerCrashedError:
    pass
until = time.monotonic() + 30
while not said and time.monotonic() < until:
    time.sleep(0.1)
ray.shutdown()
sys.exit(0 if any("A worker died" in line for line in said) else 7)
"""


@pytest.mark.slow  # starts Ray; quick: who hears of the logger
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed: pip install ray")
def test_a_worker_that_is_killed_is_told_to_the_logger_alone() -> None:
    done = subprocess.run(
        [sys.executable, "-c", DIES], cwd=ROOT, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done
    assert "raylet" not in done.stdout + done.stderr


@pytest.mark.parametrize("verbose", [True, False])
def test_verbose_prints_what_the_logger_is_told_by_any_thread(
    verbose: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    command = click.Command("sweep")
    with command.make_context("sweep", []) as context:
        context.meta["trtdiag.verbose"] = verbose
        with told_if_verbose(RAYLETS.name):
            thread = threading.Thread(target=RAYLETS.info, args=("(%s) %s", "raylet", "A worker died"))
            thread.start()
            thread.join()
        RAYLETS.info("afterwards")
    assert capsys.readouterr().err == ("(raylet) A worker died\n" if verbose else "")
    assert RAYLETS.handlers == []
    assert RAYLETS.level == logging.NOTSET
