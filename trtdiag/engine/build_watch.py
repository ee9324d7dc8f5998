"""How far builds are, and the wish to end them."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Lock

from trtdiag.errors import EngineBuildError


class BuildStep(str):
    """What is being built, in words for people; ``share`` of all that is to be built is done, 0 to 1."""

    share: float = 0.0


class Watch:
    """One build, as it goes.  Backends tell it; they call it from any thread, and it raises nothing.

    Args:
        tell: Called with what the build does and the share of it that is done.
        stop: Set where the build should end soon.
    """

    def __init__(self, tell: Callable[[str, float], None] | None = None, stop: Event | None = None) -> None:
        self._tell = tell
        self._stop = stop or Event()
        self.notes: list[str] = []
        self.warnings: list[str] = []

    @property
    def stopped(self) -> bool:
        """Whether the build should end soon; its result is not wanted."""
        return self._stop.is_set()

    def note(self, words: str) -> None:
        """Keep what the engine does not do as its network says."""
        self.notes.append(words)

    def warned(self, words: str) -> None:
        """Keep what the builder warned of."""
        self.warnings.append(words)

    def tell(self, words: str, share: float) -> None:
        """Say what the build does now."""
        if self._tell is not None:
            self._tell(words, share)


class Steps:
    """Several builds as steps for one listener.

    A listener that raises ends the builds; what it raised is in ``raised``.  TensorRT's threads must not see it.

    Args:
        listener: Called with a ``BuildStep`` for each step.
        count: How many builds there are.
        stop: Set when the listener raises.
    """

    def __init__(self, listener: Callable[[str], None], count: int, stop: Event) -> None:
        self._listener, self._count, self._stop = listener, count, stop
        self._shares = [0.0] * count
        self._lock = Lock()
        self.raised: BaseException | None = None

    def tell(self, index: int, words: str, share: float) -> None:
        """Say that the build of this index does this now."""
        with self._lock:
            # A phase of unknown length must not move the bar back.
            self._shares[index] = max(self._shares[index], min(share, 1.0))
            step = BuildStep(words)
            step.share = sum(self._shares) / self._count
            if self.raised is not None:
                return
            try:
                self._listener(step)
            except BaseException as error:
                self.raised = error
                self._stop.set()

    def finished(self, index: int) -> None:
        """Note that a build ended."""
        with self._lock:
            self._shares[index] = 1.0


def build_stopped() -> EngineBuildError:
    """The error of a build whose engine nobody wants any more."""
    return EngineBuildError(
        "the build was stopped",
        because="its engine is not wanted any more",
        fix="compile again",
        reference="build-stopped",
    )
