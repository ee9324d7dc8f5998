"""Compiles small models with every real stage, for tests of what runs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from trtdiag.convert.facts import ConversionContext
from trtdiag.convert.registry import has_converter
from trtdiag.convert.segment import convert_segment
from trtdiag.convert.support import support
from trtdiag.engine.backend import get_backend
from trtdiag.engine.build import Engine, build_engine
from trtdiag.engine.profiles import network_profile
from trtdiag.frontend.capture import capture
from trtdiag.frontend.program import Program
from trtdiag.graph.limit import Limit
from trtdiag.lower.lowered import lower
from trtdiag.lower.metadata import check_metadata
from trtdiag.options import CompileOptions, PartitionOptions
from trtdiag.partition.partition import partition, symbol_sizes
from trtdiag.runtime.assemble import assemble
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.targets import get_target

Plan = Mapping[torch.dtype, torch.dtype]

# What TensorRT 8.6 needs: it has no int64.
NARROW: Plan = {torch.int64: torch.int32, torch.float64: torch.float32}


def compiled(
    model: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    dynamic_shapes: Any = None,
    *,
    keep: Sequence[str] = (),
    plan: Plan | None = None,
    target: str = "11.4",
    limit_sizes: Callable[[torch.fx.Node], bool] | None = None,
) -> CompiledProgram:
    """The compiled form of a model; ``keep`` names ops for PyTorch, ``plan`` the dtypes inside of engines."""
    exported = torch.export.export(model, args, kwargs, dynamic_shapes=dynamic_shapes)
    return compiled_program(capture(exported), keep=keep, plan=plan, target=target, limit_sizes=limit_sizes)


def compiled_program(
    program: Program,
    *,
    keep: Sequence[str] = (),
    plan: Plan | None = None,
    target: str = "11.4",
    limit_sizes: Callable[[torch.fx.Node], bool] | None = None,
) -> CompiledProgram:
    """The compiled form of a captured program."""
    lowered = lower(program, check_metadata(program), has_converter)
    plan = plan or {}
    planned = {
        node.name: tuple(plan.get(value.dtype, value.dtype) for value in _tensors(node.meta.get("val")))
        for node in lowered.graph_module.graph.nodes
    }
    chosen = get_target(target)
    module, held = lowered.graph_module, lowered.held()
    source = ConversionContext(module, planned, chosen, program.ranges, (), lowered.origins, held, left=lowered.left())
    found = dict(support(source, {}).limits)
    if limit_sizes is not None:
        wanted = [node.name for node in lowered.graph_module.graph.nodes if limit_sizes(node)]
        found |= {name: Limit("size-from-outside", "the test hands it over") for name in wanted}
    options = CompileOptions(partition=PartitionOptions(min_segment_ops=1, keep_in_torch=tuple(keep)))
    held = [node.name for node in source.held if node.op == "placeholder"]
    sizes = symbol_sizes(program.ranges, program.hints)
    parts = partition(lowered.graph_module, found, options.partition, symbols=sizes, held=held)
    segments = [convert_segment(source, segment) for segment in parts.segments]
    backend = get_backend("reference")
    engines: list[Engine] = [
        build_engine(backend, segment.network, network_profile(segment.network, program.hints), options, chosen)
        for segment in segments
    ]
    exported = assemble(lowered, parts, segments, engines, program.exported)
    return CompiledProgram(exported, options=options)


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [item for item in value if isinstance(item, torch.Tensor)] if isinstance(value, (list, tuple)) else []
