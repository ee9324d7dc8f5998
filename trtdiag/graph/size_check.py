"""The custom op ``trtdiag::check_size``, which refuses a size that was assumed to be another; importing registers it.

torch's own assertions have a text that is fixed, and this one says what the size is.
"""

from __future__ import annotations

import torch
from torch.fx.node import has_side_effect

from trtdiag.asked_bounds import bound_word
from trtdiag.errors import ShapeOutOfRangeError
from trtdiag.graph.unbacked_symbols import expect

NAME = "trtdiag::check_size"
SCHEMA = "(SymInt size, int? least, int? most, str name, str place) -> ()"


def refuse_size(size: int, least: int | None, most: int | None, name: str, place: str) -> ShapeOutOfRangeError:
    """The error of a size that is none that was assumed.

    Args:
        size: What it is.
        least: The least that was assumed, if any.
        most: The greatest that was assumed, if any.
        name: What the user calls it.
        place: What makes it: the op, and its source line where that is known.
    """
    other, less = ("greater", "smaller") if most is not None and size > most else ("smaller", "greater")
    return ShapeOutOfRangeError(
        f"{name} is {size}, and the program was compiled with --assume '{bound_word((name, least, most))}'",
        because=f"{place} made it of the values of the inputs, and engines are built for what was assumed",
        fix=f"compile with a {other} bound in --assume (assume= in Python), or give inputs that make it {less}",
        reference="assumed-size",
    )


def _check(size: int, least: int | None, most: int | None, name: str, place: str) -> None:
    if (least is not None and size < least) or (most is not None and size > most):
        raise refuse_size(size, least, most, name, place)


def _trace(size: int, least: int | None, most: int | None, name: str, place: str) -> None:
    """Let a tracer know what is checked."""
    del place
    if least is not None:
        expect(size >= least, f"{name} is assumed to be {least} or more")
    if most is not None:
        expect(size <= most, f"{name} is assumed to be {most} or less")


def _register() -> None:
    torch.library.define(NAME, SCHEMA, tags=(torch.Tag.pt2_compliant_tag,))
    torch.library.impl(NAME, "CompositeExplicitAutograd", _check)
    torch.library.register_fake(NAME, _trace)
    has_side_effect(torch.ops.trtdiag.check_size.default)  # what removes unused nodes leaves it in


_register()

CHECK_SIZE = torch.ops.trtdiag.check_size.default
