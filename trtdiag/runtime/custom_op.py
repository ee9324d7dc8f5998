"""The custom ops ``trtdiag::execute_engine`` and ``trtdiag::write_caches``; importing this module registers them.

The engine and its manifest are arguments, so that a saved program holds all that it needs.  What the op does is
imported when it first runs: registering costs next to nothing, and so does ``import trtdiag``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.library import Library

from trtdiag.errors import UserError
from trtdiag.graph.dispatch_keys import is_direct, never_traced

if TYPE_CHECKING:
    from trtdiag.runtime.prepared_engines import PreparedEngine

NAME = "trtdiag::execute_engine"
SCHEMA = "(Tensor[] inputs, Tensor engine, str manifest) -> Tensor[]"
WRITING = "trtdiag::write_caches"
WRITING_SCHEMA = "(Tensor[] inputs, Tensor(a!)[] caches, Tensor engine, str manifest) -> Tensor[]"
"""For files: the inputs that an engine writes to stand by themselves, and what it gives is the rest."""

Outputs = Sequence[torch.Tensor]

PREPARED: dict[int, PreparedEngine] = {}
"""What runs calls like calls before, by the identity of an engine's bytes."""


def run_again(inputs: Sequence[torch.Tensor], engine: torch.Tensor, manifest: str) -> Outputs | None:
    """The outputs of a call like one before; ``None`` where it is not like one."""
    prepared = PREPARED.get(id(engine))
    return None if prepared is None else prepared(inputs, engine, manifest)


@never_traced
def _execute(inputs: Sequence[torch.Tensor], engine: torch.Tensor, manifest: str) -> Outputs:
    outputs = run_again(inputs, engine, manifest)
    if outputs is not None:
        return outputs
    from trtdiag.runtime.execution import execute

    return execute(inputs, engine, manifest)  # type: ignore[no-any-return]


def _describe(inputs: Sequence[torch.Tensor], engine: torch.Tensor, manifest: str) -> list[torch.Tensor]:
    from trtdiag.runtime.execution import describe

    return describe(inputs, engine, manifest)


@never_traced
def _write(
    inputs: Sequence[torch.Tensor], caches: Sequence[torch.Tensor], engine: torch.Tensor, manifest: str
) -> Outputs:
    from trtdiag.runtime.in_place_execution import execute_and_write

    return execute_and_write(inputs, caches, engine, manifest)


def _describe_rest(
    inputs: Sequence[torch.Tensor], caches: Sequence[torch.Tensor], engine: torch.Tensor, manifest: str
) -> list[torch.Tensor]:
    from trtdiag.runtime.in_place_execution import describe_rest

    return describe_rest(inputs, caches, engine, manifest)


def _write_nothing(
    inputs: Sequence[torch.Tensor], caches: Sequence[torch.Tensor], engine: torch.Tensor, manifest: str
) -> list[torch.Tensor]:
    from trtdiag.runtime.in_place_execution import write_nothing

    return write_nothing(inputs, caches, engine, manifest)


def _refuse_gradient(ctx: Any, *gradients: Any) -> Any:
    del ctx, gradients
    raise UserError(
        "an engine has no gradient",
        because="engines compute the forward pass only, and backward() has reached one",
        fix="run compiled programs under torch.no_grad() or torch.inference_mode(); train the original model",
        reference="engine-gradient",
    )


class _ShortWay(Library):
    """Registers a gradient so that calls which need none, and are like calls before, run at once.

    torch's own kernel for autograd is a function of Python that calls the next one through the dispatcher: half of what
    a call costs the CPU.
    """

    def impl(self, op_name: Any, fn: Any, dispatch_key: str = "", **how: Any) -> None:
        """Register a kernel; the one for autograd is asked where the call is not that simple."""
        if dispatch_key != "Autograd":
            super().impl(op_name, fn, dispatch_key, **how)  # type: ignore[no-untyped-call]  # as torch is
            return

        @never_traced
        def kernel(keys: Any, inputs: Sequence[torch.Tensor], engine: torch.Tensor, manifest: str) -> Outputs:
            if is_direct(keys) and not (torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs)):
                outputs = run_again(inputs, engine, manifest)
                if outputs is not None:
                    return outputs
            return fn(keys, inputs, engine, manifest)  # type: ignore[no-any-return]

        super().impl(op_name, kernel, dispatch_key, **how)  # type: ignore[no-untyped-call]  # as torch is


_LIBRARY = _ShortWay("trtdiag", "FRAGMENT")  # type: ignore[no-untyped-call]  # as torch is


def _register() -> None:
    torch.library.define(NAME, SCHEMA, lib=_LIBRARY, tags=(torch.Tag.pt2_compliant_tag,))
    # One implementation for all devices: the engine's manifest says where it runs.
    torch.library.impl(NAME, "CompositeExplicitAutograd", _execute, lib=_LIBRARY)
    torch.library.register_fake(NAME, _describe, lib=_LIBRARY)
    torch.library.register_autograd(NAME, _refuse_gradient, lib=_LIBRARY)
    torch.library.define(WRITING, WRITING_SCHEMA, lib=_LIBRARY, tags=(torch.Tag.pt2_compliant_tag,))
    torch.library.impl(WRITING, "CompositeExplicitAutograd", _write, lib=_LIBRARY)
    torch.library.register_fake(WRITING, _describe_rest, lib=_LIBRARY)
    torch.library.impl(WRITING, "Functionalize", _write_nothing, lib=_LIBRARY)


_register()

EXECUTE_ENGINE = torch.ops.trtdiag.execute_engine.default
WRITE_CACHES = torch.ops.trtdiag.write_caches.default
