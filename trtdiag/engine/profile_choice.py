"""Which profile of an engine that has several a run takes: the first that has its sizes."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from trtdiag.engine.manifest import Manifest
from trtdiag.errors import ShapeOutOfRangeError
from trtdiag.shapes.profile import DimProfile

_MOST_KNOWN = 4096
"""Own choice: sets of sizes that are remembered; then it begins anew."""

_Sizes = tuple[tuple[int, ...], ...]


class ProfileChoice:
    """Chooses the profile of a run; several threads may call it.

    Args:
        manifest: Of an engine that has several.
    """

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._known: dict[_Sizes, int] = {}

    @classmethod
    def of(cls, manifest: Manifest) -> ProfileChoice | None:
        """What chooses; ``None`` for an engine of one profile."""
        return cls(manifest) if manifest.profiles else None

    def __call__(self, inputs: Sequence[torch.Tensor]) -> int:
        """The place of the profile.

        Args:
            inputs: As a runner is given them.

        Raises:
            ShapeOutOfRangeError: ``outside-profiles`` where none has the sizes.
        """
        ports = self._manifest.inputs
        sizes = tuple(
            (int(tensor),) if port.is_size else tuple(tensor.shape) for port, tensor in zip(ports, inputs, strict=True)
        )
        found = self._known.get(sizes)
        if found is None:
            found = self._first(sizes)
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[sizes] = found
        return found

    def _first(self, sizes: _Sizes) -> int:
        for index, profile in enumerate(self._manifest.profiles):
            if all(
                _has(dim, size)
                for own, given in zip(profile.sizes, sizes, strict=True)
                for dim, size in zip(own, given, strict=True)
            ):
                return index
        raise self._refused(sizes)

    def _refused(self, sizes: _Sizes) -> ShapeOutOfRangeError:
        """The error, which names each size in which the profiles differ."""
        seen, names = [], []
        for index, (port, given) in enumerate(zip(self._manifest.inputs, sizes, strict=True)):
            for dim, size in enumerate(given):
                allowed = {profile.name: profile.sizes[index][dim] for profile in self._manifest.profiles}
                if len({(own.min, own.max) for own in allowed.values()}) > 1:
                    place = f"{port.name!r} is" if port.is_size else f"dim {dim} of {port.name!r} has size"
                    ranges = ", ".join(f"{name} takes {_words(own)}" for name, own in allowed.items())
                    seen.append(f"{place} {size} ({ranges})")
                    names.append(repr(port.name))
        return ShapeOutOfRangeError(
            f"no profile of an engine takes these sizes of {', '.join(dict.fromkeys(names))}",
            because="; ".join(seen),
            fix="give sizes that are all in one profile, or compile again with a profile that takes them",
            reference="outside-profiles",
        )


def _has(dim: DimProfile, size: int) -> bool:
    return size >= dim.min and (dim.max is None or size <= dim.max)


def _words(dim: DimProfile) -> str:
    if dim.max is None:
        return f"{dim.min} or more"
    return f"{dim.min}" if dim.min == dim.max else f"{dim.min} to {dim.max}"
