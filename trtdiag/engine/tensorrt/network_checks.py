"""What TensorRT infers for each tensor against what the network says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trtdiag.engine.tensorrt.api_versions import Dialect
from trtdiag.engine.tensorrt.emission import Outputs
from trtdiag.engine.tensorrt.log import Lines
from trtdiag.engine.tensorrt.refusal import refused_layer
from trtdiag.errors import InternalError
from trtdiag.network import Network, Placed, Tensor
from trtdiag.symbolic import Num


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
