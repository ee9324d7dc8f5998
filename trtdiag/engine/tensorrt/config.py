"""The builder's configuration, from our options."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trtdiag.engine.tensorrt.dialect import Dialect
from trtdiag.errors import UserError
from trtdiag.options import CompileOptions

TACTIC_SOURCES = "TRTDIAG_TACTIC_SOURCES"
"""The environment variable that names tactic sources where the option does not: for machines without some library."""
_MIB = 2**20


def new_config(dialect: Dialect, builder: Any, options: CompileOptions, *, pinned: bool) -> Any:
    """A configuration.

    Args:
        dialect: The TensorRT that builds.
        builder: Its builder.
        options: What the user asked for.
        pinned: Whether the network's layers are held to their types: 8.6 must then be allowed float16, and obey.

    Raises:
        UserError: ``unknown-tactic-source``; ``wrong-option`` for a level that there is not.
    """
    trt = dialect.trt
    config = builder.create_builder_config()
    if options.workspace_mib is not None:
        config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, options.workspace_mib * _MIB)
    if options.optimization_level is not None:
        config.builder_optimization_level = _level(options.optimization_level)
    sources = tuple(options.tactic_sources) or _from_environment()
    if sources:
        config.set_tactic_sources(tactic_mask(trt, sources))
    if options.tf32:
        config.set_flag(trt.BuilderFlag.TF32)
    else:
        config.clear_flag(trt.BuilderFlag.TF32)
    if pinned and not dialect.strongly_typed:
        config.set_flag(trt.BuilderFlag.FP16)
        config.set_flag(trt.BuilderFlag.OBEY_PRECISION_CONSTRAINTS)
    # The inspector then tells tactics and fused layers, which the layer names lead back to ops.
    config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
    if options.timing_cache is not None:
        _give_timings(config, Path(options.timing_cache))
    return config


def tactic_mask(trt: Any, sources: Sequence[str]) -> int:
    """Tactic sources by name as the bits of a number.

    Raises:
        UserError: ``unknown-tactic-source``.
    """
    members = trt.TacticSource.__members__
    unknown = [source for source in sources if source not in members]
    if unknown:
        raise UserError(
            f"TensorRT has no tactic source {unknown[0]!r}",
            because=f"this version has {', '.join(sorted(members))}",
            fix=f"name some of those in tactic_sources or {TACTIC_SOURCES}",
            reference="unknown-tactic-source",
        )
    return sum(1 << int(members[source]) for source in dict.fromkeys(sources))


def keep_timings(config: Any, path: Path) -> None:
    """Write what was measured, for the next build; another build that writes too does not damage the file."""
    content = bytes(config.get_timing_cache().serialize())
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(name).replace(path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise


def _give_timings(config: Any, path: Path) -> None:
    """The timings of earlier builds; of another GPU or version they are left out, and written anew."""
    content = path.read_bytes() if path.is_file() else b""
    cache = config.create_timing_cache(content)
    if not config.set_timing_cache(cache, False):
        config.set_timing_cache(config.create_timing_cache(b""), False)


def _from_environment() -> tuple[str, ...]:
    return tuple(part.strip() for part in os.environ.get(TACTIC_SOURCES, "").split(",") if part.strip())


def _level(level: int) -> int:
    if not 0 <= level <= 5:
        raise UserError(
            f"there is no optimization level {level}",
            because="TensorRT has the levels 0 (builds fast) to 5 (runs fast)",
            fix="choose one of them, or none for TensorRT's own, 3",
            reference="wrong-option",
        )
    return level
