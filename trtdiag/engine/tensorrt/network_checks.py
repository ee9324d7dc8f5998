"""What is looked at before a build: types that TensorRT infers, and sizes below 0."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trtdiag.engine.backend import Profile
from trtdiag.engine.tensorrt.api_versions import Dialect
from trtdiag.engine.tensorrt.emission import Outputs
from trtdiag.engine.tensorrt.log import Lines
from trtdiag.engine.tensorrt.refusal import refused_layer
from trtdiag.errors import EngineBuildError, InternalError
from trtdiag.network import Network, Placed, Tensor
from trtdiag.shapes.profile import DimProfile
from trtdiag.symbolic import Expr, Num, Sym, evaluate, free_symbols


def check_agreement(dialect: Dialect, network: Network, made: Sequence[tuple[Placed, Outputs]], lines: Lines) -> None:
    """Compare rank, sizes that are numbers, and in strongly typed networks the dtype, layer by layer.

    So the first layer that is wrong is named, not one further on that cannot be built.

    Raises:
        EngineBuildError: ``layer-refused`` where TensorRT finds no shape.
        InternalError: ``tensorrt-disagrees``.
    """
    for placed, outputs in made:
        for number, output in zip(placed.outputs, outputs, strict=True):
            try:
                sizes = tuple(output.shape)
            except (ValueError, RuntimeError) as error:  # for a shape that cannot be: -1 dims before 11, an error since
                raise refused_layer(network, placed, lines, "it finds no shape for the output") from error
            expected = network.tensors[number]
            seen = _difference(dialect, expected, sizes, output)
            if seen:
                raise InternalError(
                    f"TensorRT takes {network.describe(placed)} for another layer than was meant",
                    because=f"meant was {expected}, TensorRT finds {seen}",
                    fix="leave the op to PyTorch (keep_in_torch), and report it with the model",
                    reference="tensorrt-disagrees",
                )


def _difference(dialect: Dialect, expected: Tensor, sizes: tuple[int, ...], output: Any) -> str:
    if len(sizes) != expected.rank:
        return f"{len(sizes)} dims: {sizes}"
    for size, found in zip(expected.shape, sizes, strict=True):
        if isinstance(size, Num) and found not in (-1, size.value):
            return f"sizes {sizes}"
    if dialect.strongly_typed and output.dtype != dialect.dtype(expected.dtype):
        return f"{output.dtype}"
    return ""


# Sizes below 0 inside of an engine, before it is built: TensorRT 8.6.0 builds it, and cannot run it there.


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
