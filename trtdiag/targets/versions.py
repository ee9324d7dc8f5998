"""Which target an analysis answers for: the asked one, else the installed TensorRT, else the newest known."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import metadata

from trtdiag.errors import UserError
from trtdiag.targets.releases import TARGETS
from trtdiag.targets.releases_rtx import GENERATIONS, RTX_TARGETS
from trtdiag.targets.target import Target
from trtdiag.wording import shown

ALL_TARGETS = (*TARGETS, *RTX_TARGETS)
"""Those of TensorRT, then those of TensorRT-RTX, each oldest first."""
EVERY_GPU = "all"
# The wheel is called by its CUDA version, too; only its version is read, TensorRT is never imported.
_DISTRIBUTIONS = ("tensorrt", "tensorrt-cu13", "tensorrt-cu12", "tensorrt-cu11")
_RTX_DISTRIBUTIONS = ("tensorrt-rtx", "tensorrt-rtx-cu13", "tensorrt-rtx-cu12")
_VERSION = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})(\.[0-9]+)*")
_RTX = "rtx-"


def get_target(text: str | None) -> Target:
    """Return the target named ``10.16`` or ``rtx-1.7`` (patch numbers after it do not matter).

    Args:
        text: A version; ``None`` takes the installed TensorRT, or where none is installed the newest known one.  An
            installed version that is not known is answered for by the nearest known one of its major version.

    Raises:
        UserError: ``unknown-target`` where the version is not known.
    """
    if text is None:
        return target_of(installed_version() or "") or TARGETS[-1]
    asked = text.strip()
    targets: Sequence[Target] = RTX_TARGETS if asked.startswith(_RTX) else TARGETS
    match = _VERSION.fullmatch(asked.removeprefix(_RTX))
    for target in targets:
        if match and (int(match[1]), int(match[2])) == _release(target):
            return target
    known = ", ".join(target.version for target in ALL_TARGETS)
    raise UserError(
        f"TensorRT {shown(text)} is not a known target",
        because=f"known targets are {known}",
        fix=f"give one of them (--target, or target in pyproject.toml); {_nearest_hint(match, targets)}",
        reference="unknown-target",
    )


def get_rtx_target(text: str | None) -> Target:
    """Return a target of TensorRT-RTX; ``None``: the installed one, else the newest known.

    Raises:
        UserError: ``unknown-target``.
    """
    if text is None:
        return target_of(installed_rtx_version() or "", RTX_TARGETS) or RTX_TARGETS[-1]
    return get_target(text)


def target_name(version: str) -> str:
    """How texts call a target of this version: ``TensorRT 10.16``, ``TensorRT-RTX 1.7``."""
    product = "TensorRT-RTX" if version.startswith(_RTX) else "TensorRT"
    return f"{product} {version.removeprefix(_RTX)}"


def chosen_gpus(target: Target, asked: Sequence[str]) -> tuple[str, ...]:
    """The GPU generations by age; ``all`` is every one that the target builds for.

    Raises:
        UserError: ``unknown-gpu``; ``wrong-option`` where the target builds for the GPU here alone.
    """
    if asked and not target.gpus:
        raise UserError(
            f"{target.name} does not build for GPUs that are not here: {', '.join(asked)}",
            because="only TensorRT-RTX does",
            fix="compile with backend='tensorrt-rtx' (or a target of it), or leave gpu out",
            reference="wrong-option",
        )
    unknown = [gpu for gpu in asked if gpu not in (EVERY_GPU, *target.gpus)]
    if unknown:
        known = ", ".join(f"{gpu} ({GENERATIONS[gpu]})" for gpu in target.gpus)
        raise UserError(
            f"{target.name} builds nothing for the GPU generation {unknown[0]!r}",
            because=f"it builds for {known}",
            fix=f"name some of those, or {EVERY_GPU}",
            reference="unknown-gpu",
        )
    return tuple(gpu for gpu in target.gpus if gpu in asked or EVERY_GPU in asked)


def installed_version() -> str | None:
    """Return the version text of the installed TensorRT, ``None`` where there is none; imports nothing."""
    return _first(_DISTRIBUTIONS)


def installed_rtx_version() -> str | None:
    """Return the version text of the installed TensorRT-RTX, ``None`` where there is none; imports nothing."""
    return _first(_RTX_DISTRIBUTIONS)


def target_of(version: str, targets: Sequence[Target] = TARGETS) -> Target | None:
    """Return the known target nearest to a version of the same major number, ``None`` where there is none."""
    match = _VERSION.match(version)
    return _nearest(match, targets) if match else None


def _first(distributions: Sequence[str]) -> str | None:
    for name in distributions:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None


def _release(target: Target) -> tuple[int, int]:
    major, minor = target.version.removeprefix(_RTX).split(".")
    return int(major), int(minor)


def _nearest(match: re.Match[str], targets: Sequence[Target]) -> Target | None:
    same = [target for target in targets if _release(target)[0] == int(match[1])]
    return min(same, key=lambda target: abs(_release(target)[1] - int(match[2])), default=None)


def _nearest_hint(match: re.Match[str] | None, targets: Sequence[Target]) -> str:
    near = _nearest(match, targets) if match else None
    if near is None:
        return f"without --target the installed TensorRT is taken, else {TARGETS[-1].version}"
    return f"{near.version} is the nearest to the version you asked for"
