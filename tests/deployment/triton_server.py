"""A real Triton Inference Server on this CPU, from the wheel nvidia-pytriton, and clients of it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

STARTS_S = 120
"""A server on a busy machine; one alone is ready after 5 s."""


def server_or_skip() -> Path:
    """The folder of the server in the wheel; skips the test, by the name of what is missing."""
    pytest.importorskip("tritonclient.http", reason="tritonclient[http,grpc] is not installed")
    found = find_spec("pytriton")
    if found is None or found.submodule_search_locations is None:
        pytest.skip("the wheel nvidia-pytriton, which brings tritonserver, is not installed")
    home = Path(found.submodule_search_locations[0]) / "tritonserver"
    if not (home / "bin" / "tritonserver").exists():
        pytest.skip(f"nvidia-pytriton has no tritonserver here: {home}")
    stub = home / "python_backend_stubs" / _python() / "triton_python_backend_stub"
    if not stub.exists():
        pytest.skip(f"nvidia-pytriton has no Python backend for Python {_python()}")
    seen = subprocess.run(["ldd", home / "bin" / "tritonserver", stub], capture_output=True, text=True, env=_env(home))
    missing = [line.split()[0] for line in seen.stdout.splitlines() if "not found" in line]
    if missing:
        pytest.skip(f"tritonserver cannot start here: {', '.join(sorted(set(missing)))} is missing")
    return home


def _python() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def _env(home: Path) -> dict[str, str]:
    """The backend's interpreter is the first python on PATH: that of these tests, with its packages.

    Its stub lies elsewhere than in the wheel, so the wheel's libraries are named, and that of the interpreter.
    """
    libraries = [str(home.parents[1] / "nvidia_pytriton.libs"), str(sysconfig.get_config_var("LIBDIR") or "")]
    checkout = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    paths = os.pathsep.join([checkout, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    return {
        **os.environ,
        "PATH": path,
        "LD_LIBRARY_PATH": os.pathsep.join(filter(None, libraries)),
        "PYTHONPATH": paths,
        "OMP_NUM_THREADS": "1",
    }


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def serving(repository: Path, folder: Path) -> Iterator[tuple[str, Path]]:
    """The address of a server with this repository, and the server's log; the server ends with the block."""
    home = server_or_skip()
    backends = folder / "backends"
    shutil.copytree(home / "backends", backends)
    stub = backends / "python" / "triton_python_backend_stub"
    shutil.copy(home / "python_backend_stubs" / _python() / stub.name, stub)
    stub.chmod(0o755)
    port, log = _free_port(), folder / "server.log"
    command = [
        *(str(home / "bin" / "tritonserver"), "--model-repository", str(repository)),
        *("--backend-directory", str(backends), "--http-address", "127.0.0.1", "--http-port", str(port)),
        *("--allow-grpc", "0", "--allow-metrics", "0", "--disable-auto-complete-config", "--exit-timeout-secs", "10"),
    ]
    with log.open("wb") as written:
        server = subprocess.Popen(command, stdout=written, stderr=written, env=_env(home))
    try:
        with client_of(f"127.0.0.1:{port}") as client:
            _wait(client, server, log)
        yield f"127.0.0.1:{port}", log
    finally:
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(timeout=30)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


@contextmanager
def client_of(address: str) -> Iterator[Any]:
    """A client, which belongs to one thread."""
    from tritonclient.http import InferenceServerClient

    client = InferenceServerClient(address)
    try:
        yield client
    finally:
        client.close()


def _wait(client: Any, server: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + STARTS_S
    while time.monotonic() < end:
        if server.poll() is not None:
            pytest.fail(f"tritonserver ended with {server.returncode}:\n{log.read_text()[-4000:]}")
        try:
            if client.is_server_ready():
                return
        except (OSError, ConnectionError):
            pass
        time.sleep(0.05)
    pytest.fail(f"tritonserver was not ready in {STARTS_S} s:\n{log.read_text()[-4000:]}")
