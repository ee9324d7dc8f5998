"""The original as PyTorch runs it, in the precision of the compiled program where it takes that."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch

from trtdiag.benchmark.facts import AS_EXPORTED
from trtdiag.benchmark.original import Original
from trtdiag.graph.trees import flattened, rebuilt
from trtdiag.options import Precision

_DTYPES = {Precision.FP16: torch.float16, Precision.BF16: torch.bfloat16}


def runnable(original: Original, example: tuple[tuple[Any, ...], dict[str, Any]]) -> tuple[Callable[..., Any], str]:
    """Return a function like the original, and what it computes in.

    With another precision than the program's own its weights are converted, as a user would do; a program that does not
    run like that is run under autocast.

    Args:
        original: The original.
        example: Arguments and keyword arguments to try it with.
    """
    module = original.module
    dtype = _DTYPES.get(original.precision)
    if dtype is None:
        return module, AS_EXPORTED
    name = str(dtype).removeprefix("torch.")
    try:
        converted = copy.deepcopy(module).to(dtype)
        args, kwargs = in_dtype(example, dtype)
        with torch.no_grad():
            converted(*args, **kwargs)
    except Exception:  # torch has no word for what a program cannot be converted to

        def cast(*args: Any, **kwargs: Any) -> Any:
            with torch.autocast(original.device.type, dtype):
                return module(*args, **kwargs)

        return cast, f"{name} by autocast"
    return converted, name


def in_dtype(
    given: tuple[tuple[Any, ...], dict[str, Any]], dtype: torch.dtype
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments whose float32 tensors are of another dtype."""
    leaves, spec = flattened(given)
    cast = [x.to(dtype) if isinstance(x, torch.Tensor) and x.dtype is torch.float32 else x for x in leaves]
    args, kwargs = rebuilt(cast, spec)
    return args, kwargs


def arguments(
    original: Original, computes: str, given: tuple[tuple[Any, ...], dict[str, Any]]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments as ``runnable`` takes them."""
    dtype = _DTYPES.get(original.precision)
    converted = dtype is not None and computes == str(dtype).removeprefix("torch.")
    return in_dtype(given, dtype) if converted and dtype is not None else given
