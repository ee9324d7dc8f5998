"""Runs an op on fake tensors once for all its calls with equal inputs.

What a call gives on fake tensors depends on dtypes, sizes, strides and devices alone, and a model calls its ops again
and again with the same ones, layer by layer.  Many an op takes milliseconds: it is decomposed in Python.  The cache of
``FakeTensorMode`` looks up the parts of an op, not the op, and spends as long on an entry as on a call.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import accumulate
from operator import mul
from typing import Any, NamedTuple

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, in_kernel_invocation_manager
from torch.utils._python_dispatch import TorchDispatchMode

_PLAIN = (bool, int, float, complex, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)
_TENSORS = (torch.Tensor, torch.nn.Parameter, FakeTensor)
_OF_DATA = {torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output}
_LEAST_RANK = 2
_NORM = torch.ops.aten.native_batch_norm.default


class _UnlikeError(Exception):
    """A call that is like no other: it has to be run."""


class _Value(NamedTuple):
    """What a fake tensor is, but for its storage; sizes and strides as they were given."""

    dtype: torch.dtype
    device: torch.device
    sizes: tuple[Any, ...]
    strides: tuple[Any, ...]


class FakeCallCache(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    """Within it, ops on fake tensors of ``mode`` run once for each kind of call.

    Run are: ops that write into an input or view one, whose results depend on data, and calls with values that are
    known (constants, tensors of one element).

    Args:
        mode: The mode around it.
        known: What another cache has found, of a mode without symbols; it learns what this one finds.
    """

    supports_higher_order_operators = True  # conditions and loops are run

    def __init__(self, mode: FakeTensorMode, known: dict[Any, Any] | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._mode = mode
        self._known = {} if known is None else known

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        if not isinstance(func, OpOverload) or func._schema.is_mutable or func.is_view or {*func.tags} & _OF_DATA:
            return func(*args, **named)
        try:
            key = (func, _key(args), _key(tuple(named.items())))
        except _UnlikeError:
            return func(*args, **named)
        if key in self._known:
            return self._made(self._known[key])
        if func is _NORM and not named and (noted := _normalized(*args)) is not None:
            self._known[key] = noted
            return self._made(noted)
        before = self._mode.cache_enabled
        self._mode.cache_enabled = False
        try:
            given = func(*args, **named)
        finally:
            self._mode.cache_enabled = before
        with suppress(_UnlikeError):
            self._known[key] = self._noted(given, [id(each) for each in args])
        return given

    def _noted(self, given: Any, inputs: list[int]) -> Any:
        """What ``_made`` makes such results of.

        Raises:
            _UnlikeError: One is an input, or more than a fake tensor of its own.
        """
        if isinstance(given, (tuple, list)):
            return [self._noted(each, inputs) for each in given], type(given)
        if given is None:
            return None
        if type(given) is not FakeTensor or id(given) in inputs or given.fake_mode is not self._mode:
            raise _UnlikeError
        if given.constant is not None or not _plain(given) or given.storage_offset() != 0:
            raise _UnlikeError
        return _Value(given.dtype, given.device, tuple(given.shape), given.stride())

    def _made(self, noted: Any) -> Any:
        if noted is None:
            return None
        if isinstance(noted, _Value):
            with in_kernel_invocation_manager(self._mode):
                inner = torch.empty_strided(noted.sizes, noted.strides, dtype=noted.dtype, device="meta")
            return FakeTensor(self._mode, inner, noted.device)
        parts, kind = noted
        return kind(map(self._made, parts))


def _normalized(
    x: Any, weight: Any, bias: Any, mean: Any, variance: Any, training: bool, _momentum: float, _eps: float
) -> Any:
    """What ``_made`` makes the results of a batch norm of, where its statistics are given and all fits.

    Torch takes it apart into twenty ops in Python: of a detector that is run at eight sets of sizes, half of the time.

    Returns:
        ``None`` where the op has to be run.
    """
    if training or mean is None or variance is None or x.device.type != "cpu" or not x.is_floating_point():
        return None
    sizes = tuple(x.shape)
    if len(sizes) < _LEAST_RANK or not all(type(size) is int and size for size in sizes):
        return None
    dense = tuple(accumulate(reversed(sizes[1:]), mul, initial=1))[::-1]
    if x.stride() != dense:
        return None
    of_channels = (x.dtype, x.device, sizes[1:2])
    held = [each for each in (weight, bias, mean, variance) if each is not None]
    if any((each.dtype, each.device, each.shape) != of_channels for each in held):
        return None
    saved = _Value(x.dtype, x.device, (0,), (1,))
    return [_Value(x.dtype, x.device, sizes, dense), saved, saved], tuple


def _key(value: Any) -> Any:
    """Equal for arguments that an op cannot tell apart by anything but data.

    Raises:
        _UnlikeError: Its result may depend on more.
    """
    kind = type(value)
    if kind in _PLAIN:
        return kind, value  # 1, 1.0 and True are equal
    if kind in (tuple, list):
        return kind, *map(_key, value)
    if isinstance(value, torch.SymInt):
        return kind, value.node.expr
    if kind not in _TENSORS or not _plain(value):
        raise _UnlikeError
    if getattr(value, "constant", None) is not None or (kind is not FakeTensor and value.numel() <= 1):
        raise _UnlikeError
    sizes, strides, offset = (*value.shape,), value.stride(), value.storage_offset()
    return value.dtype, value.device, *map(_key, (sizes, strides, offset))


def _plain(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and not (tensor.is_complex() or tensor.is_quantized)
