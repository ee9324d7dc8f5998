"""What of torch stands between the call of an op and its kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, TypeVar

import torch

_Function = TypeVar("_Function", bound=Callable[..., object])
_KEYS = torch._C.DispatchKey  # noqa: SLF001 - torch has no public way to ask, as for all here
_PLAIN: int = reduce(
    lambda found, key: found.add(key),
    [_KEYS.CPU, _KEYS.CUDA, _KEYS.AutogradCPU, _KEYS.AutogradCUDA],
    torch._C.DispatchKeySet(_KEYS.Undefined),  # noqa: SLF001
).raw_repr()


def is_direct(keys: Any) -> bool:
    """Whether nothing but autograd stands before the kernel: no tracer, no mode, no view that is not computed yet.

    Args:
        keys: What an op's kernel for autograd is given where it is registered ``with_keyset``.
    """
    return bool(keys.raw_repr() | _PLAIN == _PLAIN)


def never_traced(function: _Function) -> _Function:
    """Let torch.compile look neither into a function nor into what it calls.

    ``torch.compiler.disable`` imports torch.compile, and is a function around this one at each call: it is used where
    torch no longer has the other way (2.11 to 2.13 have).
    """
    try:
        here = torch._C._dynamo.eval_frame  # noqa: SLF001
        skip = here._FrameAction.SKIP  # noqa: SLF001
        here.set_code_exec_strategy(function.__code__, here._FrameExecStrategy(skip, skip))  # noqa: SLF001
    except AttributeError:
        return torch.compiler.disable(function)  # type: ignore[no-untyped-call,no-any-return]  # as torch is
    return function


def without_writes(
    function: Callable[..., Sequence[torch.Tensor]], given: Sequence[torch.Tensor], written: Sequence[int]
) -> list[torch.Tensor]:
    """For a kernel of ``Functionalize``: a call that changes its tensors as one that changes nothing.

    torch does that by itself for ops that return one tensor, and not for those that return a list of them.

    Args:
        function: From tensors to what they are left with, in the order of ``written``, and further results.
        given: Its tensors, as the kernel has them; they are changed.
        written: The indices of those that change.

    Returns:
        The further results.
    """
    plain = [_unwrapped(tensor) for tensor in given]
    with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(_KEYS.Functionalize)):  # noqa: SLF001
        made = function(plain)
    for index, new in zip(written, made, strict=False):
        torch._functionalize_replace(given[index], new)  # noqa: SLF001
        torch._functionalize_commit_update(given[index])  # noqa: SLF001
        torch._functionalize_sync(given[index])  # noqa: SLF001
    return [torch._to_functional_tensor(result) for result in made[len(written) :]]  # noqa: SLF001


def _unwrapped(tensor: torch.Tensor) -> torch.Tensor:
    if not torch._is_functional_tensor(tensor):  # noqa: SLF001
        return tensor
    torch._functionalize_sync(tensor)  # noqa: SLF001
    return torch._from_functional_tensor(tensor)  # noqa: SLF001
