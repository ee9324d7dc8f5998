"""The optimization profile of an engine: the sizes that it is built for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trtdiag.engine.backend import Profile
from trtdiag.engine.profiles import size_value
from trtdiag.engine.tensorrt.names import input_name
from trtdiag.errors import EngineBuildError
from trtdiag.network import Network, Tensor
from trtdiag.shapes.profile import DimProfile

_LARGEST = 2**31 - 1
"""TensorRT's shape tensors of 8.6 are int32; sizes beyond that are none in any version."""


def add_profile(builder: Any, config: Any, network: Network, profile: Profile, inputs: Sequence[Any]) -> None:
    """Tell TensorRT the least, usual and greatest sizes of all inputs, where there is anything to tell.

    Args:
        builder: TensorRT's builder.
        config: The configuration that gets the profile.
        network: The network.
        profile: Its sizes.
        inputs: Its inputs as TensorRT has them, written completely: what is a shape tensor follows from its readers.

    Raises:
        EngineBuildError: ``profile-open`` for a size without an end, ``profile-refused``.
    """
    made = builder.create_optimization_profile()
    told = False
    for index, (port, tensor) in enumerate(zip(network.inputs, network.input_types, strict=True)):
        name, sizes = input_name(index, port.name), profile[port.name]
        if size_value(tensor) is not None:
            if inputs[index].is_shape_tensor:
                low, usual, high = _ends(port.name, sizes)
                made.set_shape_input(name, low, usual, high)
                told = True
        elif not _is_static(tensor):
            made.set_shape(name, *(tuple(ends) for ends in _ends(port.name, sizes)))
            told = True
    if told and config.add_optimization_profile(made) < 0:
        raise EngineBuildError(
            "TensorRT refuses the sizes that the engine is to be built for",
            because="; ".join(f"{name}: {list(map(_words, sizes))}" for name, sizes in profile.items()),
            fix="report this with the model",
            reference="profile-refused",
        )


def _ends(name: str, sizes: Sequence[DimProfile]) -> tuple[list[int], list[int], list[int]]:
    """All least, all usual and all greatest sizes."""
    high: list[int] = []
    for size in sizes:
        if size.max is None:
            raise EngineBuildError(
                f"the input {name!r} of an engine has a size without an upper end",
                because="TensorRT builds an engine for sizes up to a greatest one",
                fix="declare the dim with a max, and compile again",
                reference="profile-open",
            )
        high.append(min(size.max, _LARGEST))
    return [max(size.min, -_LARGEST) for size in sizes], [size.opt for size in sizes], high


def _is_static(tensor: Tensor) -> bool:
    return tensor.static_shape is not None


def _words(size: DimProfile) -> str:
    return f"{size.min}..{size.opt}..{size.max}"
