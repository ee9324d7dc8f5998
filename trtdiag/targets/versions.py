"""Which target an analysis answers for: the asked one, else the installed TensorRT, else the newest known."""

from __future__ import annotations

import re
from importlib import metadata

from trtdiag.errors import UserError
from trtdiag.targets.releases import TARGETS
from trtdiag.targets.target import Target

# The wheel is called by its CUDA version, too; only its version is read, TensorRT is never imported.
_DISTRIBUTIONS = ("tensorrt", "tensorrt-cu13", "tensorrt-cu12", "tensorrt-cu11")
_VERSION = re.compile(r"(\d+)\.(\d+)(\.\d+)*")


def get_target(text: str | None) -> Target:
    """Return the target named ``10.16`` (patch numbers after it do not matter).

    Args:
        text: A version; ``None`` takes the installed TensorRT, or where none is installed the newest known one.  An
            installed version that is not known is answered for by the nearest known one of its major version.

    Raises:
        UserError: ``unknown-target`` where the version is not known.
    """
    if text is None:
        return _installed() or TARGETS[-1]
    match = _VERSION.fullmatch(text.strip())
    for target in TARGETS:
        if match and (int(match[1]), int(match[2])) == target.release:
            return target
    known = ", ".join(target.version for target in TARGETS)
    raise UserError(
        f"TensorRT {text!r} is not a known target",
        because=f"known targets are {known}",
        fix=f"use --target with one of them; {_nearest_hint(match)}",
        reference="unknown-target",
    )


def installed_version() -> str | None:
    """Return the version text of the installed TensorRT, ``None`` where there is none; imports nothing."""
    for name in _DISTRIBUTIONS:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None


def target_of(version: str) -> Target | None:
    """Return the known target nearest to a TensorRT version of the same major number, ``None`` where there is none."""
    match = _VERSION.match(version)
    return _nearest(int(match[1]), int(match[2])) if match else None


def _installed() -> Target | None:
    return target_of(installed_version() or "")


def _nearest(major: int, minor: int) -> Target | None:
    same = [target for target in TARGETS if target.release[0] == major]
    return min(same, key=lambda target: abs(target.release[1] - minor), default=None)


def _nearest_hint(match: re.Match[str] | None) -> str:
    near = _nearest(int(match[1]), int(match[2])) if match else None
    if near is None:
        return f"without --target the installed TensorRT is taken, else {TARGETS[-1].version}"
    return f"{near.version} is the nearest to the version you asked for"
