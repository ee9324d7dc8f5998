"""The optimization profiles of an engine: the sizes that it is built for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trtdiag.engine.backend import Profile
from trtdiag.engine.profiles import parts_of, size_value
from trtdiag.engine.tensorrt.engine_bindings import input_name
from trtdiag.engine.tensorrt.log import Lines, last_lines
from trtdiag.errors import EngineBuildError
from trtdiag.network import Network
from trtdiag.shapes.profile import DimProfile

_LARGEST = 2**31 - 1
"""TensorRT's shape tensors of 8.6 are int32; sizes beyond that are none in any version."""


def add_profiles(
    builder: Any, config: Any, network: Network, profile: Profile, inputs: Sequence[Any], lines: Lines
) -> None:
    """Tell TensorRT the least, usual and greatest sizes of all inputs, where there is anything to tell.

    Args:
        builder: TensorRT's builder.
        config: The configuration that gets the profile.
        network: The network.
        profile: Its sizes; several give one profile each, in their order.
        inputs: Its inputs as TensorRT has them, written completely: what is a shape tensor follows from its readers.
        lines: What TensorRT says meanwhile.

    Raises:
        EngineBuildError: ``profile-open`` for a size without an end, ``profile-refused``.
    """
    for _, own in parts_of(profile):
        _add(builder, config, network, own, inputs, lines)


def _add(builder: Any, config: Any, network: Network, profile: Profile, inputs: Sequence[Any], lines: Lines) -> None:
    made = builder.create_optimization_profile()
    told = False
    for index, (port, tensor) in enumerate(zip(network.inputs, network.input_types, strict=True)):
        name, sizes = input_name(index, port.name), profile[port.name]
        is_size = size_value(tensor) is not None
        if not inputs[index].is_shape_tensor if is_size else tensor.static_shape is not None:
            continue
        ends = _ends(port.name, sizes)
        try:
            if is_size:
                made.set_shape_input(name, *ends)
            else:
                made.set_shape(name, *map(tuple, ends))
        except (RuntimeError, ValueError) as error:  # what the bindings make of a size that TensorRT does not take
            raise _refused({port.name: sizes}, f"{error}; {last_lines(lines)}") from error
        told = True
    if told and config.add_optimization_profile(made) < 0:
        raise _refused(profile, last_lines(lines))


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


def _refused(profile: Profile, why: str) -> EngineBuildError:
    ends = {name: ", ".join(f"{size.min}..{size.opt}..{size.max}" for size in sizes) for name, sizes in profile.items()}
    sizes = "; ".join(f"{name}: {own}" for name, own in ends.items())
    return EngineBuildError(
        f"TensorRT refuses the sizes (least..usual..greatest) that an engine is to be built for: {sizes}",
        because=why,
        fix="declare ranges in which every size is possible, and an opt inside of them",
        reference="profile-refused",
    )
