"""The requests that a server makes of itself when it loads a model: the usual sizes, and the corners of all ranges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from trtdiag.deployment.interface import USUAL, Interface
from trtdiag.deployment.plans import in_profile, whole_program
from trtdiag.deployment.triton_config import WarmUp
from trtdiag.runtime.compiled import CompiledProgram
from trtdiag.wording import bytes_text

MOST_BYTES = 1 << 28
"""Own choice, of the inputs of one request: a server holds them while it loads the model."""


@dataclass(frozen=True)
class Requests:
    """Sets of sizes as requests.

    Attributes:
        usual: The sizes that engines are tuned for.
        at: All that the server runs.
        notes: What was left out, in words.
    """

    usual: WarmUp
    at: tuple[WarmUp, ...]
    notes: tuple[str, ...]

    def renamed(self, names: Mapping[str, str]) -> Requests:
        """The same under other names of the inputs."""
        made = [_renamed(each, names) for each in self.at]
        return Requests(_renamed(self.usual, names), tuple(made), self.notes)


def _renamed(request: WarmUp, names: Mapping[str, str]) -> WarmUp:
    return replace(request, shapes={names[name]: shape for name, shape in request.shapes.items()})


def requests_of(compiled: CompiledProgram, interface: Interface, batch: str | None, largest: int) -> Requests:
    """The requests of a program.

    Args:
        compiled: The program.
        interface: Its interface.
        batch: The symbol of the batch, where samples are put together.
        largest: The largest batch.
    """
    found: dict[str, WarmUp] = {}
    notes: list[str] = []
    whole = whole_program(compiled)
    for name, sizes in interface.sizes.items():
        at = dict(sizes)
        if batch is not None:
            at[batch] = max(1, min(at[batch], largest))
        shapes = {port.name: interface.shape(port, at) for port in interface.inputs}
        held = sum(prod(shapes[port.name]) * port.dtype.itemsize for port in interface.inputs)
        cut = {port: shape[int(batch is not None) :] for port, shape in shapes.items()}
        request = WarmUp(name, at[batch] if batch is not None else 0, cut)
        if any(request.shapes == other.shapes and request.batch == other.batch for other in found.values()):
            continue
        if name != USUAL and held > MOST_BYTES:
            notes.append(f"no warm-up at {name}: its inputs are {bytes_text(held)}")
            continue
        if 0 in map(prod, shapes.values()):
            notes.append(f"no warm-up at {name}: an input has no elements")
            continue
        if not isinstance(whole, str):
            order = {port.node: shapes[port.name] for port in interface.inputs}
            if not in_profile(whole.call.manifest, [order[node] for node in whole.inputs]):
                continue  # between the profiles
        found[name] = request
    at_all = tuple(found.values())
    usual = found.get(USUAL) or (at_all[0] if at_all else WarmUp(USUAL, int(batch is not None), {}))
    return Requests(usual, at_all, tuple(notes))
