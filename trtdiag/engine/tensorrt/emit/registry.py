"""Which function writes which kind of layer."""

from __future__ import annotations

from typing import TypeVar, get_args, get_type_hints

from trtdiag.engine.tensorrt.emission import Emitter
from trtdiag.network import Layer

_E = TypeVar("_E", bound=Emitter)

REGISTERED: dict[type[Layer], Emitter] = {}


def emitter(function: _E) -> _E:
    """Register a function as the one that writes layers of the kinds that its parameter ``layer`` can be."""
    kinds = get_type_hints(function)["layer"]
    for kind in get_args(kinds) or (kinds,):
        assert kind not in REGISTERED
        REGISTERED[kind] = function
    return function
