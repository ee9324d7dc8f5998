"""The options as keywords of functions: what editors complete, type checkers check and ``help`` shows.

The options are defined in ``options.py``; a test holds each keyword here against its field there.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence, Set as AbstractSet
from dataclasses import fields
from typing import Any, Literal, TypedDict, TypeVar

from trtdiag.asked_bounds import AskedBound
from trtdiag.asked_profiles import AskedProfile
from trtdiag.options import AnalyzeOptions, CompileOptions, PartitionOptions, Precision

_F = TypeVar("_F", bound=Callable[..., Any])

Words = str | Sequence[str] | AbstractSet[str] | None
"""One text, several, or none."""
Place = str | os.PathLike[str] | None
Sizes = Mapping[str, int] | Sequence[tuple[str, int]]
Bounds = Mapping[str, int | tuple[int | None, int | None]] | Sequence[AskedBound]
Profiles = Mapping[str, Mapping[str, int | tuple[int, int] | tuple[int, int, int]]] | Sequence[AskedProfile]


class PlanKeywords(TypedDict, total=False):
    """What both ``AnalyzeOptions`` and ``CompileOptions`` have, and the fields of their ``partition``."""

    target: str | None
    truncate_double: bool
    partition: PartitionOptions
    precision: Precision | Literal["keep", "fp16", "bf16", "int8"]
    keep_fp32: Words
    assume: Bounds
    max_sizes: Sizes
    min_segment_ops: int
    keep_in_torch: Words
    require_full: bool
    random: Literal["torch", "engine"]


class AnalyzeKeywords(PlanKeywords, total=False):
    """The fields of ``AnalyzeOptions``, with the values that they take."""

    select: Words
    ignore: Words
    gpu: Words
    try_build: bool
    build_limit_s: float


class EngineKeywords(TypedDict, total=False):
    """The fields of ``CompileOptions`` about how engines are built and run, whatever is in them."""

    gpu: Words
    portable: bool
    workspace_mib: int | None
    optimization_level: int | None
    tactic_sources: Words
    timing_cache: Place
    tf32: bool
    cuda_graphs: int | None
    runtime_cache: Place
    rtx_cuda_graphs: bool
    kernel_specialization: Literal["lazy", "eager", "none"] | None
    hardware_compatibility: Literal["none", "ampere+", "same-compute-capability"]
    version_compatible: bool
    engine_cache: Place
    engine_cache_mib: int
    build_jobs: int | None
    build_in_process: bool
    engine_per_gpu: bool


class CompileKeywords(PlanKeywords, EngineKeywords, total=False):
    """The fields of ``CompileOptions``, with the values that they take."""

    backend: str | None
    keep_float: Words
    opt: Sizes
    profiles: Profiles
    force: bool
    verify: bool
    verify_limit_s: float | None
    refittable: bool
    engine_weights: Literal["inside", "once", "none"]
    profile_layers: bool
    optimize: Literal["none", "latency"]


_KEYWORDS: Mapping[type[AnalyzeOptions | CompileOptions], Any] = {
    AnalyzeOptions: AnalyzeKeywords,
    CompileOptions: CompileKeywords,
}


def option_names(kind: type[AnalyzeOptions | CompileOptions]) -> tuple[str, ...]:
    """The names of the options, those of ``partition`` last."""
    return tuple(entry.name for each in (kind, PartitionOptions) for entry in fields(each))


def shows_options(kind: type[AnalyzeOptions | CompileOptions], keywords: Any = None) -> Callable[[_F], _F]:
    """Let the signature of a function name each option in the place of its ``**changes``.

    Args:
        kind: Whose fields, and those of whose ``partition``, the function takes; a parameter of its own that has the
            name of an option stays as it is.
        keywords: Those that it takes, where these are not all.
    """

    def decorate(function: _F) -> _F:
        signature = inspect.signature(function)
        own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
        usual = {**vars(kind()), **vars(PartitionOptions())}
        words = (_KEYWORDS[kind] if keywords is None else keywords).__annotations__
        named = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=usual[name],
                annotation=getattr(words.get(name), "__forward_arg__", inspect.Parameter.empty),
            )
            for name in option_names(kind)
            if name not in signature.parameters and (keywords is None or name in words)
        ]
        function.__signature__ = signature.replace(parameters=[*own, *named])  # type: ignore[attr-defined]
        return function

    return decorate
