"""Options, frozen and defined once; the command line and ``pyproject.toml`` fill the same fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import Any, TypeVar

from trtdiag.arguments import (
    Check,
    flag,
    instance,
    keep_checked,
    mapping,
    one_of,
    optional,
    place,
    seconds,
    sizes_by_name,
    text,
    unknown,
    whole,
    words,
)
from trtdiag.asked_bounds import AskedBound, bounds_by_name
from trtdiag.asked_profiles import AskedProfile, profiles_by_name

Progress = Callable[[str], None]
"""Called with the name of each stage as it begins, and with longer steps inside of one."""
KERNEL_SPECIALIZATION = ("lazy", "eager", "none")
"""When TensorRT-RTX compiles kernels for the sizes that come."""
AUTO = "auto"
"""As a backend: the usual one, and what is faster of it and AOTInductor for each segment."""
LATENCY = "latency"
OPTIMIZE = ("none", LATENCY)
"""What to choose the way of each segment for."""
BUILD_LIMIT_S = 1800.0
"""Own choice: a network of 2,000 layers is built in a minute and a half, and the search for an op in some minutes."""
RANDOM = ("torch", "engine")
ENGINE_WEIGHTS = ("inside", "once", "none")
"""Where a saved program has the weights of its engines."""
HARDWARE = ("none", "ampere+", "same-compute-capability")
"""On which GPUs else an engine may run."""


@dataclass(frozen=True)
class PartitionOptions:
    """What goes into engines.

    Attributes:
        min_segment_ops: A segment with fewer ops that compute, views not counted, goes back to PyTorch: crossing costs
            more than it wins.  A program that fits into one engine stays there.  The default is a convention.
        keep_in_torch: Ops (``aten.softmax.int``) and module paths (``layers.0.attn``) to leave to PyTorch.  An entry
            means itself and what is below it: ``aten.softmax`` all its overloads, ``layers.0`` also ``layers.0.attn``,
            but not ``layers.01``.
        require_full: Refuse a program that does not fit into one engine; ``min_segment_ops`` then has no say.
        random: ``torch``: random ops are run where they stand, between engines; ``engine``: PyTorch draws their numbers
            first, those of the original with the same seed, and engines compute with them.
    """

    min_segment_ops: int = 5
    keep_in_torch: tuple[str, ...] = ()
    require_full: bool = False
    random: str = "torch"

    def __post_init__(self) -> None:
        """Check every field.

        Raises:
            UserError: ``wrong-option`` for a value that is not what the field takes.
        """
        _check(self, min_segment_ops=whole(0), random=one_of(*RANDOM))


class Precision(Enum):
    """What floats are computed in; under INT8 what has quantizers in INT8, and the rest as under FP16."""

    KEEP = "keep"
    FP16 = "fp16"
    BF16 = "bf16"
    INT8 = "int8"

    @classmethod
    def named(cls, name: str | Precision) -> Precision:
        """The precision of this name.

        Raises:
            UserError: ``wrong-option`` where there is none.
        """
        if isinstance(name, cls):
            return name
        known = [each.value for each in cls]
        if not isinstance(name, str) or name not in known:
            raise unknown(name, known, what="precision", reference="wrong-option")
        return cls(name)


@dataclass(frozen=True)
class AnalyzeOptions:
    """What to analyse for, and what to report.

    Attributes:
        target: TensorRT version to answer for (such as ``10.16``); ``None``: the installed one, else the newest known.
        select: Rules to run: ids, beginnings of ids, names; empty selects all.
        ignore: Rules to leave out, same words; where ``select`` names them by more of their ids, they run.
        truncate_double: Plan engines that compute float64 in float32; otherwise ops on float64 stay in PyTorch.
        partition: What would go into engines.
        precision: What float32 would be computed in inside engines.
        keep_fp32: What would stay in float32 then; see ``CompileOptions``.
        assume: Bounds of sizes that the data decides; see ``CompileOptions``.
        max_sizes: Greatest sizes of open dims; see ``CompileOptions``.
        gpu: The GPU generations to answer for, of a target of TensorRT-RTX; see ``CompileOptions``.
        try_build: Hand each planned engine to the builder of TensorRT-RTX, which needs no GPU, for ``gpu``; the target
            is the installed release of it unless one with the same builder is named.
        build_limit_s: What ``try_build`` may take, in seconds, the search for a refused op included; the rest is told.
    """

    target: str | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    truncate_double: bool = False
    partition: PartitionOptions = field(default_factory=PartitionOptions)
    precision: Precision = Precision.KEEP
    keep_fp32: tuple[str, ...] = ()
    assume: tuple[AskedBound, ...] = ()
    max_sizes: tuple[tuple[str, int], ...] = ()
    gpu: tuple[str, ...] = ()
    try_build: bool = False
    build_limit_s: float = BUILD_LIMIT_S

    def __post_init__(self) -> None:
        """Check every field, and keep it in its usual form: a list as a tuple, a precision's name as the precision.

        Raises:
            UserError: ``wrong-option`` for a value that is not what the field takes.
        """
        _check(self)


@dataclass(frozen=True)
class CompileOptions:
    """How to compile.

    Attributes:
        target: TensorRT version to compile for; ``None``: the installed one, else the newest known.
        backend: ``reference`` (runs the typed network with PyTorch on the CPU) or ``tensorrt``; ``None``: TensorRT
            where it is installed, else the reference.
        precision: What the program's float32 is computed in.
        keep_fp32: Ops and module paths (as in ``keep_in_torch``) that stay in float32, beside those that always do.
        truncate_double: Compute float64 in float32; otherwise ops on float64 stay in PyTorch.
        partition: What goes into engines.
        assume: The greatest of sizes that the data decides, or least and greatest, by name: ops of such sizes then go
            into engines.  It is not proven; a run with another size is refused.
        max_sizes: The greatest size of dims that the program leaves open, by name; larger inputs are refused.
        opt: The size that engines are tuned for, by the name of a dim or symbol; the example's where it is not named.
        profiles: The sizes of each profile by its name and the names of dims, where engines are to have several; a
            dim that one does not name keeps its range.  Of those that take the sizes of a call the first is used.
        portable: Keep the networks beside the engines, so that an engine can be rebuilt elsewhere.
        force: Compile in spite of ERROR findings.
        verify: Compare the compiled program with the original before it is saved.
        verify_limit_s: What that may take at all sets of sizes together, in seconds; what was not compared by then is
            told.  0: no limit; ``None``: as long as the export and the build took, at least 30 s.
        workspace_mib: Scratch memory that TensorRT's layers may use; ``None``: all of the GPU's.
        optimization_level: How long TensorRT searches, 0 to 5; ``None``: its own default, 3.
        tactic_sources: Where TensorRT takes kernels from (members of ``tensorrt.TacticSource``); none: the environment
            variable ``TRTDIAG_TACTIC_SOURCES``, else its own default.
        timing_cache: A file that keeps what TensorRT measured, so that the next build is quicker.
        tf32: Let TensorRT compute float32 products with 10 bits of mantissa.
        cuda_graphs: For how many sizes runs are kept as CUDA graphs; ``None``: 8 with ``optimize="latency"``, else 0.
        runtime_cache: A file that keeps the kernels that TensorRT-RTX compiles when engines first run;
            ``CompiledProgram.rtx_runtime`` says more of this option and the next two, and changes them later.
        rtx_cuda_graphs: Let TensorRT-RTX itself record whole runs as CUDA graphs.
        kernel_specialization: When TensorRT-RTX compiles kernels for sizes: ``lazy``, ``eager``, ``none``; or its own.
        hardware_compatibility: On which GPUs else an engine may run: ``none``, ``ampere+`` (Ampere and later; costs
            speed) or ``same-compute-capability`` (not with TensorRT 8.6).
        version_compatible: Whether later TensorRT versions of the same major number may run an engine.
        engine_cache: A folder that keeps engines, so that what was built before is not built again.
        engine_cache_mib: Above that the engines that were not used for longest are removed.  10 GiB is a convention.
        build_jobs: How many engines are built at once; ``None``: one, but several where nothing is measured (level 0).
        build_in_process: Build in this process, which a crash of TensorRT's builder then ends.
        gpu: The GPU generations (``sm89``, ``all``) that engines of TensorRT-RTX are built for; none: that of this
            machine's GPU, where it is one of them, else all from ``sm80`` on.
        engine_per_gpu: An engine for each of ``gpu``, of which a program loads what fits; otherwise one runs on all.
        refittable: Let the engines take other weights later, without a build (``trtdiag.refit``).  TensorRT then
            optimizes nothing away that rests on their values, which may cost speed.
        engine_weights: Where a saved program has the weights of its engines: ``inside`` of them; ``once``: the model's
            parameters beside engines without weights, which take them when the file is loaded; ``none``: nowhere, they
            are given to ``load``.  The last two make engines refittable.
        optimize: ``latency``: measure for each segment whether its engine or AOTInductor's code is faster at the sizes
            to tune for, and take what is fastest as a whole program; ``none``: engines alone.
        profile_layers: Run each engine some times at the sizes to tune for, to report the time of each of its layers.
        keep_float: What calibrating for ``int8`` leaves without quantizers, in the words of ``keep_fp32``.
    """

    target: str | None = None
    backend: str | None = None
    precision: Precision = Precision.KEEP
    keep_fp32: tuple[str, ...] = ()
    truncate_double: bool = False
    partition: PartitionOptions = field(default_factory=PartitionOptions)
    assume: tuple[AskedBound, ...] = ()
    max_sizes: tuple[tuple[str, int], ...] = ()
    opt: tuple[tuple[str, int], ...] = ()
    profiles: tuple[AskedProfile, ...] = ()
    portable: bool = False
    force: bool = False
    verify: bool = True
    verify_limit_s: float | None = None
    workspace_mib: int | None = None
    optimization_level: int | None = None
    tactic_sources: tuple[str, ...] = ()
    timing_cache: str | None = None
    tf32: bool = False
    cuda_graphs: int | None = None
    runtime_cache: str | None = None
    rtx_cuda_graphs: bool = False
    kernel_specialization: str | None = None
    hardware_compatibility: str = "none"
    version_compatible: bool = False
    engine_cache: str | None = None
    engine_cache_mib: int = 10_240
    build_jobs: int | None = None
    build_in_process: bool = False
    gpu: tuple[str, ...] = ()
    engine_per_gpu: bool = False
    refittable: bool = False
    engine_weights: str = "inside"
    profile_layers: bool = False
    optimize: str = "none"
    keep_float: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check every field; see ``AnalyzeOptions``.

        Raises:
            UserError: ``wrong-option`` for a value that is not what the field takes.
        """
        _check(
            self,
            verify_limit_s=optional(seconds),
            workspace_mib=optional(whole(0, _MOST_MIB)),
            optimization_level=optional(whole(0, 5)),
            timing_cache=optional(place),
            cuda_graphs=optional(whole(0)),
            runtime_cache=optional(place),
            kernel_specialization=optional(one_of(*KERNEL_SPECIALIZATION)),
            hardware_compatibility=one_of(*HARDWARE),
            engine_weights=one_of(*ENGINE_WEIGHTS),
            engine_cache=optional(place),
            engine_cache_mib=whole(1),
            build_jobs=optional(whole(1)),
            optimize=one_of(*OPTIMIZE),
        )


