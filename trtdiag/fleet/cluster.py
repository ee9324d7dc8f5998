"""Ray, started on this machine or reached at the address of a cluster, and what its machines have."""

from __future__ import annotations

import importlib
import logging
import os
import secrets
import signal
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from trtdiag.errors import PlatformError
from trtdiag.fleet.facts import Needs
from trtdiag.wording import amount, first_line

_STORE_BYTES = 80 << 20
"""Of Ray's store for objects, near its minimum: cases go there as some hundred bytes."""
_GIB = 1 << 30
_TYPE = "accelerator_type:"
_ANSWERS_S = 10.0
"""How long a cluster may take to accept a connection; Ray itself tries a dead address for minutes."""
CLIENT = "ray://"
"""Begins the address of a cluster that is reached from outside, by Ray's client."""
RAYLETS = logging.getLogger("trtdiag.raylets")
"""Hears what Ray's own processes say of workers, at INFO."""
_TOKEN = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")


def imported_ray() -> Any:
    """The module.

    Raises:
        PlatformError: ``ray-not-installed``.
    """
    # Ray sends statistics of its use to its makers where nobody says no; it warns of a default that is to change.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError as error:
        raise PlatformError(
            "a sweep runs on Ray, which is not installed",
            because=first_line(error),
            fix="pip install 'trtdiag[fleet]', or pip install ray",
            reference="ray-not-installed",
        ) from error
    return ray


def start_here(ray: Any, workers: int | None) -> None:
    """Start Ray on this machine, with so many cores; ``None``: all.

    Raises:
        PlatformError: ``ray-not-started``.
    """
    own = {"num_cpus": workers or os.cpu_count(), "include_dashboard": False, "object_store_memory": _STORE_BYTES}
    try:
        try:
            _begin(ray, "local", own)
        except OSError:  # Ray keeps a token in the home folder, which may be nobody's to write in
            if any(name in os.environ for name in _TOKEN):
                raise
            os.environ[_TOKEN[0]] = secrets.token_hex(32)
            _begin(ray, "local", own)
    except Exception as error:  # whatever Ray raises where it cannot start
        raise PlatformError(
            "Ray cannot be started on this machine",
            because=first_line(error),
            fix="see that memory and /tmp have room, or name a cluster that runs: --address",
            reference="ray-not-started",
        ) from error


def connect(ray: Any, address: str) -> None:
    """Reach a cluster.

    Raises:
        PlatformError: ``ray-not-started``.
    """
    try:
        _knock(address)
        _begin(ray, address, {})
    except Exception as error:  # whatever Ray raises where it cannot be reached
        causes = [*_chain(error)]
        told = next((each for each in causes if isinstance(each, ray.exceptions.AuthenticationError)), causes[-1])
        fix = "see there that it runs: ray status; name its head, HOST:6379; or leave --address out"
        if isinstance(told, ray.exceptions.AuthenticationError):
            fix = "set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN to what `ray get-auth-token` says on its head"
        elif "ray[client]" in str(told):
            fix = "pip install 'ray[client]'; on a machine of the cluster, name its head instead: HOST:6379"
        raise PlatformError(
            f"the Ray cluster at {address} cannot be used",
            because=first_line(told),
            fix=fix,
            reference="ray-not-started",
        ) from error


def _begin(ray: Any, address: str, own: Mapping[str, Any]) -> None:
    with _own_end():
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", **own)
    _log_what_raylets_say()


def _log_what_raylets_say() -> None:
    """Give what Ray would print of workers that died to a logger: ``log_to_driver`` is about what workers print alone.

    Ray has no setting for it (2.60: ``listen_error_messages`` prints whatever comes); one that prints otherwise does.
    """
    with suppress(ImportError):
        worker: Any = importlib.import_module("ray._private.worker")
        if callable(getattr(worker, "print_to_stdstream", None)):
            worker.print_to_stdstream = _log


def _log(said: Mapping[str, Any], *_: object, **__: object) -> None:
    for line in said.get("lines", ()):
        RAYLETS.info("(%s) %s", said.get("pid"), line)


@contextmanager
def _own_end() -> Iterator[None]:
    """Undo what Ray lets SIGTERM do: it would call ``sys.exit``, as if the code of a model had."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if before is not None and signal.getsignal(signal.SIGTERM) is not before:
            signal.signal(signal.SIGTERM, before)


def _knock(address: str) -> None:
    """Open a connection and close it, where the address is a host with a port.

    Raises:
        OSError: Nobody is there.
    """
    host, colon, port = address.removeprefix(CLIENT).rpartition(":")
    if colon and host and "/" not in host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWERS_S).close()


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and what caused it."""
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__


def asked_of_ray(needs: Needs) -> dict[str, Any]:
    """What a task asks for, as options of Ray."""
    asked: dict[str, Any] = {"num_cpus": needs.cpus, "num_gpus": needs.gpus}
    if needs.memory_gib is not None:
        asked["memory"] = int(needs.memory_gib * _GIB)
    if needs.gpu_type:
        asked["accelerator_type"] = needs.gpu_type
    return asked


def lacking(needs: Needs, machines: Sequence[Mapping[str, float]]) -> tuple[str, str] | None:
    """What no machine has that a task asks for, and the most that one has of it; ``None`` where one has everything.

    Args:
        needs: What the task asks for.
        machines: What each has in all, as Ray calls it.
    """
    asked = {"CPU": float(needs.cpus), "GPU": float(needs.gpus), "memory": (needs.memory_gib or 0) * _GIB}
    if needs.gpu_type:
        asked[f"{_TYPE}{needs.gpu_type}"] = 0.001  # Ray asks for so much of it
    if any(all(has.get(name, 0) >= count for name, count in asked.items()) for has in machines):
        return None
    for name, count in asked.items():
        most = max((has.get(name, 0) for has in machines), default=0)
        if count > most:
            return _told(name, count), f"at most {_told(name, most)}" if most else "none"
    return " and ".join(_told(name, count) for name, count in asked.items() if count), "less on one machine"


def _told(name: str, count: float) -> str:
    if name == "memory":
        return f"{count / _GIB:.1f} GiB of memory"
    if name in ("CPU", "GPU"):
        return amount(int(count), "core" if name == "CPU" else "GPU")
    return f"the GPU {name.removeprefix(_TYPE)}"
