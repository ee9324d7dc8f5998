"""Dims that were declared dynamic and take one value only in the program, and the reason."""

from __future__ import annotations

from trtdiag.capture.program import InputDim, Pin, Program
from trtdiag.capture.sites import Sites
from trtdiag.dims.facts import GuardOrigin, Pinned
from trtdiag.graph.source import NO_STACK


def pinned(program: Program, sites: Sites) -> tuple[Pinned, ...]:
    """Every input dim that the user asked to be dynamic, or that tracing began as dynamic, and that is a number."""
    by_site = {pin.site: pin for pin in program.pins}
    found = []
    for dim in sites.dims:
        value = sites.static(dim)
        pin = by_site.get(dim.site)
        if value is None and pin is not None:
            value = pin.value
        if value is None or (dim.dynamic is not True and pin is None):
            continue
        found.append(Pinned(dim.site, dim.declared or "dynamic", value, _why(dim, value, pin), _origin(pin)))
    return tuple(found)


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
    frames = pin.stack.frames
    return GuardOrigin(("ShapeEnv",), pin.stack, None if not frames else frames[-1].package not in ("torch", "python"))
