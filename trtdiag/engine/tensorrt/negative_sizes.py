"""Sizes below 0 inside of an engine, before it is built: TensorRT 8.6.0 builds it, and cannot run it there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trtdiag.engine.backend import Profile
from trtdiag.errors import EngineBuildError
from trtdiag.network import Network
from trtdiag.shapes.profile import DimProfile
from trtdiag.symbolic import Expr, Sym, evaluate, free_symbols


def check_sizes(network: Network, profile: Profile) -> None:
    """Refuse a profile with an end at which a tensor has a size below 0.

    Sizes that follow from one size of an input alone are looked at: whether two sizes meet at their ends the profile
    does not tell.

    Raises:
        EngineBuildError: ``profile-impossible``, which names op and source line.
    """
    ends = dict(_ends(network, profile))
    for placed in network.layers:
        for number in placed.outputs:
            for dim in network.tensors[number].shape:
                names = free_symbols(dim)
                if len(names) != 1 or not names <= ends.keys():
                    continue
                (name,) = names
                where, sizes = ends[name]
                size = next((size for size in sizes if _is_negative(dim, {name: size})), None)
                if size is not None:
                    raise EngineBuildError(
                        f"an engine cannot be built for a size of {size} in {where}",
                        because=f"the output of {network.describe(placed)} would have a size of"
                        f" {evaluate(dim, {name: size})}",
                        fix="declare ranges in which every size is possible",
                        reference="profile-impossible",
                    )


def _is_negative(dim: Expr, values: Mapping[str, int]) -> bool:
    try:
        return evaluate(dim, values) < 0
    except (ZeroDivisionError, OverflowError):  # not defined there, so there is no such tensor either
        return False


def _ends(network: Network, profile: Profile) -> Iterator[tuple[str, tuple[str, tuple[int, ...]]]]:
    """The sizes that an input has alone: by symbol, in which input, the least and the greatest."""
    for port, tensor in zip(network.inputs, network.input_types, strict=True):
        for index, (size, own) in enumerate(zip(tensor.shape, profile[port.name], strict=tensor.rank > 0)):
            if isinstance(size, Sym):
                yield size.name, (f"dim {index} of {port.name!r}", _of(own))


def _of(own: DimProfile) -> tuple[int, ...]:
    return (own.min, own.opt) if own.max is None else (own.min, own.opt, own.max)
