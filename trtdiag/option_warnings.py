"""Options that were asked for and change nothing: a warning names each.

An option at its default is not asked for.  What an option merely allows (``truncate_double`` where there is no float64,
``force`` where there is no error) has no need of a warning.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping

from trtdiag.options import BUILD_LIMIT_S, AnalyzeOptions, CompileOptions, Precision
from trtdiag.wording import shown

_TENSORRT = (
    "workspace_mib optimization_level tactic_sources timing_cache tf32 hardware_compatibility version_compatible"
    " cuda_graphs build_in_process"
)
_RTX = "engine_per_gpu runtime_cache rtx_cuda_graphs kernel_specialization"
_HAVE: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(_TENSORRT.split(), ("tensorrt", "tensorrt-rtx")),
    **dict.fromkeys(_RTX.split(), ("tensorrt-rtx",)),
}
"""The backends that have an option, of those that not all have: they are about TensorRT's builder and its engines."""


class OptionWarning(UserWarning):
    """An option that was asked for has no effect.

    Attributes:
        option: Its name: a field of ``AnalyzeOptions`` or ``CompileOptions``, or an argument.
        value: What was asked for: of a list the entry.
        why: Why it has none, one clause.
    """

    def __init__(self, option: str, value: object, why: str) -> None:
        super().__init__(f"{option}={shown(value)} has no effect: {why}")
        self.option = option
        self.value = value
        self.why = why


def without_effect(options: AnalyzeOptions | CompileOptions, backend: str | None = None) -> Iterator[OptionWarning]:
    """The options that the others, or the backend, leave without effect.

    Args:
        options: What was asked for.
        backend: The name of the backend that builds; ``None`` where nothing is built.
    """
    if options.precision is Precision.KEEP:
        for entry in options.keep_fp32:
            yield OptionWarning("keep_fp32", entry, "precision is keep, so that nothing leaves float32")
    if isinstance(options, CompileOptions) and options.precision is not Precision.INT8:
        for entry in options.keep_float:
            yield OptionWarning("keep_float", entry, f"precision is {options.precision.value}: nothing is quantized")
    usual = type(options.partition)()
    if options.partition.require_full and options.partition.min_segment_ops != usual.min_segment_ops:
        value = options.partition.min_segment_ops
        yield OptionWarning("min_segment_ops", value, "require_full asks for one engine, whatever its size")
    if not isinstance(options, CompileOptions):
        if options.build_limit_s != BUILD_LIMIT_S and not options.try_build:
            yield OptionWarning("build_limit_s", options.build_limit_s, "try_build is not asked for")
        return
    default = vars(CompileOptions())
    asked = {name for name, value in vars(options).items() if value != default[name]}
    asked -= {"cuda_graphs"} if options.cuda_graphs == 0 else set()  # none is what other backends have
    if "engine_cache_mib" in asked and options.engine_cache is None:
        yield OptionWarning("engine_cache_mib", options.engine_cache_mib, "no engine_cache is given")
    if "rtx_cuda_graphs" in asked and options.cuda_graphs:
        yield OptionWarning("rtx_cuda_graphs", options.rtx_cuda_graphs, "cuda_graphs has these runs recorded already")
    if "verify_limit_s" in asked and not options.verify:
        yield OptionWarning("verify_limit_s", options.verify_limit_s, "verify is off, so that nothing is compared")
    if backend is None:
        return
    for name, have in _HAVE.items():
        if name in asked and backend not in have:
            why = f"it is for {' and '.join(have)}, and the backend is {backend}"
            yield OptionWarning(name, getattr(options, name), why)


def warn_of(found: Iterable[Warning], within: Collection[str] = ("trtdiag",)) -> None:
    """Warn of each, as coming from the line outside these packages that called into them."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and str(frame.f_globals.get("__name__", "")).split(".")[0] in within:
        level, frame = level + 1, frame.f_back
    for each in found:
        warnings.warn(each, stacklevel=level)
