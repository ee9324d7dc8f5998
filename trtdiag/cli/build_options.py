"""Options about how engines are built, for every command that builds them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from trtdiag.cli.list_options import listed
from trtdiag.cli.value_checks import MOST_COUNT, MOST_MIB, Place
from trtdiag.errors import UserError
from trtdiag.options import HARDWARE, CompileOptions

_F = TypeVar("_F", bound=Callable[..., Any])
_PLAIN = CompileOptions()

_OPTIONS = (
    click.option(
        "--optimization-level",
        type=click.IntRange(0, 5),
        metavar="0..5",
        help="How long TensorRT searches for fast kernels  [default: its own, 3]",
    ),
    click.option(
        "--workspace-mib",
        type=click.IntRange(0, MOST_MIB),
        metavar="MIB",
        help="Scratch memory that layers may use  [default: all of the GPU's]",
    ),
    click.option(
        "--tactic-sources",
        multiple=True,
        metavar="SOURCE",
        help="Where kernels may come from: CUBLAS, JIT_CONVOLUTIONS, ...  [default: TensorRT's own]",
    ),
    click.option("--tf32", is_flag=True, default=None, help="Compute float32 products with 10 bits of mantissa."),
    click.option(
        "--hardware-compatibility",
        type=click.Choice(HARDWARE),
        metavar="LEVEL",
        help="On which other GPUs engines may run: none, ampere+ (costs speed), same-compute-capability"
        "  [default: none]",
    ),
    click.option(
        "--version-compatible",
        is_flag=True,
        default=None,
        help="Let later TensorRT versions of the same major number run the engines.",
    ),
    click.option(
        "--engine-cache",
        type=Place(),
        metavar="DIR",
        help="Keep engines there, and build none again that is there already.",
    ),
    click.option(
        "--engine-cache-mib",
        type=click.IntRange(1, MOST_MIB),
        metavar="MIB",
        help=f"Keep so much there; what was not used for longest goes  [default: {_PLAIN.engine_cache_mib:,}]",
    ),
    click.option(
        "--timing-cache",
        type=Place(),
        metavar="FILE",
        help="Keep what TensorRT measured there, so that the next build is quicker.",
    ),
    click.option(
        "--engine-per-gpu",
        is_flag=True,
        default=None,
        help="With --gpu: an engine for each, in one file; otherwise one that runs on all.",
    ),
    click.option(
        "--build-jobs",
        type=click.IntRange(1, MOST_COUNT),
        metavar="N",
        help="Build so many engines at once; they disturb each other's measurements  [default: 1, more at level 0]",
    ),
)
BUILD_OPTIONS = (
    "optimization_level",
    "workspace_mib",
    "tactic_sources",
    "tf32",
    "hardware_compatibility",
    "version_compatible",
    "engine_cache",
    "engine_cache_mib",
    "timing_cache",
    "engine_per_gpu",
    "build_jobs",
)
"""Their names, in the order of the help."""


@dataclass(frozen=True)
class BuildOptions:
    """What was chosen: fields of ``CompileOptions``."""

    optimization_level: int | None
    workspace_mib: int | None
    tactic_sources: tuple[str, ...]
    tf32: bool
    hardware_compatibility: str
    version_compatible: bool
    engine_cache: str | None
    engine_cache_mib: int
    timing_cache: str | None
    engine_per_gpu: bool
    build_jobs: int | None


def build_options(command: _F) -> _F:
    """Add the options to a command; it gets them as arguments of the same names, for ``chosen_build_options``."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def chosen_build_options(config: Mapping[str, Any], given: Mapping[str, Any]) -> BuildOptions:
    """The options as given, else those of the file, else the defaults.

    Args:
        config: ``[tool.trtdiag]``.
        given: The command's arguments by name.

    Raises:
        UserError: ``config-wrong-value`` where the file has a hardware compatibility that there is not.
    """
    chosen = {name: getattr(_PLAIN, name) for name in BUILD_OPTIONS}
    return BuildOptions(**{**chosen, **given_build_options(config, given)})


def given_build_options(config: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The options that are given, or in the file; takes and raises as ``chosen_build_options``."""
    chosen: dict[str, Any] = {}
    for name in BUILD_OPTIONS:
        told = listed(given[name]) or None if name == "tactic_sources" else given[name]
        if told is None:
            told = config.get(name.replace("_", "-"))
        if told is not None:
            chosen[name] = tuple(told) if name == "tactic_sources" else told
    if chosen.get("hardware_compatibility", HARDWARE[0]) not in HARDWARE:
        raise _unknown_hardware(chosen["hardware_compatibility"])
    return chosen


def _unknown_hardware(text: str) -> UserError:
    return UserError(
        f"hardware-compatibility cannot be {text!r}",
        because="[tool.trtdiag] in pyproject.toml says so",
        fix=f"write one of {', '.join(HARDWARE)}",
        reference="config-wrong-value",
    )
