"""Inputs as they are written on a command line: ``tokens=1..16x2..4096:int64``."""

from __future__ import annotations

import re
from collections.abc import Iterable

import torch

from trtdiag.errors import ArgumentError
from trtdiag.frontend.input import Input
from trtdiag.wording import near, shown

_DTYPES = {
    name: found for name, found in vars(torch).items() if isinstance(found, torch.dtype) and not name.startswith("_")
}
_SIZE = re.compile(r"[0-9]{1,18}")
_EXAMPLE = "write NAME=SIZES:DTYPE, for example tokens=1..16x2..4096:int64 or image=1..4..8x3x224x224"
_ORDER = 3


def written_inputs(words: Iterable[str]) -> tuple[Input, ...] | dict[str, Input]:
    """What ``--inputs`` gives: by name, or in the order of ``forward``'s parameters where no name is written.

    Args:
        words: Each one or several inputs with commas between: sizes with ``x`` between, a dynamic one as ``min..max``
            or ``min..opt..max``, then the dtype where it is not ``float32``.

    Raises:
        ArgumentError: ``wrong-inputs``: one is not written so, some have names and some have none, or a name stands
            twice.
    """
    texts = [text.strip() for word in words for text in word.split(",")]
    named = [text.partition("=") for text in texts]
    if all(equals for _, equals, _ in named):
        found: dict[str, Input] = {}
        for name, _, text in named:
            if not name.strip().isidentifier() or name.strip() in found:
                why = "it stands there twice" if name.strip() in found else "it is no name of a parameter"
                raise _wrong(f"--inputs has the name {shown(name.strip())}", why)
            found[name.strip()] = _input(text.strip())
        return found
    if any(equals for _, equals, _ in named):
        raise _wrong("--inputs names some inputs and others not", "an order beside names is not clear")
    return tuple(_input(text) for text in texts)


def _input(text: str) -> Input:
    sizes, colon, word = text.partition(":")
    dtype = _DTYPES.get(word.strip().removeprefix("torch.")) if colon else torch.float32
    if dtype is None:
        meant = near(word.strip(), sorted(_DTYPES))
        more = f"; {meant[0]} is near" if meant else ""
        raise _wrong(f"--inputs: {shown(word)} is no dtype", f"torch has none of that name{more}")
    dims = [_dim(part, text) for part in sizes.split("x")] if sizes.strip() else []
    least, usual, most = ([dim[place] for dim in dims] for place in range(_ORDER))
    return Input(min=least, opt=usual, max=most, dtype=dtype)


def _dim(part: str, text: str) -> tuple[int, int, int]:
    """Least, usual and greatest size; of ``min..max`` the greatest is the usual one, as of an ``Input``."""
    sizes = [size.strip() for size in part.split("..")]
    if len(sizes) > _ORDER or not all(_SIZE.fullmatch(size) for size in sizes):
        raise _wrong(
            f"--inputs: {shown(part)} of {shown(text)} is no size",
            "a size is 3, a dynamic one 1..8, or 1..4..8 with the one to tune for between",
        )
    numbers = [int(size) for size in sizes]
    return numbers[0], numbers[-2] if len(numbers) == _ORDER else numbers[-1], numbers[-1]


def _wrong(message: str, because: str) -> ArgumentError:
    return ArgumentError(message, because=because, fix=_EXAMPLE, reference="wrong-inputs")
