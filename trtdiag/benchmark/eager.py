"""The original as PyTorch runs it, in the precision of the compiled program where it takes that."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch

from trtdiag.benchmark.clock import Call
from trtdiag.benchmark.facts import AS_EXPORTED
from trtdiag.benchmark.original import Original
from trtdiag.benchmark.ways import Ready
from trtdiag.graph.pytree import flattened, rebuilt
from trtdiag.lower.precision.apply import DTYPES
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.wording import dtype_text

_Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def prepare(original: Original, compiled: CompiledProgram) -> Ready:
    """Return the original's module, op by op."""
    del compiled
    return way_of(original, build_s=0.0)


def way_of(
    original: Original, compiled_by: Callable[[Any], Any] = lambda function: function, *, build_s: float | None = None
) -> Ready:
    """Return the original as a way to run it.

    With another precision than the program's own its weights are converted, as a user would do; a program that does not
    run like that is run under autocast.

    Args:
        original: The original.
        compiled_by: Makes of a function one to call, anew for each set of sizes.
        build_s: What preparing it took; the first call of each set of sizes prepares it where that is not known.
    """
    function, computes, dtype = _in_half(original)

    def bind(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        args, kwargs = (args, kwargs) if dtype is None else _in_dtype((args, kwargs), dtype)
        made = compiled_by(function)
        return lambda: made(*args, **kwargs)

    return Ready(bind, computes, build_s, build_is_first_call=build_s is None)


def _in_half(original: Original) -> tuple[Callable[..., Any], str, torch.dtype | None]:
    """A function like the original, what it computes in, and the dtype that its float32 arguments are to have."""
    module = original.module
    dtype = DTYPES.get(original.precision)
    if dtype is None:
        return module, AS_EXPORTED, None
    try:
        converted = copy.deepcopy(module).to(dtype)
        args, kwargs = _in_dtype(original.inputs(original.sizes("opt")), dtype)
        with torch.no_grad():
            converted(*args, **kwargs)
    except Exception:  # torch has no word for what a program cannot be converted to

        def cast(*args: Any, **kwargs: Any) -> Any:
            with torch.autocast(original.device.type, dtype):
                return module(*args, **kwargs)

        return cast, f"{dtype_text(dtype)} by autocast", None
    return converted, dtype_text(dtype), dtype


def _in_dtype(given: _Arguments, dtype: torch.dtype) -> _Arguments:
    leaves, spec = flattened(given)
    cast = [x.to(dtype) if isinstance(x, torch.Tensor) and x.dtype is torch.float32 else x for x in leaves]
    args, kwargs = rebuilt(cast, spec)
    return args, kwargs
