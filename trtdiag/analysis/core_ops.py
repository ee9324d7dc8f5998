"""Which ops have a converter, which core ATen ops are taken apart, and which stay with PyTorch and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from trtdiag.convert.registry import Converter, converters
from trtdiag.graph.operators import (
    OpOverload,
    core_operators,
    schema_name,
    short_name,
    target_name,
    written_arguments,
)
from trtdiag.lower.complex.rules import ops_on_pairs
from trtdiag.lower.decomposable import decomposition_of
from trtdiag.lower.functional_variants import functional_variant
from trtdiag.lower.running_statistics import WRITES_STATISTICS
from trtdiag.lower.views_in_place import RESIZES
from trtdiag.targets import TARGETS, Target


@dataclass(frozen=True)
class CoreOp:
    """A core ATen op without a converter of its own: ``why`` is a class of reasons, ``meaning`` says it."""

    op: str
    why: str
    meaning: str


@dataclass(frozen=True)
class Coverage:
    """What one target can be given.

    Attributes:
        target: The version; converters are the same for all, what they write is not.
        converters: Every op with a converter, by name.
        decomposed: Core ops that lowering takes apart, or writes without a change in place.
        sizes: Core ops that ask for sizes: computed where they are needed, never converted.
        missing: Core ops that stay with PyTorch.
        core: How many core ops this torch has.
        written_otherwise: Layer kinds that newer targets have and this one has not; others are written in their place.
        as_pairs: Core ops on complex numbers that lowering writes with pairs of real tensors.
        on_complex: What becomes of every op that takes or gives complex numbers and can be in an engine, by its name.
    """

    target: Target
    converters: tuple[Converter, ...]
    decomposed: tuple[str, ...]
    sizes: tuple[str, ...]
    missing: tuple[CoreOp, ...]
    core: int
    written_otherwise: tuple[str, ...]
    as_pairs: tuple[str, ...] = ()
    on_complex: Mapping[str, str] = field(default_factory=dict)


_MEANINGS = {
    "backward": "part of training, not of a forward pass",
    "random": "draws random numbers; an engine would draw them once, when it is built",
    "data-dependent": "the size of its result, or a number in it, depends on the data",
    "mutation": "writes into its argument, and engines only return new tensors",
    "memory-layout": "asks for or fixes the layout in memory, which engine tensors do not have",
    "no-converter": "no layers of TensorRT do it, or nobody wrote them yet",
}
_LAYOUT = frozenset({"sym_stride", "sym_storage_offset", "sym_is_contiguous"})
_SIZES = frozenset({"sym_size", "sym_numel"})


def coverage(target: Target) -> Coverage:
    """Return the coverage for a target, from the registry and the core set of the torch that runs."""
    known = converters()
    on_complex = ops_on_pairs()
    decomposed, sizes, as_pairs, missing = [], [], [], []
    for op in core_operators():
        name = target_name(op)
        if name in known:
            continue
        if short_name(op) in _SIZES:
            sizes.append(name)
        elif decomposition_of(op) is not None or _made_functional(op):
            decomposed.append(name)
        elif short_name(op) in on_complex:
            as_pairs.append(name)
        else:
            why = _why(op)
            missing.append(CoreOp(name, why, _MEANINGS[why]))
    return Coverage(
        target=target,
        converters=tuple(known.values()),
        decomposed=tuple(decomposed),
        sizes=tuple(sizes),
        missing=tuple(missing),
        core=len(core_operators()),
        written_otherwise=tuple(sorted(TARGETS[-1].layers - target.layers)),
        as_pairs=tuple(as_pairs),
        on_complex=on_complex,
    )


def _made_functional(op: OpOverload) -> bool:
    """Whether lowering writes an op that writes into its arguments as one that has a converter, or as views."""
    if schema_name(op) in RESIZES or op in WRITES_STATISTICS:
        return True
    variant = functional_variant(op) if written_arguments(op) else None
    return variant is not None and (target_name(variant.op) in converters() or decomposition_of(variant.op) is not None)


def _why(op: OpOverload) -> str:
    name = short_name(op)
    if name.endswith("_backward"):
        return "backward"
    if torch.Tag.nondeterministic_seeded in op.tags:
        return "random"
    if torch.Tag.data_dependent_output in op.tags or torch.Tag.dynamic_output_shape in op.tags:
        return "data-dependent"
    if written_arguments(op):
        return "mutation"
    return "memory-layout" if name in _LAYOUT else "no-converter"