MIB = 2**20  # bytes
_MOST_MIB = 2**43 - 1  # so many are below 2**63 bytes, the limit of a size in TensorRT's API
_OF_TYPE: Mapping[str, Check] = {
    "bool": flag,
    "float": seconds,
    "str | None": optional(text),
    "tuple[str, ...]": words,
    "tuple[AskedBound, ...]": bounds_by_name,
    "tuple[AskedProfile, ...]": profiles_by_name,
    "tuple[tuple[str, int], ...]": sizes_by_name,
    "PartitionOptions": instance(PartitionOptions),
    "Precision": lambda _name, value: Precision.named(value),
}
"""What a field of this type takes, unless its own check says more."""


def _check(options: Any, **own: Check) -> None:
    """Check every field of options: by its own check, else by its type."""
    keep_checked(options, **{each.name: own.get(each.name) or _OF_TYPE[str(each.type)] for each in fields(options)})


_Options = TypeVar("_Options", AnalyzeOptions, CompileOptions)


def of_kind(kind: type[_Options], options: AnalyzeOptions | CompileOptions, **changes: Any) -> _Options:
    """The options of another kind: what both have stays, and ``changes`` name what does not."""
    both = {entry.name for entry in fields(kind)} & {entry.name for entry in fields(options)}
    return kind(**{name: getattr(options, name) for name in both} | changes)


def with_changes(options: _Options, changes: Mapping[str, Any]) -> _Options:
    """The options with single fields, or those of their ``partition``, changed by name.

    Raises:
        UserError: ``unknown-option``, with the name that was meant; ``wrong-option``.
    """
    own = {entry.name for entry in fields(options)}
    parts = {entry.name for entry in fields(PartitionOptions)}
    for name in mapping("options", changes):
        if name not in own | parts:
            raise unknown(name, sorted((own | parts) - {"partition"}))
    changed = replace(options, **{name: value for name, value in changes.items() if name in own})
    within = {name: value for name, value in changes.items() if name in parts}
    return replace(changed, partition=replace(changed.partition, **within)) if within else changed
