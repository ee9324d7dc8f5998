"""A network to the bytes of an engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trtdiag.engine.backend import Profile
from trtdiag.engine.build_watch import Watch
from trtdiag.engine.gil_lock import TURNS, Patience
from trtdiag.engine.tensorrt.api_versions import Dialect
from trtdiag.engine.tensorrt.compatibility import refused_lean
from trtdiag.engine.tensorrt.config import new_config
from trtdiag.engine.tensorrt.emission import Emission
from trtdiag.engine.tensorrt.emit import EMITTERS
from trtdiag.engine.tensorrt.gpu import free_mib
from trtdiag.engine.tensorrt.lazy_import import InstalledTensorRT, compute_capability
from trtdiag.engine.tensorrt.log import Lines, logger_of, warnings_of
from trtdiag.engine.tensorrt.monitor import new_monitor
from trtdiag.engine.tensorrt.network_checks import check_agreement, check_sizes
from trtdiag.engine.tensorrt.peak_tensor import too_great
from trtdiag.engine.tensorrt.profile import add_profiles
from trtdiag.engine.tensorrt.refit import allow_refit, name_weights, named_constants
from trtdiag.engine.tensorrt.refusal import refused_build, refused_builder, refused_layer
from trtdiag.engine.tensorrt.timing_cache import keep_timings
from trtdiag.engine.tensorrt.type_constraint_relaxation import build_network
from trtdiag.errors import EngineBuildError
from trtdiag.network import Network
from trtdiag.options import CompileOptions


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
            raise _stopped()
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
    builder = _builder(installed, logger_of(installed.trt), lines)
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
        raise _stopped()
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


def _stopped() -> EngineBuildError:
    return EngineBuildError(
        "the build was stopped",
        because="its engine is not wanted any more",
        fix="compile again",
        reference="build-stopped",
    )


def _builder(installed: InstalledTensorRT, logger: Any, lines: Lines) -> Any:
    try:
        return installed.trt.Builder(logger)
    except (TypeError, RuntimeError) as error:  # its constructor gave nothing
        raise refused_builder(installed.version, lines, str(error)) from error
