"""Who runs cases: tasks of Ray, on this machine or on a cluster."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from trtdiag.errors import PlatformError
from trtdiag.fleet.facts import KILLED, Needs
from trtdiag.wording import first_line

Ended = Mapping[str, Any]
"""How a case ended, as the fork server says it."""
_STORE_BYTES = 80 << 20
"""Of Ray's store for objects, near its minimum: cases go there as some hundred bytes."""
_GIB = 1 << 30
_MORE = 2
"""Tasks handed to Ray for each that can run: so many wait there, and none of its workers for us."""


class Crew(Protocol):
    """Runs cases, several at once."""

    def room(self) -> int:
        """How many cases it takes now, beside those that it has."""

    def begin(self, number: int, job: Mapping[str, Any], needs: Needs) -> None:
        """Take a case, which is called by its number from then on."""

    def ended(self, wait_s: float) -> Sequence[tuple[int, Ended]]:
        """The cases that ended since this was last asked, after at most so many seconds."""

    def close(self) -> None:
        """End all that still runs."""


class RayCrew:
    """Tasks of Ray.

    Args:
        address: Of a cluster; ``None`` starts Ray on this machine, for as long as this crew is there.
        workers: Cores that Ray has on this machine; ``None``: all.

    Raises:
        PlatformError: ``ray-not-installed``, ``ray-not-started``.
    """

    def __init__(self, address: str | None, workers: int | None) -> None:
        self._ray = ray = _imported()
        self._running: dict[Any, int] = {}
        self._local = address is None
        self._started = not ray.is_initialized()
        if self._started:
            own: dict[str, Any] = {"include_dashboard": False, "object_store_memory": _STORE_BYTES}
            try:
                ray.init(
                    address="local" if address is None else address,
                    log_to_driver=False,
                    logging_level="ERROR",
                    **({"num_cpus": workers or os.cpu_count(), **own} if address is None else {}),
                )
            except Exception as error:  # whatever Ray raises where it cannot start or be reached
                where = "on this machine" if address is None else f"at {address}"
                raise PlatformError(
                    f"Ray cannot be used {where}",
                    because=first_line(error),
                    fix="see that it runs: ray status; or leave --address out",
                    reference="ray-not-started",
                ) from error
        self._task = ray.remote(max_retries=0)(run_case)

    def room(self) -> int:
        """See ``Crew``."""
        cores = self._ray.cluster_resources().get("CPU", 1)
        return max(0, int(_MORE * cores) - len(self._running))

    def begin(self, number: int, job: Mapping[str, Any], needs: Needs) -> None:
        """See ``Crew``.

        Raises:
            PlatformError: ``sweep-resources``: this machine has not what the case needs.
        """
        self._check(needs)
        asked: dict[str, Any] = {"num_cpus": needs.cpus, "num_gpus": needs.gpus}
        if needs.memory_gib is not None:
            asked["memory"] = int(needs.memory_gib * _GIB)
        if needs.gpu_type:
            asked["accelerator_type"] = needs.gpu_type
        self._running[self._task.options(**asked).remote(job)] = number

    def _check(self, needs: Needs) -> None:
        """Refuse what would wait for ever: a cluster may grow, this machine does not."""
        if not self._local:
            return
        there = self._ray.cluster_resources()
        asked = {"CPU": needs.cpus, "GPU": needs.gpus, "memory": (needs.memory_gib or 0) * _GIB}
        if needs.gpu_type:
            asked[f"accelerator_type:{needs.gpu_type}"] = 0.001
        for name, amount in asked.items():
            if amount > there.get(name, 0):
                raise PlatformError(
                    f"a task asks for {_amount(name, amount)} of {name}, more than this machine has",
                    because=f"Ray finds {_amount(name, there.get(name, 0))} here",
                    fix="ask for less, or name a cluster that has it: --address",
                    reference="sweep-resources",
                )

    def ended(self, wait_s: float) -> Sequence[tuple[int, Ended]]:
        """See ``Crew``.

        Raises:
            PlatformError: ``sweep-worker-failed``, ``ray-lost``, and what ``ServerClient.run`` raises.
        """
        ready, _ = self._ray.wait(list(self._running), num_returns=1, timeout=wait_s)
        more, _ = self._ray.wait(list(self._running), num_returns=len(self._running), timeout=0) if ready else ([], [])
        return [(self._running.pop(each), self._answer(each)) for each in dict.fromkeys((*ready, *more))]

    def _answer(self, reference: Any) -> Ended:
        errors = self._ray.exceptions
        try:
            found: Ended = self._ray.get(reference)
        except errors.RayTaskError as error:
            cause = getattr(error, "cause", None)
            if isinstance(cause, PlatformError):
                raise cause from error
            raise PlatformError(
                "a worker of Ray cannot run programs",
                because=first_line(cause or error),
                fix="install the same trtdiag and torch on every machine of the cluster",
                reference="sweep-worker-failed",
            ) from error
        except (errors.WorkerCrashedError, errors.OutOfMemoryError, errors.NodeDiedError, errors.ObjectLostError):
            # The worker was ended, or its machine: the program had no say in it.
            return {"state": KILLED, "step": "", "signal": 9, "code": 0, "seconds": 0.0}
        except errors.RayError as error:
            raise PlatformError(
                "Ray has gone",
                because=first_line(error),
                fix="run the same command again: what was done stays",
                reference="ray-lost",
            ) from error
        return found

    def close(self) -> None:
        """See ``Crew``."""
        for reference in self._running:
            with suppress(Exception):  # Ray may have gone
                self._ray.cancel(reference, force=True)
        self._running.clear()
        if self._started:
            self._ray.shutdown()


def _amount(name: str, amount: float) -> str:
    return f"{amount / _GIB:.1f} GiB" if name == "memory" else f"{amount:g}"


def _imported() -> Any:
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


_client: Any = None


def run_case(job: Mapping[str, Any]) -> Ended:
    """Run a case in this worker's fork server; what Ray calls."""
    global _client
    if _client is None:
        from trtdiag.fleet.server_client import ServerClient

        _client = ServerClient()
    found: Ended = _client.run(job)
    return found
