"""A network to the bytes of an engine; where memory is short, with the greatest tensor that it is short for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from trtdiag.engine.backend import Profile
from trtdiag.engine.build_watch import Watch, build_stopped
from trtdiag.engine.gil_lock import TURNS, Patience
from trtdiag.engine.tensorrt.api_versions import Dialect
from trtdiag.engine.tensorrt.cache_files import keep_timings
from trtdiag.engine.tensorrt.compatibility import refused_lean
from trtdiag.engine.tensorrt.config import new_config
from trtdiag.engine.tensorrt.emission import Emission
from trtdiag.engine.tensorrt.emit import EMITTERS
from trtdiag.engine.tensorrt.gpu import free_mib
from trtdiag.engine.tensorrt.lazy_import import InstalledTensorRT, compute_capability
from trtdiag.engine.tensorrt.log import Lines, logger_of, warnings_of
from trtdiag.engine.tensorrt.monitor import new_monitor
from trtdiag.engine.tensorrt.network_checks import check_agreement, check_sizes
from trtdiag.engine.tensorrt.profile import add_profiles
from trtdiag.engine.tensorrt.refit import allow_refit, name_weights, named_constants
from trtdiag.engine.tensorrt.refusal import refused_build, refused_builder, refused_layer
from trtdiag.engine.tensorrt.type_constraint_relaxation import build_network
from trtdiag.network import Network, Placed
from trtdiag.options import MIB, CompileOptions
from trtdiag.symbolic import Sym, evaluate

_SHARE = 4
"""Own choice: a tensor of a quarter of the workspace and its neighbours, two or three of that size, fill it."""
_MOST_ELEMENTS = 2**31 - 1
"""TensorRT 8.6 says of an input with more: "tensor volume exceeds 2147483647"."""


def too_great(network: Network, profile: Profile, workspace_mib: int | None) -> str:
    """The greatest tensor in words, where it may be why nothing is built; empty where it is not.

    It has more elements than a tensor of TensorRT can have, or is great beside the workspace.  TensorRT 8.6.0 says
    "Could not find any implementation" of both (seen on an H200: attention with scores of 2 GiB and a workspace of
    4 GiB; 32 GiB were enough).
    """
    found = _greatest(network, profile)
    if found is None:
        return ""
    placed, count, size_bytes = found
    where = f"at the greatest sizes the output of {network.describe(placed)} has"
    if count > _MOST_ELEMENTS:
        return f"{where} {count:,} elements, more than 2^31 - 1"
    if workspace_mib is None or size_bytes * _SHARE < workspace_mib * MIB:
        return ""
    return (
        f"{where} {size_bytes // MIB:,} MiB,"
        f" and what is not in or out of the engine must fit into a workspace of {workspace_mib:,} MiB"
    )


def _greatest(network: Network, profile: Profile) -> tuple[Placed, int, int] | None:
    """The layer whose output has most bytes, its elements and bytes; sizes that only the data tells do not count."""
    values: dict[str, int] = {}
    for port, tensor in zip(network.inputs, network.input_types, strict=True):
        for size, own in zip(tensor.values or tensor.shape, profile[port.name], strict=True):
            if isinstance(size, Sym) and own.max is not None:
                values.setdefault(size.name, own.max)
    best: tuple[Placed, int, int] | None = None
    for placed in network.layers:
        for tensor in (network.tensors[number] for number in placed.outputs):
            try:
                # A size may be no integer at the end of a range of which only every second number is possible.
                count = int(prod(evaluate(dim, values) for dim in tensor.shape))
            except (KeyError, ZeroDivisionError, OverflowError):
                continue
            size_bytes = count * tensor.dtype.torch.itemsize
            if best is None or size_bytes > best[2]:
                best = placed, count, size_bytes
    return best


def build(
    installed: InstalledTensorRT,
    network: Network,
    profile: Profile,
    options: CompileOptions,
    watch: Watch | None = None,
) -> bytes:
    """The serialised engine of a network, for the current GPU, or for the GPU generations of the options.

    Raises:
        EngineBuildError: TensorRT refuses the network; names layer, op and source line where they are known.
        PlatformError: ``builder-missing`` where TensorRT cannot use this GPU, ``builder-memory``,
            ``lean-runtime-missing``.
        UserError: An option is none of this version's.
        EngineBuildError: ``build-stopped`` where ``watch`` asked for that.
    """
    dialect = Dialect(installed.trt, installed.target)
    check_sizes(network, profile)
    logger = logger_of(installed.trt)
    watch = watch or Watch()
    with logger.listeners.listening() as lines:
        with TURNS.alone(_waiting(watch)):
            work = _written(installed, dialect, network, profile, options, watch, lines)
        try:
            return _built(installed, work, network, profile, options, watch)
        finally:
            TURNS.put_away(work.let_go)


@dataclass
class _Work:
    """What TensorRT builds from; ``let_go`` destroys it."""

    dialect: Dialect
    builder: Any
    emission: Emission
    config: Any
    lines: Lines

    def let_go(self) -> None:
        """Drop TensorRT's objects, those first that others made."""
        for name in ("config", "emission", "builder"):
            setattr(self, name, None)


