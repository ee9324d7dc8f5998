"""Results that are written into memory of the caller's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from trtdiag.errors import UserError
from trtdiag.graph.pytree import TreeSpec, flattened, leaves_of
from trtdiag.wording import one_of_type


def flat_outputs(expected: TreeSpec | None, outputs: Any) -> list[Any]:
    """The tensors to write into, in the order of the program's results.

    Args:
        expected: How the program nests its results, where that is known.
        outputs: Nested as what it returns; ``None`` for a result that is no tensor.

    Raises:
        UserError: ``given-outputs`` where they are nested in another way, or one is no tensor.
    """
    if isinstance(outputs, torch.Tensor) and expected is not None and expected.is_leaf():
        return [outputs]
    found, spec = flattened(outputs)
    if expected is not None and spec != expected:
        raise _refused(f"they are nested as {spec}", f"nested as the results are: {expected}")
    for place, tensor in enumerate(found):
        if tensor is not None and not isinstance(tensor, torch.Tensor):
            raise _refused(f"output {place} is {one_of_type(tensor)}", "tensors")
    return found


def fill(outputs: Sequence[Any], result: Any) -> None:
    """Copy a result into the tensors that were given for it; none is changed where one does not fit.

    Raises:
        UserError: ``given-outputs`` for another shape, dtype or device.
    """
    pairs = list(enumerate(zip(outputs, leaves_of(result), strict=True)))
    for place, (output, made) in pairs:
        if not isinstance(made, torch.Tensor):
            if output is not None:
                raise _refused(f"output {place} is a tensor", f"None, for that result is {one_of_type(made)}")
        elif output is None or _kind(output) != _kind(made):
            seen = "None" if output is None else _words(output)
            raise _refused(f"output {place} is {seen}", f"{_words(made)} for these inputs")
    for _, (output, made) in pairs:
        if output is not None:
            output.copy_(made)


def _kind(tensor: torch.Tensor) -> tuple[object, ...]:
    return tensor.shape, tensor.dtype, tensor.device


def _words(tensor: torch.Tensor) -> str:
    dtype = str(tensor.dtype).removeprefix("torch.")
    return f"{dtype}[{', '.join(map(str, tensor.shape))}] on {tensor.device}"


def _refused(seen: str, wanted: str) -> UserError:
    return UserError(
        "the program cannot write its results into the outputs that were given",
        because=f"{seen}; needed is {wanted}",
        fix="give tensors like those that a call without outputs returns for the same inputs",
        reference="given-outputs",
    )
