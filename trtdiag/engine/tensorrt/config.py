"""The builder's configuration, from our options."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trtdiag.engine.tensorrt.api_versions import Dialect
from trtdiag.engine.tensorrt.cache_files import give_timings
from trtdiag.engine.tensorrt.compatibility import set_compatibility
from trtdiag.engine.tensorrt.single_context import SHARING
from trtdiag.errors import UserError
from trtdiag.options import MIB, CompileOptions

TACTIC_SOURCES = "TRTDIAG_TACTIC_SOURCES"
"""The environment variable that names tactic sources where the option does not: for machines without some library."""


def new_config(
    dialect: Dialect,
    builder: Any,
    options: CompileOptions,
    *,
    half: bool = False,
    held: bool = False,
    quantized: bool = False,
    version: str,
    capability: str,
) -> Any:
    """A configuration.

    Args:
        dialect: The TensorRT that builds.
        builder: Its builder.
        options: What the user asked for.
        half: Whether the network has float16, which 8.6 must be allowed then.
        held: Whether layers are held to their types, which 8.6 must obey then.  It is not asked to where none is: for
            that alone it refused a quantized ResNet-50 ("incorrectly marked as an int8 node", 8.6.0 on an H200).
        quantized: Whether it has Quantize or Dequantize layers: 8.6 must then be allowed int8.
        version: TensorRT's, for errors.
        capability: The compute capability of the GPU that builds; the options may name GPU generations in its place.

    Raises:
        UserError: ``unknown-tactic-source``; what ``set_compatibility`` refuses.
    """
    trt = dialect.trt
    config = builder.create_builder_config()
    if options.workspace_mib is not None:
        config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, options.workspace_mib * MIB)
    if options.optimization_level is not None:
        config.builder_optimization_level = options.optimization_level
    sources = chosen_sources(options)
    if sources:
        config.set_tactic_sources(tactic_mask(trt, sources))
    if options.tf32:
        config.set_flag(trt.BuilderFlag.TF32)
    else:
        config.clear_flag(trt.BuilderFlag.TF32)
    if half and not dialect.strongly_typed:
        config.set_flag(trt.BuilderFlag.FP16)
    if half and held and not dialect.strongly_typed:
        config.set_flag(trt.BuilderFlag.OBEY_PRECISION_CONSTRAINTS)
    if quantized and not dialect.strongly_typed:
        config.set_flag(trt.BuilderFlag.INT8)
    # From 10 on contexts share profiles anyway; some releases of 8.6 cannot, see one_context.py.
    if not dialect.strongly_typed and SHARING in trt.PreviewFeature.__members__:
        config.set_preview_feature(getattr(trt.PreviewFeature, SHARING), True)
    # The inspector then tells tactics and fused layers, which the layer names lead back to ops.
    config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
    if options.timing_cache is not None:
        give_timings(config, Path(options.timing_cache).expanduser())
    set_compatibility(trt, version, config, options, sources, capability)
    if options.gpu:
        config.num_compute_capabilities = len(options.gpu)
        for index, gpu in enumerate(options.gpu):
            config.set_compute_capability(getattr(trt.ComputeCapability, gpu.upper()), index)
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


def chosen_sources(options: CompileOptions) -> tuple[str, ...]:
    """The tactic sources that were asked for, here or in the environment; none: TensorRT's own choice."""
    named = (part.strip() for part in os.environ.get(TACTIC_SOURCES, "").split(","))
    return tuple(options.tactic_sources) or tuple(part for part in named if part)