def _waiting(watch: Watch) -> Callable[[], None]:
    """Says once why nothing goes on, and ends the wait where the engine is not wanted any more."""
    patience = Patience(lambda: watch.tell("waits for another build of this process", 0.0))

    def waits() -> None:
        if watch.stopped:
            raise build_stopped()
        patience()

    return waits


def _written(
    installed: InstalledTensorRT,
    dialect: Dialect,
    network: Network,
    profile: Profile,
    options: CompileOptions,
    watch: Watch,
    lines: Lines,
) -> _Work:
    """The network and the configuration as TensorRT's own objects."""
    builder = new_builder(installed, lines)
    definition = dialect.create_network(builder)
    emission = Emission(dialect, network, definition, lines)
    if options.refittable:
        emission.refittable = named_constants(network).keys()
    emission.write(EMITTERS)
    for number in name_weights(dialect, definition, emission.named):
        maker = next(placed for placed in network.layers if number in placed.outputs)
        raise refused_layer(network, maker, lines, "its weights cannot be made refittable")
    check_agreement(dialect, network, emission.made, lines)
    capability = options.gpu[0] if options.gpu else compute_capability()
    types = {"half": emission.pinned, "held": bool(emission.held), "quantized": emission.int8.any}
    config = new_config(dialect, builder, options, **types, version=installed.version, capability=capability)
    if options.refittable:
        allow_refit(dialect, config)
    monitor = new_monitor(installed.trt, watch)
    if monitor is not None:
        config.progress_monitor = monitor
    add_profiles(builder, config, network, profile, emission.inputs, lines)
    return _Work(dialect, builder, emission, config, lines)


def _built(
    installed: InstalledTensorRT, work: _Work, network: Network, profile: Profile, options: CompileOptions, watch: Watch
) -> bytes:
    watch.tell("TensorRT builds", 0.0)
    engine = build_network(work.dialect, work.builder, work.config, work.emission, work.lines, watch)
    if engine is None and watch.stopped:
        raise build_stopped()
    if engine is None:
        missing = refused_lean(installed.version, options, work.lines)
        if missing is not None:
            raise missing
        great = too_great(network, profile, options.workspace_mib)
        raise refused_build(network, work.emission.layers, work.lines, great=great, free=free_mib())
    for text in warnings_of(work.lines):
        watch.warned(text)
    if options.timing_cache is not None:
        with TURNS.alone(lambda: None):  # that builds which began with this one take their time is no news
            keep_timings(work.config, Path(options.timing_cache).expanduser())
    return bytes(engine)


def new_builder(installed: InstalledTensorRT, lines: Lines) -> Any:
    """TensorRT's builder for the current GPU.

    Raises:
        PlatformError: ``builder-missing``, ``builder-memory``.
    """
    try:
        return installed.trt.Builder(logger_of(installed.trt))
    except (TypeError, RuntimeError) as error:  # its constructor gave nothing
        raise refused_builder(installed.version, lines, str(error)) from error
