"""Which function writes which kind of layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from trtdiag.engine.tensorrt.emission import Emitter, Outputs, Step
from trtdiag.network import Layer

_L = TypeVar("_L", bound=Layer)

REGISTERED: dict[type[Layer], Emitter] = {}


def emitter(kind: type[_L]) -> Callable[[Callable[[Step, _L], Outputs]], Callable[[Step, _L], Outputs]]:
    """Register a function as the one that writes layers of a kind."""

    def register(function: Callable[[Step, _L], Outputs]) -> Callable[[Step, _L], Outputs]:
        assert kind not in REGISTERED
        written: Callable[[Step, Any], Outputs] = function
        REGISTERED[kind] = written
        return function

    return register
