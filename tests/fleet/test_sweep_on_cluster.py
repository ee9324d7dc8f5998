"""Sweeps on a cluster of two nodes, both on this machine: one is killed while it works, another one comes later."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FACTORIES = Path(__file__).with_name("sweep_factories.py")
# All of these start Ray twice or more; quick: test_sweep_machines.py, and test_sweep_work.py without Ray.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed: pip install ray"),
    pytest.mark.skipif(sys.platform != "linux", reason="Ray has clusters on Linux alone"),
]
PROGRAMS = 12
START = (sys.executable, "-m", "ray.scripts.scripts", "start", "--block")
NETS = """
import sys
sys.path.insert(0, {tests!r})
from sweep_factories import Net
import torch
from torch.export import Dim

def _of(number):
    def build():
        return Net(), (torch.ones(3, number + 1),), {{}}, {{"x": {{0: Dim("n", min=1, max=9 + number)}}}}
    return build

for _number in range({count}):
    globals()[f"net{{_number}}"] = _of(_number)
"""
# A token that an earlier Ray left in the home folder would be asked for otherwise.
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(ROOT),
    "OMP_NUM_THREADS": "1",
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
}


class Cluster:
    """A head with one core; ``grow`` adds nodes.  Each is a session of processes, which ends as a machine does."""

    def __init__(self, folder: Path) -> None:
        self.nodes: list[subprocess.Popen[bytes]] = []
        self.logs = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        # Paths of sockets are short, so not below pytest's folder.
        self.kept = tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True)
        self.grow(
            *("--head", f"--port={self.address.rpartition(':')[2]}", "--include-dashboard=false"),
            *("--num-cpus=1", f"--temp-dir={self.kept.name}"),
        )

    def grow(self, *options: str) -> subprocess.Popen[bytes]:
        """Add a node, and wait until it is there."""
        log = self.logs / f"node{len(self.nodes)}.log"
        with log.open("wb") as written:
            node = subprocess.Popen(
                [*START, *options, "--object-store-memory=80000000"],
                env={**ENVIRONMENT, "SWEEP_MACHINE": f"node{len(self.nodes)}"},
                stdout=written,
                stderr=written,
                start_new_session=True,
            )
        self.nodes.append(node)
        wait_until(lambda: b"Ray runtime started" in log.read_bytes() or node.poll() is not None, 90)
        assert node.poll() is None, log.read_text()
        return node

    def end(self) -> None:
        for node in reversed(self.nodes):
            kill(node)
        self.kept.cleanup()


def kill(node: subprocess.Popen[bytes]) -> None:
    """End a node as a machine ends: all at once."""
    with suppress(ProcessLookupError):
        os.killpg(node.pid, signal.SIGKILL)
    node.wait()


def wait_until(holds: Callable[[], bool], limit_s: float) -> None:
    end = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)


def begun(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """The command as a user starts it."""
    command = [sys.executable, "-m", "trtdiag", "sweep", *arguments, "--target", "11.4"]
    return subprocess.Popen(command, cwd=folder, env=ENVIRONMENT, stdout=-1, stderr=subprocess.STDOUT, text=True)


def ended(sweep: subprocess.Popen[str]) -> str:
    """What it printed; it must have ended well."""
    printed, _ = sweep.communicate(timeout=300)
    assert sweep.returncode == 0, printed
    return printed


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        yield made
    finally:
        made.end()


def done(folder: Path) -> int:
    return len(list(folder.glob("steps/*/result.json")))


def test_nothing_is_lost_with_a_node(cluster: Cluster, tmp_path: Path) -> None:
    """The rows are the bytes of a sweep on this machine."""
    second = cluster.grow(f"--address={cluster.address}", "--num-cpus=1")
    (tmp_path / "nets.py").write_text(NETS.format(tests=str(FACTORIES.parent), count=PROGRAMS))
    asked = [*(f"nets.py:net{number}" for number in range(PROGRAMS)), "--steps", "analyze,compile,verify"]
    asked += ["--backend", "reference", "--min-segment-ops", "0"]
    sweep = begun(tmp_path, *asked, "--folder", "two", "--address", cluster.address)
    wait_until(lambda: done(tmp_path / "two") >= PROGRAMS or sweep.poll() is not None, 200)
    kill(second)
    assert done(tmp_path / "two") < 3 * PROGRAMS, "it was killed when all was done"
    assert f"{PROGRAMS} programs: {PROGRAMS} clean" in ended(sweep)
    ended(begun(tmp_path, *asked, "--folder", "one", "--workers", "1"))
    one, two = ((tmp_path / folder / "results.json").read_bytes() for folder in ("one", "two"))
    assert one == two


def test_a_type_of_gpu_is_waited_for_and_lands_where_it_is(cluster: Cluster, tmp_path: Path) -> None:
    sweep = begun(
        *(tmp_path, f"{FACTORIES}:tells_machine", "--steps", "compile", "--backend", "reference"),
        *("--gpu-type", "H200", "--address", cluster.address),
    )
    assert sweep.stderr is None
    assert sweep.stdout is not None
    lines = iter(sweep.stdout.readline, "")
    assert any("cases wait for a machine with 1 GPU: the cluster has none" in line for line in lines)
    cluster.grow(
        *(f"--address={cluster.address}", "--num-cpus=1", "--num-gpus=1"),
        '--resources={"accelerator_type:H200": 1}',
    )
    name = f"node{len(cluster.nodes) - 1}"
    assert "1 program: 1 clean" in ended(sweep)
    (printed,) = (tmp_path / "sweep").glob("steps/*/output.txt")
    assert f"on {name}" in printed.read_text()
