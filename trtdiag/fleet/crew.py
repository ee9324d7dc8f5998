"""Who runs cases: tasks of Ray, on this machine or on a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from trtdiag.errors import PlatformError
from trtdiag.fleet.cluster import CLIENT, asked_of_ray, connect, imported_ray, lacking, start_here
from trtdiag.fleet.facts import KILLED, Needs
from trtdiag.wording import first_line

Ended = Mapping[str, Any]
"""How a case ended, as the fork server says it."""
_MORE = 2
"""Tasks handed to Ray for each that can run: so many wait there, and none of its workers for us."""


class Crew(Protocol):
    """Runs cases, several at once."""

    def room(self, needs: Needs) -> int:
        """How many cases with these needs it takes now, beside those that it has."""

    def waits_for(self) -> str:
        """What cases wait for that is not there, in words; empty where all of them can run."""

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
        self._ray = ray = imported_ray()
        self._running: dict[Any, tuple[int, Needs]] = {}
        self._local = address is None
        self._started = not ray.is_initialized()
        if self._started and address is None:
            start_here(ray, workers)
        elif self._started:
            connect(ray, str(address))
        self._task = ray.remote(max_retries=0)(run_case)
        client = self._started and not self._local and str(address).startswith(CLIENT)
        self._node = (
            "" if client else ray.get_runtime_context().get_node_id()
        )  # a client is on no machine of the cluster

    def room(self, needs: Needs) -> int:
        """See ``Crew``: what cannot run yet keeps nothing else from running."""
        cores = self._ray.cluster_resources().get("CPU", 1)
        return max(0, int(_MORE * cores) - sum(each == needs for _, each in self._running.values()))

    def waits_for(self) -> str:
        """See ``Crew``."""
        waiting = set() if self._local else {needs for _, needs in self._running.values()}
        machines = self._machines() if waiting else ()
        less = next(filter(None, (lacking(needs, machines) for needs in waiting)), None)
        if less is None:
            return ""
        return f"cases wait for a machine with {less[0]}: the cluster has {less[1]}"

    def _machines(self) -> list[Mapping[str, float]]:
        return [each["Resources"] for each in self._ray.nodes() if each["Alive"]]

    def begin(self, number: int, job: Mapping[str, Any], needs: Needs) -> None:
        """See ``Crew``.

        Raises:
            PlatformError: ``sweep-resources``: this machine has not what the case needs.
        """
        # A cluster may grow, this machine does not.
        less = lacking(needs, self._machines()) if self._local else None
        if less is not None:
            raise PlatformError(
                f"a task asks for {less[0]}, more than this machine has",
                because=f"Ray finds {less[1]} here",
                fix="ask for less, or name a cluster that has it: --address",
                reference="sweep-resources",
            )
        reference = self._task.options(**asked_of_ray(needs)).remote({**job, "node": self._node})
        self._running[reference] = number, needs

    def ended(self, wait_s: float) -> Sequence[tuple[int, Ended]]:
        """See ``Crew``.

        Raises:
            PlatformError: ``sweep-worker-failed``, ``ray-lost``, and what ``ServerClient.run`` raises.
        """
        ready, _ = self._ray.wait(list(self._running), num_returns=1, timeout=wait_s)
        more, _ = self._ray.wait(list(self._running), num_returns=len(self._running), timeout=0) if ready else ([], [])
        return [(self._running.pop(each)[0], self._answer(each)) for each in dict.fromkeys((*ready, *more))]

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


_client: Any = None


def run_case(job: Mapping[str, Any]) -> Ended:
    """Run a case in this worker's fork server; what Ray calls."""
    global _client
    if _client is None:
        from trtdiag.fleet.server_client import ServerClient

        _client = ServerClient()
    import ray

    elsewhere = job["node"] != ray.get_runtime_context().get_node_id()
    found: Ended = _client.run({**job, "elsewhere": elsewhere})
    return found
