"""SYM202."""

from __future__ import annotations

from collections.abc import Iterator

from trtdiag.analysis.finding import Applicability, Evidence, Fix, Hit, Place, Severity
from trtdiag.analysis.rules import line_evidence, rule
from trtdiag.dims.facts import DimSystem, Pinned


@rule("SYM202", "pinned-dim", Severity.WARNING)
def pinned_dim(dims: DimSystem) -> Iterator[Hit]:
    """A dim that was declared dynamic takes one value only in the program.

    Why:
        The program was asked to accept many sizes and accepts one: every other size is refused at run
        time, and an engine is built for that size alone.  There are two causes.

        The example input has size 0 or 1 there.  torch.export cannot tell such a size from a broadcast
        dim, so it keeps the number (0/1 specialisation).  The model itself may be fine.

        The model compares the size with a number, or multiplies it with a weight of that size: then only
        this value can pass, and the declaration asks for something that the model does not do.

    Example:
        export(m, (torch.randn(1, 8),), dynamic_shapes=({0: Dim.AUTO},))    # size 1: pinned to 1
        export(m, (torch.randn(2, 8),), dynamic_shapes=({0: Dim.AUTO},))    # dynamic

    Fix safety:
        Another example size is safe: the program accepts all that it accepted and more.  Declaring the dim
        static is safe too: it says what is already so.

    Source:
        torch.fx.experimental.symbolic_shapes, specialize_zero_one; pytorch/TensorRT issue 4103.
    """
    for pin in dims.pinned:
        frame = pin.origin.stack.best
        facts = [
            Evidence(f"{pin.site} is {pin.value} in the program", "the graph's input"),
            *([Evidence(f"declared as {pin.declared}", "dynamic_shapes")] if pin.declared else []),
            Evidence(pin.why, ", ".join(pin.origin.found_in) or "the graph"),
        ]
        facts += line_evidence(frame)
        yield Hit(
            f"{_declared(pin)} but is always {pin.value}: {pin.why}",
            tuple(fact for fact in facts if fact.fact),
            Place(node=pin.origin.node, frame=frame, op=pin.origin.op),
            _fix(pin),
            cause=pin.site,
        )


def _declared(pin: Pinned) -> str:
    return f"{pin.site} was declared dynamic ({pin.declared})" if pin.declared else f"{pin.site} began as dynamic"


def _fix(pin: Pinned) -> Fix:
    if pin.value in (0, 1):
        return Fix(f"export again with an example whose {pin.site} is 2 or more", Applicability.SAFE)
    from trtdiag.fixdims.plain_numbers import made_number  # few programs need it

    instead = made_number(f"{pin.declared or pin.site} == {pin.value}", pin.origin)
    return Fix(
        f"declare {pin.site} static, or {instead or f'change the line that needs it to be {pin.value}'}",
        Applicability.SAFE,
        _static(pin),
    )


def _static(pin: Pinned) -> str:
    """The entry of ``dynamic_shapes``; empty where the site is no dim of a tensor."""
    tensor, _, dim = pin.site.rpartition(".shape[")
    return f"{{{dim.removesuffix(']')}: Dim.STATIC}}  # for {tensor}: always {pin.value}" if tensor else ""
