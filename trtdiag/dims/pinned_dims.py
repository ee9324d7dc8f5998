"""Dims that were declared dynamic and take one value only in the program, and the reason."""

from __future__ import annotations

import re

from trtdiag.dims.facts import GuardOrigin, Pinned
from trtdiag.frontend.dim_sites import Sites
from trtdiag.frontend.program import InputDim, Pin, Program
from trtdiag.graph.source import NO_STACK


def pinned(program: Program, sites: Sites) -> tuple[Pinned, ...]:
    """Every input dim that the user asked to be dynamic, or that tracing began as dynamic, and that is a number."""
    by_site = {pin.site: pin for pin in program.pins}
    checked = _checked(program, sites)
    found = []
    for dim in sites.dims:
        value = sites.static(dim)
        pin = by_site.get(dim.site)
        if value is None and pin is not None:
            value = pin.value
        if value is not None and pin is None and dim.site in checked:
            found.append(Pinned(dim.site, "", value, _CHECKED, GuardOrigin(("_guards_code",))))
        if value is None or (dim.dynamic is not True and pin is None):
            continue
        found.append(Pinned(dim.site, dim.declared or "dynamic", value, _why(dim, value, pin), _origin(pin)))
    return tuple(found)


_CHECKED = "tracing compared it with that size, and the program does not keep the line"
_EQUATION = re.compile(r"(?P<source>.+) == \d+")


def _checked(program: Program, sites: Sites) -> set[str]:
    """The dims that an exported program checks to be one number although nothing is known of their declaration.

    torch writes such a check only for a dim that began as dynamic: one that was never asked for has no guard.
    """
    texts = (str(guard.condition) for guard in program.guards if guard.found_in == "_guards_code")
    dims = (sites.find(match["source"]) for text in texts if (match := _EQUATION.fullmatch(text)))
    return {dim.site for dim in dims if dim is not None and dim.dynamic is None}


def _why(dim: InputDim, value: int, pin: Pin | None) -> str:
    if pin is not None and pin.condition:
        frame = pin.stack.best
        where = f" at {frame}" if frame is not None else ""
        return f"tracing compared it with {value}{where}"
    if value in (0, 1) and dim.hint == value:
        return f"the example input has size {value} here, and torch.export takes 0 and 1 for constants"
    return "tracing took the example's size for a constant; the line is not recorded"


def _origin(pin: Pin | None) -> GuardOrigin:
    if pin is None:
        return GuardOrigin(("input shapes",), NO_STACK)
    return GuardOrigin.traced("ShapeEnv", pin.stack)
